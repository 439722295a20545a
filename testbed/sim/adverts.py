"""RAs that are under way in a simulation, as compiled code handles them.

The arrays have p_i, F of each class (`router.protocol.schemes.subtree_filter`), what neighbours may still
send, and the relations of filters. A router that handles another event gets its state back first
(`Adverts.give_back`). Questions that compiled code leaves open are put to the pool of filters, as the core
puts them. Relations and answers take a bounded amount of memory: beyond it they are forgotten, and asked for
a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from router.clock.pieces import Piece
from router.native.memory import address_of
from router.predicates.covering.bitset import Bits, bits_of, numbers_in
from router.predicates.covering.budget import PredicateLimits, total_weight
from router.predicates.covering.pool import POOL
from router.predicates.model import Predicate
from router.protocol.broadcast import EpochTable
from router.protocol.forwarding import ForwardingState
from router.protocol.schemes.per_interface import PerInterface
from router.protocol.schemes.per_interface_strict import CoveringFilter
from router.protocol.schemes.subtree_filter import Levels, SubtreeFilter, admit
from router.wire.frames import Frame, FrameType
from testbed.sim.growth import doubled
from testbed.sim.layout import (
    BOXED_MAX,
    BOXES_WAITING,
    COUNT,
    DEPTHS,
    FILTER_COUNT,
    FILTERS,
    FILTERS_MAX,
    FIRST_OTHER,
    HASH,
    HEAD,
    HOPS,
    KINDS,
    LEVEL_WIDTH,
    LEVELS_MAX,
    NEXT,
    OFFSET,
    OPEN,
    PORT_COUNT,
    ROOM,
    ROW,
    UNKNOWN,
    WEIGHT,
    Advert,
    Question,
    Real,
    Relation,
    Verdict,
)
from testbed.sim.ranks import Ranks

_Longs: TypeAlias = npt.NDArray[np.int64]
_Ints: TypeAlias = npt.NDArray[np.int32]
_Sets: TypeAlias = npt.NDArray[np.uint64]

#: The first sizes of arrays that grow.
_LEVELS, _STORE, _HEADS, _SLOTS, _MEMORY, _PLACES = 65_536, 1 << 20, 1 << 16, 1 << 14, 1 << 18, 256
#: Levels name places in the store by 31 bits.
_STORE_MAX = 1 << 31
#: The most bytes that relations of filters, and answers, may take.
RELATIONS_BYTES, ANSWERS_BYTES = 1 << 30, 1 << 29
_WORD_BYTES = 8
#: More pairs than a question about filters costs.
_AMPLE = 1 << 60
_NO_LEVEL, _NOT_LAID_OUT = -1, -2
_NO_FILTER = -1
_WORD_BITS = 64


class Adverts:
    """The state by which compiled code handles RAs.

    Args:
        states: of the routers, by node.
        limits: of every router.
        nodes: int64 [nodes, NODE_WIDTH], with the rows of predicates.
        neighbours: by node, the wires that end at its router, each with the node that it comes from.
        wires: their number.
        samples: int32 [rows, 1 + SAMPLED], of the rows of p_i.
    """

    def __init__(
        self,
        states: list[ForwardingState],
        limits: PredicateLimits,
        nodes: _Longs,
        neighbours: list[list[tuple[int, int]]],
        wires: int,
        samples: _Ints,
    ) -> None:
        self._states, self._limits, self._nodes, self._neighbours = states, limits, nodes, neighbours
        schemes = [state.scheme for state in states]
        assert all(isinstance(scheme, PerInterface) for scheme in schemes)
        self._schemes: list[PerInterface] = schemes  # type: ignore[assignment]
        self.array = np.zeros(len(Advert), np.int64)
        self._predicates: _Sets = np.zeros((0, 0), np.uint64)
        self._relations: _Sets = np.zeros((0, KINDS, 0), np.uint64)
        self._places = np.zeros(0, np.int32)
        #: Places of relations in use, and the event for which all were forgotten last.
        self._placed, self._forgot_at = 0, -1
        self._ranks = Ranks(POOL)
        self._search = np.zeros(0, np.int64)
        #: Filters of predicates that nodes are going to have.
        self._expected: Bits = 0
        self._scratch: _Sets = np.zeros((0, 0), np.uint64)
        self._boxes, self._complete = np.zeros(0, np.uint8), np.zeros(0, np.int32)
        self._numbers = np.full((0, FILTERS_MAX), _NO_FILTER, np.int64)
        self._levels = np.zeros((_LEVELS, LEVEL_WIDTH), np.int32)
        self._store = np.zeros(_STORE, np.int32)
        self._heads = np.zeros(_HEADS, np.int32)
        self._answers = np.zeros(_SLOTS, np.int64)
        self._memory = np.zeros(_MEMORY, np.int64)
        self._answered = 0
        self._head_count = 0
        #: Levels that were returned to routers.
        self._free: list[int] = []
        self._buckets = np.zeros((wires, 2))
        self._changed = np.zeros(int(nodes[-1, ROW] + nodes[-1, PORT_COUNT] + 1), np.uint8)
        self._used = np.zeros(wires, np.uint8)
        self._samples = samples
        #: By node, 1: compiled code has changed the state of the router.
        self.lent = bytearray(len(states))
        self._lent = np.frombuffer(self.lent, np.uint8)
        self._reals = np.zeros(len(Real))
        self._reals[Real.BURST], self._reals[Real.REFILL] = limits.burst, limits.rate
        self._swept = POOL.sweeps, POOL.sweeping
        #: The tables by which heads and depths are laid out, and the depths.
        self._tables: list[EpochTable | None] = [None] * len(states)
        self._depths: list[npt.NDArray[np.uint16] | None] = [None] * len(states)
        #: By node, how many heads of classes have room from `HEAD` on.
        self._rooms = [0] * len(states)
        #: Whether compiled code has F of a router.
        self._borrowed = bytearray(len(states))
        array = self.array
        array[Advert.TURN_PAIRS], array[Advert.TABLE_FILTERS] = limits.turn_pairs, limits.table_filters
        array[Advert.STRICT] = isinstance(self._schemes[0].ingress, CoveringFilter)
        for item, each in (
            (Advert.BUCKETS, self._buckets),
            (Advert.CHANGED, self._changed),
            (Advert.USED, self._used),
            (Advert.SAMPLES, samples),
            (Advert.LENT, self._lent),
            (Advert.REALS, self._reals),
        ):
            array[item] = address_of(each)
        self._attach()
        POOL.register(self)

    # Arrays.

    def _attach(self) -> None:
        """Writes the addresses of arrays that grow."""
        array = self.array
        for item, each in (
            (Advert.PREDICATES, self._predicates),
            (Advert.RELATIONS, self._relations),
            (Advert.BOXES, self._boxes),
            (Advert.COMPLETE, self._complete),
            (Advert.SCRATCH, self._scratch),
            (Advert.NUMBERS, self._numbers),
            (Advert.LEVELS, self._levels),
            (Advert.STORE, self._store),
            (Advert.HEADS, self._heads),
            (Advert.ANSWERS, self._answers),
            (Advert.MEMORY, self._memory),
            (Advert.PLACES, self._places),
            (Advert.SHAPES, self._ranks.places),
            (Advert.RECORDS, self._ranks.records),
            (Advert.SEARCH, self._search),
        ):
            array[item] = address_of(each)
        array[Advert.WIDTH] = self._predicates.shape[1]
        array[Advert.LEVELS_CAPACITY] = len(self._levels)
        array[Advert.STORE_CAPACITY] = len(self._store)
        array[Advert.SLOTS], array[Advert.MEMORY_CAPACITY] = len(self._answers), len(self._memory)

    def fit(self, predicates: _Sets) -> None:
        """Takes p_i, by row; the rows of all sets are as wide, and every filter in them has relations."""
        width = predicates.shape[1]
        self._predicates = predicates
        if width != self._scratch.shape[1]:
            self._scratch = np.zeros((LEVELS_MAX + 4, width), np.uint64)
            self._relations = np.zeros((_PLACES, KINDS, width), np.uint64)
            self._boxes = np.zeros(width * _WORD_BITS, np.uint8)
            self._complete = np.zeros(width * _WORD_BITS, np.int32)
            self._places = np.full(width * _WORD_BITS, -1, np.int32)
            self._placed = 0
            self._ranks.fit(width * _WORD_BITS)
        self._attach()

    def fit_messages(self, rows: int) -> None:
        """Makes room for as many messages and RAs."""
        numbers = np.full((rows, FILTERS_MAX), _NO_FILTER, np.int64)
        numbers[: len(self._numbers)] = self._numbers
        self._numbers = numbers
        self._attach()

    def grow(self, words: int) -> None:
        """Makes room for further sets F of so many words, if there is little; numbers of levels change."""
        array = self.array
        filters = (LEVELS_MAX + 2) * (2 * _WORD_BITS * words + 2)
        if array[Advert.STORED] + filters > len(self._store) or array[Advert.LEVEL_COUNT] + LEVELS_MAX >= len(
            self._levels
        ):
            self._collect_levels()
            # With as much room as is in use, the next collection is far off.
            while 2 * array[Advert.STORED] + filters > len(self._store):
                self._store = doubled(self._store)
                if len(self._store) > _STORE_MAX:
                    raise MemoryError(f"F of all routers has more than {_STORE_MAX // 2} filters")
            while 2 * array[Advert.LEVEL_COUNT] + LEVELS_MAX >= len(self._levels):
                self._levels = doubled(self._levels)
        while array[Advert.MEMORISED] + 2 * _WORD_BITS * words + 8 > len(self._memory):
            if 2 * self._memory.nbytes > ANSWERS_BYTES and array[Advert.MEMORISED]:
                self._forget_answers()
            else:
                self._memory = doubled(self._memory)
        self._attach()

    def expect(self, predicates: Iterable[Predicate]) -> Bits:
        """Takes predicates that nodes are going to have; returns their filters.

        The relations of a filter are then complete when they are laid out.
        """
        for predicate in predicates:
            # One by one: the pool may remove filters that nobody holds.
            self._expected |= bits_of(POOL.numbers(predicate))
        return self._expected

    def at_rate(self, piece: Piece) -> None:
        """Takes the piece of the experiment clock that is in force."""
        self.array[Advert.START_NS] = piece.start_ns
        self._reals[Real.EXPERIMENT_S], self._reals[Real.RATE] = piece.experiment_s, piece.rate

    # RAs.

    def takes(self, frame: Frame) -> bool:
        """Whether compiled code handles an RA."""
        body = frame.body
        return (
            frame.type is FrameType.RA
            and isinstance(body, Predicate)
            and total_weight(body) <= self._limits.turn_weight
            and 0 < len(POOL.numbers(body)) <= FILTERS_MAX
        )

    def add(self, row: int, frame: Frame, columns: _Longs) -> Bits:
        """Takes an RA, as a row of messages; returns its filters."""
        assert isinstance(frame.body, Predicate)
        numbers = POOL.numbers(frame.body)
        self._numbers[row] = _NO_FILTER
        self._numbers[row, : len(numbers)] = numbers
        columns[WEIGHT], columns[FILTER_COUNT] = max(total_weight(frame.body), 1), len(numbers)
        return bits_of(numbers)

    @property
    def members(self) -> Bits:
        """The filters that compiled code has: see `FilterPool.register`."""
        found = np.bitwise_or.reduce(self._predicates, axis=0) if self._predicates.size else np.zeros(0)
        present = np.zeros(self._predicates.shape[1] * _WORD_BITS + 1, np.bool_)
        # Of levels without a class, too, and of RAs that have arrived everywhere: these filters are kept for
        # longer than they must be. Behind the filters of a level are numbers of filters that are gone.
        present[self._stored(self._levels[: self.array[Advert.LEVEL_COUNT]])] = True
        present[self._numbers[self._numbers != _NO_FILTER]] = True
        packed = np.packbits(present, bitorder="little").tobytes()
        kept = int.from_bytes(found.tobytes(), "little") | int.from_bytes(packed, "little")
        return kept | self._expected

    # The state of routers.

    def lay_out(self, node: int, table: EpochTable | None) -> None:
        """Takes over what has changed at a router; p_i is the caller's."""
        state, row = self._states[node], self._nodes[node]
        ingress = self._schemes[node].ingress
        if table is not self._tables[node]:
            if self._borrowed[node] and isinstance(ingress, SubtreeFilter):
                ingress.recall()
            self._tables[node] = table
            if table is not None:
                depths = self._depths[node] = table.classes.depths()
                row[DEPTHS] = address_of(depths)
                if len(depths) > self._rooms[node]:
                    self._rooms[node] = len(depths)
                    row[HEAD] = self._head_count
                    first, self._head_count = self._head_count, self._head_count + len(depths)
                    while self._head_count > len(self._heads):
                        self._heads = doubled(self._heads)
                    self._heads[first : self._head_count] = _NOT_LAID_OUT
                    self._attach()
        if not self._borrowed[node] and table is not None and isinstance(ingress, SubtreeFilter):
            self._borrowed[node] = 1
            heads = self._heads_of(node)
            heads[:] = _NO_LEVEL
            heads[[number - 1 for number in ingress.lend(table.epoch, partial(self._return, node))]] = (
                _NOT_LAID_OUT
            )
        row[FILTERS] = state.routing.filters
        row[OPEN] = table is not None and state.intake.idle and not self._schemes[node].asking
        buckets = state.intake.neighbours
        for wire, sender in self._neighbours[node]:
            self._buckets[wire] = buckets.state(sender)

    def give_back(self, node: int) -> None:
        """Returns what compiled code has changed to the router, but for F, which it recalls."""
        self.lent[node] = 0
        state, first = self._states[node], int(self._nodes[node, ROW])
        rows = slice(first, first + int(self._nodes[node, PORT_COUNT]) + 1)
        for interface in np.flatnonzero(self._changed[rows]).tolist():
            state.routing.restore(interface, _as_bits(self._predicates[first + interface]))
        self._changed[rows] = 0
        for wire, sender in self._neighbours[node]:
            if self._used[wire]:
                self._used[wire] = 0
                left, at = self._buckets[wire].tolist()
                state.intake.neighbours.of(sender, at).state = left, at

    def _heads_of(self, node: int) -> npt.NDArray[np.int32]:
        depths, first = self._depths[node], int(self._nodes[node, HEAD])
        assert depths is not None
        return self._heads[first : first + len(depths)]

    def _return(self, node: int) -> None:
        """Returns F to the router."""
        ingress, table = self._schemes[node].ingress, self._tables[node]
        assert isinstance(ingress, SubtreeFilter)
        assert table is not None
        self._borrowed[node] = 0
        heads = self._heads_of(node)
        for own in np.flatnonzero(heads >= 0).tolist():
            parent = int(table.classes.arrays.parents[own])
            level = int(heads[own])
            ingress.restore(table.epoch, parent, own + 1, self._levels_of(level))
            while level != _NO_LEVEL:
                self._free.append(level)
                level = int(self._levels[level, NEXT])
        heads[:] = _NOT_LAID_OUT

    def _levels_of(self, level: int) -> Levels:
        found: Levels = {}
        while level != _NO_LEVEL:
            hops, level, offset, count, _ = self._levels[level].tolist()
            found[hops] = bits_of(self._store[offset : offset + count].tolist())
        return found

    def _new_level(self, hops: int) -> int:
        """Returns a level without filters, which keeps the room that it had if it was in use before."""
        if self._free:
            level = self._free.pop()
            offset, room = self._levels[level, [OFFSET, ROOM]].tolist()
        else:
            level, offset, room = int(self.array[Advert.LEVEL_COUNT]), 0, 0
            self.array[Advert.LEVEL_COUNT] += 1
        self._levels[level] = hops, _NO_LEVEL, offset, 0, room
        return level

    def _collect_levels(self) -> None:
        """Keeps the levels that classes have, and their filters; levels of former epochs were returned."""
        array, levels = self.array, self._levels
        count = int(array[Advert.LEVEL_COUNT])
        used = np.zeros(count, np.bool_)
        heads = self._heads[: self._head_count]
        reached = heads[heads >= 0]
        while reached.size:
            used[reached] = True
            reached = levels[reached, NEXT]
            reached = reached[reached >= 0]
        kept = np.flatnonzero(used)
        # The last element is the number of no level, -1.
        numbers = np.full(count + 1, _NO_LEVEL, np.int64)
        numbers[kept] = np.arange(len(kept))
        at = np.flatnonzero(heads >= 0)
        heads[at] = numbers[heads[at]]
        rows = levels[kept]
        rows[:, NEXT] = numbers[rows[:, NEXT]]
        stored = self._stored(rows)
        self._store[: len(stored)] = stored
        rows[:, OFFSET], rows[:, ROOM] = np.cumsum(rows[:, COUNT]) - rows[:, COUNT], rows[:, COUNT]
        levels[: len(rows)] = rows
        array[Advert.LEVEL_COUNT], array[Advert.STORED] = len(rows), len(stored)
        self._free.clear()

    def _stored(self, rows: _Ints) -> npt.NDArray[np.int32]:
        """Returns the filters of levels, one level behind the other."""
        counts = rows[:, COUNT]
        starts = np.cumsum(counts) - counts
        places = np.repeat(rows[:, OFFSET] - starts, counts) + np.arange(counts.sum())
        found: npt.NDArray[np.int32] = self._store[places]
        return found

    def _put_levels(self, node: int, own: int, levels: Levels) -> None:
        """Writes F of a class, which had the first of these levels before, in their order."""
        array, at = self.array, int(self._nodes[node, HEAD]) + own
        level, last = int(self._heads[at]), _NO_LEVEL
        for hops, members in levels.items():
            if level < 0:
                level = self._new_level(hops)
                if last == _NO_LEVEL:
                    self._heads[at] = level
                else:
                    self._levels[last, NEXT] = level
            entry = self._levels[level]
            assert entry[HOPS] == hops
            numbers = list(numbers_in(members))
            entry[COUNT] = len(numbers)
            if len(numbers) > entry[ROOM]:
                entry[ROOM] = len(numbers) + len(numbers) // 2 + 2
                entry[OFFSET] = array[Advert.STORED]
                array[Advert.STORED] += entry[ROOM]
            self._store[entry[OFFSET] : entry[OFFSET] + len(numbers)] = numbers
            last, level = level, int(entry[NEXT])

    # Questions of compiled code.

    def forget_swept(self) -> None:
        """Forgets all relations if the pool has begun or ended to remove filters.

        Relations that were laid out between have removed filters, whose numbers others get after the end.
        """
        swept = POOL.sweeps, POOL.sweeping
        if self._swept != swept:
            self._swept = swept
            self._forget_relations()
            self._forget_answers()
            self._ranks.clear()

    def _forget_relations(self) -> None:
        self._places[:] = -1
        self._placed = 0

    def _forget_answers(self) -> None:
        self._answers[:] = 0
        self._answered = 0
        self.array[Advert.MEMORISED] = 0

    def _place(self, event: int) -> int | None:
        """Returns a place for the relations of a filter; None: an event needs more than there are."""
        if self._placed == len(self._relations):
            if 2 * self._relations.nbytes <= RELATIONS_BYTES:
                self._relations = doubled(self._relations)
                self._attach()
            elif self._forgot_at == event:
                return None
            else:
                self._forgot_at = event
                self._forget_relations()
        self._placed += 1
        return self._placed - 1

    def relate(self, event: int, put: Callable[[Bits], npt.NDArray[Any]]) -> bool:
        """Lays out the relations of the filter that compiled code asks for.

        Args:
            event: number of the event for which it asks.
            put: returns the words of a set, after it has made rows as wide as the set requires.

        Returns:
            False if the event needs the relations of more filters than memory is meant for.
        """
        number = int(self.array[Advert.FILTER])
        relations = POOL.compared(number)
        put(relations.searched)
        place: int | None = int(self._places[number])
        if place == -1:
            place = self._place(event)
            if place is None:
                return False
            self._places[number] = place
        rows = self._relations[place]
        mergeable = excepted = 0
        for bits in relations.mergeable.values():
            mergeable |= bits
        for bits in relations.covers_except.values():
            excepted |= bits
        for kind, bits in (
            (Relation.SEARCHED, relations.searched),
            (Relation.POSSIBLE_COVERS, relations.possible_covers),
            (Relation.COVERS, relations.covers),
            (Relation.LOW_CORNER, relations.low_corner),
            (Relation.HIGH_CORNER, relations.high_corner),
            (Relation.COVERS_EXCEPT, excepted),
            (Relation.AFFECTED, relations.affected),
            (Relation.MERGEABLE, mergeable),
            (Relation.POSSIBLY_COVERED, relations.possibly_covered),
            (Relation.COVERED, relations.covered),
            (Relation.COVERED_EXCEPT_ONE, relations.covered_except_one),
            (
                Relation.COSTLY,
                POOL.costly(relations) & (relations.possible_covers | relations.possibly_covered),
            ),
        ):
            rows[kind] = put(bits)
        known = relations.searched & ~relations.possible_covers & ~relations.affected
        rows[Relation.NEAR] = ~put(known)
        # Its witnesses are forgotten: it is not known which of the new filters match them.
        self._boxes[number] = relations.is_box
        lowest_missing = (~relations.searched & (relations.searched + 1)).bit_length() - 1
        self._complete[number] = lowest_missing // _WORD_BITS
        if self._ranks.take(relations.searched | relations.bit):
            self._search = np.zeros(2 * ((BOXES_WAITING + 1) * BOXED_MAX + self._ranks.attributes), np.int64)
            self._attach()
        return True

    def answer(self, put: Callable[[Bits], npt.NDArray[Any]]) -> None:
        """Answers the question that compiled code has written at the end of the memory.

        Args:
            put: as for `relate`.
        """
        array, memory = self.array, self._memory
        entry = int(array[Advert.MEMORISED])
        _, number, question, count = memory[entry : entry + FIRST_OTHER].tolist()
        end = entry + FIRST_OTHER + count
        others = bits_of(memory[entry + FIRST_OTHER : end].tolist())
        if question == Question.MERGED:
            with POOL.bounded(_AMPLE):
                merging, instead = POOL.merged(number, others)
                assert POOL.allowance is not None
                spent = _AMPLE - POOL.allowance
            for each in instead:
                put(1 << each)
            removed = list(numbers_in(merging))
            answer = [spent, len(removed), *removed, len(instead), *instead]
        elif question == Question.ORDER:
            answer = POOL.in_order(others)
        else:
            answer = [POOL.covered_by_several(number, others, question == Question.COVERED_JOINTLY)]
        if end + len(answer) > len(self._memory):
            self._memory = doubled(self._memory)
            self._attach()
        self._memory[end : end + len(answer)] = answer
        array[Advert.MEMORISED] = end + len(answer)
        self._answers[array[Advert.SLOT]] = entry + 1
        self._answered += 1
        if 2 * self._answered > len(self._answers):
            self._hash_again()
            self._attach()

    def _hash_again(self) -> None:
        """Doubles the table of answers."""
        places = self._answers[self._answers > 0]
        slots = 2 * len(self._answers)
        answers = np.zeros(slots, np.int64)
        for place, hashed in zip(places.tolist(), self._memory[places - 1 + HASH].tolist(), strict=True):
            slot = hashed & (slots - 1)
            while answers[slot]:
                slot = (slot + 1) & (slots - 1)
            answers[slot] = place
        self._answers = answers

    def lay_out_class(self, node: int, own: int) -> None:
        """Takes F of a class, from 0, from the router."""
        ingress, table = self._schemes[node].ingress, self._tables[node]
        assert isinstance(ingress, SubtreeFilter)
        assert table is not None
        parent = int(table.classes.arrays.parents[own])
        self._heads_of(node)[own] = _NO_LEVEL
        self.grow(self._predicates.shape[1])
        self._put_levels(node, own, ingress.take(table.epoch, parent, own + 1))

    def unite(
        self,
        node: int,
        own: int,
        interface: int,
        message: int,
        columns: _Longs,
        hops: int,
        put: Callable[[Bits], npt.NDArray[Any]],
    ) -> None:
        """Unites the predicates of a router with an RA, by the pool, and writes the verdict.

        Args:
            own: the class, from 0.
            columns: of the RA, row `message`.
            hops: hops that it has left when it goes on.
            put: as for `relate`.
        """
        nodes, depths = self._nodes, self._depths[node]
        assert depths is not None
        row = int(nodes[node, ROW]) + interface
        numbers = self._numbers[message, : columns[FILTER_COUNT]].tolist()
        before = _as_bits(self._predicates[row])
        strict = bool(self.array[Advert.STRICT])
        if not strict and self._heads_of(node)[own] == _NOT_LAID_OUT:
            self.lay_out_class(node, own)
        levels = {} if strict else self._levels_of(int(self._heads_of(node)[own]))
        with POOL.bounded(self._limits.turn_pairs, int(nodes[node, FILTERS])):
            after = POOL.add(before, numbers)
            left = min(hops, int(depths[own]))
            passes = after != before if strict else admit(POOL, levels, numbers, left)
        if after != before:
            words = put(after)
            self._predicates[row] = words
            self._changed[row] = 1
            self._samples[row, 0] = UNKNOWN
            nodes[node, FILTERS] += after.bit_count() - before.bit_count()
        if passes and not strict:
            for members in levels.values():
                put(members)
            self.grow(self._predicates.shape[1])
            self._put_levels(node, own, levels)
        self.array[Advert.VERDICT] = Verdict.PASSES if passes else Verdict.COVERED


def _as_bits(words: _Sets) -> Bits:
    return int.from_bytes(words.tobytes(), "little")
