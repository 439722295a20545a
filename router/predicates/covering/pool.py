"""All filters of a process, each once, and what is known about any two of them.

The tables of a router hold largely the same filters: p_i of each interface, and what RA filtering keeps for
each class of issuers. Those of all routers in a simulation do, too. So a filter is interned here under a
number, a table is a set of numbers (`router.predicates.covering.thresholds.Bits`), and whether one filter
covers another is found out once, when some table first asks. What remains of most questions is an
intersection.

Answers depend on the filters alone, never on their numbers: two processes with different pasts agree.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Protocol, TypeVar
from weakref import WeakSet, ref

from router.predicates.covering import intervals as iv
from router.predicates.covering.boxes import covered_jointly
from router.predicates.covering.index import FilterIndex
from router.predicates.covering.normal import NormalFilter, normalise
from router.predicates.covering.relations import Relations
from router.predicates.covering.thresholds import Bits, numbers_in
from router.predicates.covering.values import ValueSet, common_texts, includes_union, pieces
from router.predicates.model import Filter, Message, Predicate
from router.predicates.semantics import matches_filter

K = TypeVar("K")
V = TypeVar("V")

#: A pool is searched for filters that no table holds when it has so many, or twice those that one did before.
_SWEEP_AT = 2048
#: Answers, and predicates and messages taken apart, that are remembered.
_REMEMBERED = 4096


class Holder(Protocol):
    """Whoever keeps numbers of a pool."""

    @property
    def members(self) -> Bits: ...


class FilterAlgebra(Protocol):
    """Filters under numbers, and the algebra of sets of them.

    A number stands for its filter as long as a registered holder has it. `FilterPool` knows covering and
    simplification; `router.content.verbatim` compares filters literally.
    """

    def register(self, holder: Holder) -> None:
        """Keeps the filters of `holder.members` as long as the holder lives."""

    def numbers(self, predicate: Predicate) -> tuple[int, ...]:
        """The numbers of the filters of a predicate."""

    def add(self, members: Bits, numbers: Iterable[int], jointly: bool = True) -> Bits:
        """The union of a set and further filters; the set itself if it covers all of them."""

    def covers(self, members: Bits, number: int, jointly: bool = True) -> bool:
        """Whether every message that matches the filter is known to match the set."""

    def covers_all(self, members: Bits, others: Bits) -> bool:
        """Whether the set covers each filter of another set."""

    def within(self, members: Bits, others: Bits) -> Bits:
        """A set that both of two sets cover; it may be smaller than their intersection."""

    def predicate(self, members: Bits) -> Predicate:
        """The predicate of a set, in an order that depends on the filters alone."""

    def filters(self, members: Bits) -> list[Filter]:
        """The filters of a set, in any order; the same objects as long as they are held."""

    def matching(self, message: Message) -> Bits:
        """The filters of the pool that the message matches."""


class FilterPool:
    """Filters under numbers, and the relations between them.

    A number stands for its filter as long as some holder has it (`register`), and until `numbers` is called.
    """

    def __init__(self) -> None:
        self._index = FilterIndex()
        self._numbers: dict[tuple[tuple[str, ValueSet], ...], int] = {}
        self._relations: dict[int, Relations] = {}
        self._holders: WeakSet[Holder] = WeakSet()
        self._sweep_at = _SWEEP_AT
        self._prepared: OrderedDict[int, tuple[ref[Predicate], tuple[int, ...]]] = OrderedDict()
        self._covered: OrderedDict[tuple[int, Bits, bool], bool] = OrderedDict()
        self._merged: OrderedDict[tuple[int, Bits], tuple[int, ...]] = OrderedDict()
        #: By identity of the message, which is kept with its answer and the number of filters then.
        self._matched: OrderedDict[int, tuple[Message, int, Bits]] = OrderedDict()
        #: Changes with every filter that comes or goes.
        self._version = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def register(self, holder: Holder) -> None:
        """Keeps what `holder.members` holds, as long as the holder lives."""
        self._holders.add(holder)

    # Filters and numbers.

    def numbers(self, predicate: Predicate) -> tuple[int, ...]:
        """The filters of a predicate, in canonical order, without those that no message matches."""
        entry = self._prepared.get(id(predicate))
        if entry is not None and entry[0]() is predicate:
            return entry[1]
        if len(self) >= self._sweep_at:
            self._tidy()
        normals = [normal for normal in map(normalise, predicate) if normal is not None]
        found = tuple(dict.fromkeys(map(self.number, sorted(normals, key=lambda normal: normal.key))))
        self._prepare(predicate, found)
        return found

    def number(self, filter_: NormalFilter) -> int:
        """The number of a filter, which is interned if it is new."""
        key = tuple(filter_.attributes.items())
        found = self._numbers.get(key)
        return self._intern(filter_, key) if found is None else found

    def filter(self, number: int) -> NormalFilter:
        """The filter with this number."""
        return self._index.filter(number)

    def filters(self, members: Bits) -> list[Filter]:
        """These filters, in no order that means anything; the same objects as long as they are held."""
        return [normal.filter for normal in self._index.select(members)]

    def predicate(self, members: Bits) -> Predicate:
        """The disjunction of these filters, canonical, in their fixed order."""
        ordered = self.in_order(members)
        found = Predicate(tuple(self.filter(number).filter for number in ordered))
        self._prepare(found, tuple(ordered))
        return found

    def in_order(self, members: Bits) -> list[int]:
        """These filters in their fixed order."""
        return sorted(numbers_in(members), key=lambda number: self.filter(number).key)

    def _prepare(self, predicate: Predicate, numbers: tuple[int, ...]) -> None:
        key, prepared = id(predicate), self._prepared
        _remember(prepared, key, (ref(predicate, lambda _: prepared.pop(key, None)), numbers))

    # Questions.

    def covers(self, members: Bits, number: int, jointly: bool = True) -> bool:
        """Whether the members are known to match every message that a filter matches.

        Args:
            jointly: several that differ from the filter in more than one attribute may cover it together.
        """
        relations = self._relations[number]
        if members & relations.above:
            return True
        near = members & relations.helpful
        new = near & ~relations.compared
        if new:
            self._compare(number, relations, new)
            if near & relations.above:
                return True
        if not near & (near - 1):
            return False  # one alone does not
        if relations.plain and not (near & relations.low and near & relations.high):
            return False
        key = number, near, jointly
        answer = self._covered.get(key)
        if answer is None:
            answer = self._on_one_attribute(number, near) or (
                jointly and covered_jointly(self.filter(number), self._index, near)
            )
            _remember(self._covered, key, answer)
        return answer

    def add(self, members: Bits, numbers: Iterable[int], jointly: bool = True) -> Bits:
        """The members and further filters, simplified; the members themselves, if these cover all of them.

        Args:
            jointly: as for `covers`.
        """
        for number in numbers:
            if not self.covers(members, number, jointly):
                members = self._with(members, number)
        return members

    def covers_all(self, members: Bits, others: Bits) -> bool:
        """Whether the members cover each of the others."""
        return all(self.covers(members, number) for number in numbers_in(others & ~members))

    def within(self, members: Bits, others: Bits) -> Bits:
        """What both of two sets cover: the filters of each that the other covers, simplified."""
        both = members & others
        for one, other in ((members, others), (others, members)):
            for number in numbers_in(one & ~other):
                if self.covers(other, number):
                    both |= 1 << number
        return self.add(0, self.in_order(both))

    def below(self, number: int, members: Bits) -> tuple[Bits, Bits]:
        """Of the members, those that a filter covers, and those that it does but on part of one attribute."""
        relations = self._relations[number]
        near = members & relations.helped
        new = near & ~relations.tried
        if new:
            filter_ = self.filter(number)
            for other in numbers_in(new):
                failed = filter_.failures(self.filter(other))
                if not failed:
                    relations.below |= 1 << other
                elif len(failed) == 1:
                    relations.doubtful |= 1 << other
            relations.tried |= new
        return near & relations.below, near & relations.doubtful

    def merged(self, number: int, members: Bits) -> tuple[Bits, tuple[int, ...]]:
        """Members, and the filters (no more of them) that say the same as they and a new filter do together.

        They differ in the intervals of one attribute only. Nothing, if there are none such.
        """
        for attribute, relatives in self._relations[number].relatives.items():
            merging = members & relatives
            if not merging:
                continue
            key = number, merging
            instead = self._merged.get(key)
            if instead is None:
                instead = self._merge(number, attribute[0], merging)
                _remember(self._merged, key, instead)
            if instead:
                return merging, instead
        return 0, ()

    def matching(self, message: Message) -> Bits:
        """The filters that the message matches."""
        entry = self._matched.get(id(message))
        if entry is not None and entry[0] is message and entry[1] == self._version:
            return entry[2]
        found: Bits = 0
        for number in numbers_in(self._index.admitting(message)):
            if matches_filter(self.filter(number).filter, message):
                found |= 1 << number
        _remember(self._matched, id(message), (message, self._version, found))
        return found

    # How answers are found.

    def _with(self, members: Bits, number: int) -> Bits:
        """The members and a filter that they do not cover."""
        waiting = [number]
        while waiting:
            new = waiting.pop()
            relations = self._relations[new]
            if not members & relations.changed:
                members |= relations.bit
                continue
            if new != number and self.covers(members, new, jointly=False):
                continue
            merging, instead = self.merged(new, members)
            if merging:
                members ^= merging
                waiting += instead
                continue
            needless, doubtful = self.below(new, members)
            members = members & ~needless | relations.bit
            if doubtful:
                members = self._without_covered(members, doubtful)
        return members

    def _without_covered(self, members: Bits, doubtful: Bits) -> Bits:
        """The members without those of the doubtful that others cover on one attribute."""
        found: Bits = 0
        for number in numbers_in(doubtful):
            if self.covers(members & ~(1 << number), number, jointly=False):
                found |= 1 << number
        # Of two that cover each other, with others, one stays.
        for number in self.in_order(found) if found else ():
            rest = members & ~(1 << number)
            if self.covers(rest, number, jointly=False):
                members = rest
        return members

    def _merge(self, number: int, name: str, merging: Bits) -> tuple[int, ...]:
        """What a filter and those that differ from it in one attribute are together; empty: not fewer."""
        filter_ = self.filter(number)
        values = filter_.attributes[name]
        others = [member.attributes[name].intervals for member in self._index.select(merging)]
        joined = iv.union(values.intervals, *others)
        parts = pieces(ValueSet(values.type, joined, values.suffix, values.substrings))
        if len(parts) > len(others):
            return ()
        return tuple(self.number(filter_.with_values(name, part)) for part in parts)

    def _compare(self, number: int, relations: Relations, others: Bits) -> None:
        """Finds out what the others do for covering a filter."""
        filter_ = self.filter(number)
        theirs = filter_.attributes
        for other in numbers_in(others):
            bit = 1 << other
            candidate = self.filter(other)
            failed = candidate.failures(filter_)
            if not failed:
                relations.above |= bit
            elif len(failed) == 1:
                relations.partial[failed[0]] = relations.partial.get(failed[0], 0) | bit
            if relations.plain:
                pairs = [(values.intervals, theirs[name]) for name, values in candidate.attributes.items()]
                if all(iv.holds(own, values.intervals[0][0]) for own, values in pairs):
                    relations.low |= bit
                if all(iv.holds_below(own, values.intervals[-1][1]) for own, values in pairs):
                    relations.high |= bit
        relations.compared |= others

    def _on_one_attribute(self, number: int, near: Bits) -> bool:
        """Whether some of these cover a filter together, of which they leave out values of one attribute."""
        attributes = self.filter(number).attributes
        for name, bits in self._relations[number].partial.items():
            several = bits & near
            if several & (several - 1):
                sets = (member.attributes[name] for member in self._index.select(several))
                if includes_union(sets, attributes[name]):
                    return True
        return False

    # Filters come and go.

    def _intern(self, filter_: NormalFilter, key: tuple[tuple[str, ValueSet], ...]) -> int:
        index, own = self._index, Relations(filter_)
        own.helpful = index.helpful(filter_)
        own.helped = self._helped(filter_)
        for attribute in own.relatives:
            own.relatives[attribute] = index.relatives(filter_, attribute)
        bit = index.add(filter_)
        number = self._numbers[key] = bit.bit_length() - 1
        own.bit = own.above = bit
        own.changed = own.helped
        self._relations[number] = own
        for other in numbers_in(own.helpful):
            theirs = self._relations[other]
            theirs.helped |= bit
            theirs.changed |= bit
        for other in numbers_in(own.helped):
            self._relations[other].helpful |= bit
        for attribute, bits in own.relatives.items():
            own.changed |= bits
            for other in numbers_in(bits):
                theirs = self._relations[other]
                theirs.relatives[attribute] |= bit
                theirs.changed |= bit
        self._version += 1
        return number

    def _helped(self, filter_: NormalFilter) -> Bits:
        """Filters that this one, which is not a member yet, may help to cover."""
        found = self._index.helped(filter_)
        asked = [(name, values) for name, values in filter_.attributes.items() if not values.is_plain]
        if asked:
            for other in numbers_in(found):
                theirs = self.filter(other).attributes
                if any(_lacks(theirs[name], values) for name, values in asked):
                    found ^= 1 << other
        return found

    def _held(self) -> Bits:
        live: Bits = 0
        for holder in self._holders:
            live |= holder.members
        return live

    def _tidy(self) -> None:
        """Sweeps if a quarter of the filters would go: it takes long, and routers wait for it."""
        held = self._held().bit_count()
        if 4 * held <= 3 * len(self):
            self.sweep()
        else:
            self._sweep_at = 2 * held

    def sweep(self) -> None:
        """Forgets the filters that nobody holds."""
        live = self._held()
        self._index.keep_only(live)
        self._numbers = {key: number for key, number in self._numbers.items() if live >> number & 1}
        self._relations = {number: self._relations[number] for number in self._numbers.values()}
        for relations in self._relations.values():
            relations.keep_only(live)
        self._prepared.clear()
        self._covered.clear()
        self._merged.clear()
        self._matched.clear()
        self._version += 1
        self._sweep_at = max(_SWEEP_AT, 2 * len(self))


def _lacks(values: ValueSet, asked: ValueSet) -> bool:
    """Whether some of the values are without the suffix or first substring that is asked."""
    tail, texts = common_texts(values)
    if not tail.endswith(asked.suffix):
        return True
    return bool(asked.substrings) and not any(asked.substrings[0] in text for text in texts)


def _remember(table: OrderedDict[K, V], key: K, value: V) -> None:
    table[key] = value
    if len(table) > _REMEMBERED:
        # At one stroke: the collector may run between two, and take out what has died.
        table.popitem(last=False)


#: The pool of this process.
POOL = FilterPool()
