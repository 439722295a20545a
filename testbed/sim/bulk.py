"""Messages and RAs that are under way in a simulation, propagated in bulk by compiled code.

Between two events of any other type, tables do not change. All arrivals of messages up to the next such
event are handled in one call of compiled code (`testbed.sim.compiled_bulk`), on arrays that have the
broadcast tables and the filters of p_i of each router. Arrivals carry the numbers that the agenda would have
given them, so the order of all events is that of a simulation without this module, to the byte.

The core is asked for everything that is not ordinary: frames that would be dropped, links of hubs beyond the
first page of addresses, fragments, older epochs. What it decides about, and what applications get, happens in
its place in the order of events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from router.clock.pieces import Piece
from router.forwarding.layout import TEXT
from router.native.memory import address_of
from router.predicates.covering.bitset import Bits
from router.predicates.covering.budget import PredicateLimits
from router.predicates.covering.pool import POOL
from router.predicates.model import Message, Predicate
from router.protocol.broadcast import EpochTable
from router.protocol.counters import Drop
from router.protocol.forwarding import ForwardingState
from router.protocol.router import Router
from router.protocol.schemes.per_interface import PerInterface
from router.wire.frames import Frame
from testbed.sim import compiled_bulk as loops
from testbed.sim.adverts import Adverts
from testbed.sim.clock import EPOCH_NS
from testbed.sim.growth import doubled
from testbed.sim.layout import (
    ARRIVAL_WIDTH,
    AT,
    CHILDREN,
    CLASS_OF,
    DELIVERED,
    DELIVERED_LAST,
    FIRST,
    HOP_LIMIT,
    INTERFACE,
    ISSUER,
    LOG_WIDTH,
    MESSAGE,
    MESSAGE_WIDTH,
    NODE_COUNTS,
    NODE_WIDTH,
    NUMBER,
    PARENTS,
    PENDING,
    PORT_COUNT,
    RA_COVERED,
    RECEIVER,
    RECORD_HEAD,
    RECORD_HEAD_LENGTH,
    ROW,
    SAMPLED,
    SOURCES,
    UNKNOWN,
    WIRE,
    WIRE_COUNTS,
    Advert,
    Control,
    Exit,
)

_Longs: TypeAlias = npt.NDArray[np.int64]
_Sets: TypeAlias = npt.NDArray[np.uint64]

#: The first sizes of arrays that grow.
_ARRIVALS, _MESSAGES, _LOG_ROWS, _WORDS = 4096, 64, 65_536, 16
#: Bytes of records of deliveries between two reports.
_RECORD_ROOM = 1 << 20
_WORD_BYTES = 8

#: Exits that ask about an RA.
_OF_ADVERTS = frozenset({Exit.ASK, Exit.RELATE, Exit.LEND, Exit.QUESTION})


#: Takes a frame that arrived or was sent, for the captures: what happened, its time (ns), the wire or the
#: sending node, the interfaces that it is addressed to (bits), and the frame.
Log = Callable[[int, int, int, int, Frame], None]
#: Takes deliveries that compiled code has made: their number, and their records.
Report = Callable[[int, bytes], None]


@dataclass(frozen=True, slots=True)
class Propagated:
    """The result of a call of `Bulk.run`.

    Attributes:
        done: arrivals handled.
        now_ns: time of the last of them.
        added: the number of the last event scheduled.
        moved_ns: time at which a frame last moved.
        under_way: change of the number of frames under way.
        core: whether the next arrival is the core's, and may be handled now.
    """

    done: int
    now_ns: int
    added: int
    moved_ns: int
    under_way: int
    core: bool


class Bulk:
    """The messages under way.

    Args:
        cores: the routers, by node.
        wires: of each wire its receiver, delay (ns), line, and interface at the receiver; int64 [wires, 4].
        port_wires: by node, interface -> wire.
        cuts: by line, the number of its changes; int64, kept by the fabric.
        log: takes the frames that were sent and arrived; None: no captures are kept.
        deliver: is called with a node, a time (ns) and the frame of a message that p0 of the node selects.
        report: takes the deliveries to single applications; None: `deliver` gets these messages, too.
        heads: by node and number of an application, what `delivery_head` returns; for `report`.
        senders: by wire, the node that it comes from.
        limits: of every router, if compiled code handles RAs; None: it does not.
    """

    def __init__(
        self,
        cores: list[Router],
        wires: _Longs,
        port_wires: list[dict[int, int]],
        cuts: _Longs,
        log: Log | None,
        deliver: Callable[[int, int, Frame], None],
        report: Report | None,
        heads: Callable[[int, int], bytes],
        senders: list[int],
        limits: PredicateLimits | None,
    ) -> None:
        count = len(cores)
        self._report, self._deliver, self._cores = log, deliver, cores
        self._states = [core.forwarding() for core in cores]
        #: By node, 1: the router has changed since its state was laid out. For drivers to write.
        self.stale = bytearray(b"\1" * count)
        self._stale = np.frombuffer(self.stale, np.uint8)
        self._control = np.zeros(len(Control), np.int64)
        self._control[Control.LOG_FRAMES] = log is not None
        self._heap = np.zeros((_ARRIVALS, ARRIVAL_WIDTH), np.int64)
        #: Arrivals in order, in a ring; the heap has those that came in another order.
        self._queue = np.zeros((_ARRIVALS, ARRIVAL_WIDTH), np.int64)
        self._report_deliveries, self._head_of = report, heads
        self._records = np.zeros(_RECORD_ROOM, np.uint8)
        self._texts = np.frombuffer(b"".join(TEXT), np.uint8)
        for item, value in (
            (Control.RECORDS, address_of(self._records)),
            (Control.RECORD_ROOM, _RECORD_ROOM),
            (Control.TEXTS, address_of(self._texts)),
            (Control.EPOCH_NS, EPOCH_NS),
        ):
            self._control[item] = value
        #: By node, the head of the records of its application, and the predicates that it is valid for.
        self._heads: list[npt.NDArray[np.uint8] | None] = [None] * count
        self._changes = [-1] * count
        self._wires = wires
        self.wire_counts = np.zeros((len(wires), WIRE_COUNTS), np.int64)
        self._cuts = cuts
        self._nodes = np.zeros((count, NODE_WIDTH), np.int64)
        self.node_counts = np.zeros((count, NODE_COUNTS), np.int64)
        ports = np.array([max(each, default=0) for each in port_wires], np.int64)
        self._nodes[:, PORT_COUNT] = ports
        self._nodes[:, ROW] = np.cumsum(ports + 1) - (ports + 1)
        rows = int((ports + 1).sum())
        self._port_wires = np.zeros(rows, np.int64)
        for node, each in enumerate(port_wires):
            first = self._nodes[node, ROW]
            for port, wire in each.items():
                self._port_wires[first + port] = wire
        #: The tables whose addresses are laid out.
        self._tables: list[EpochTable | None] = [None] * count
        self._predicates: _Sets = np.zeros((rows, _WORDS), np.uint64)
        self._samples = np.full((rows, 1 + SAMPLED), UNKNOWN, np.int32)
        self._messages = np.zeros((_MESSAGES, MESSAGE_WIDTH), np.int64)
        self._matched: _Sets = np.zeros((_MESSAGES, _WORDS), np.uint64)
        #: Row -> the frame of a message by its hop limit; its row by issuer, number, epoch and body.
        self._frames: dict[int, dict[int, Frame]] = {}
        self._rows: dict[tuple[int, int, int, int], int] = {}
        self._free = list(range(_MESSAGES - 1, -1, -1))
        self._log = np.zeros((_LOG_ROWS, LOG_WIDTH), np.int64)
        self._inbox: list[tuple[int, ...]] = []
        self._version = -1
        self._head: tuple[int, int] | None = None
        #: Handles RAs; None: the core does.
        self.adverts: Adverts | None = None
        if limits is not None:
            states = [state for state in self._states if state is not None]
            neighbours: list[list[tuple[int, int]]] = [[] for _ in cores]
            for wire, receiver in enumerate(wires[:, RECEIVER].tolist()):
                neighbours[receiver].append((wire, senders[wire]))
            self.adverts = Adverts(states, limits, self._nodes, neighbours, len(wires), self._samples)
            self.adverts.fit(self._predicates)
            self.adverts.fit_messages(_MESSAGES)
        self._adverts = np.zeros(len(Advert), np.int64) if self.adverts is None else self.adverts.array

    @property
    def head(self) -> tuple[int, int] | None:
        """Time and number of the first arrival; None if no message is under way."""
        return self._head

    def send(
        self, at_ns: int, number: int, wire: int, cuts: int, ports: int, frame: Frame, length: int
    ) -> None:
        """A frame of a message will arrive.

        Args:
            number: of the event.
            cuts: changes of the link so far.
            ports: the interfaces that the frame is addressed to, as bits.
            length: bytes of the Ethernet frame; the message is in one.
        """
        # A router that widens the predicate of an RA sends on another body. The row keeps the body.
        key = frame.issuer, frame.seq, frame.epoch, id(frame.body)
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = self._new_row(frame, length)
        self._frames[row].setdefault(frame.hop_limit, frame)
        self._inbox.append((at_ns, number, wire, cuts, row, frame.hop_limit, ports))
        self._messages[row, PENDING] += 1
        if self._head is None or (at_ns, number) < self._head:
            self._head = at_ns, number

    def run(self, added: int, before: tuple[int, int], until_ns: int, most: int, piece: Piece) -> Propagated:
        """Handles arrivals before an event and by a time, at most so many.

        Args:
            added: the number of the last event that was scheduled.
            piece: of the experiment clock, in force until then.
        """
        control = self._control
        control[Control.ADDED], control[Control.DONE], control[Control.NOW] = added, 0, 0
        self._take_inbox()
        self._match_again()
        if self.adverts is not None:
            self.adverts.at_rate(piece)
            self.adverts.forget_swept()
        while True:
            exit_ = loops.propagate(
                control,
                self._heap,
                self._queue,
                self._wires,
                self.wire_counts,
                self._cuts,
                self._nodes,
                self.node_counts,
                self._stale,
                self._port_wires,
                self._predicates,
                self._messages,
                self._samples,
                self._matched,
                self._adverts,
                self._log,
                *before,
                until_ns,
                most,
            )
            if exit_ == Exit.STALE:
                self._lay_out(int(self._wires[self._first()[WIRE], RECEIVER]))
            elif exit_ == Exit.FULL:
                self._drain()
                ports = self._nodes[:, PORT_COUNT].max()
                if control[Control.SIZE] + ports >= len(self._heap):
                    self._heap = doubled(self._heap)
                if control[Control.QUEUED] + ports >= len(self._queue):
                    # The first arrival moves to the beginning.
                    self._queue = doubled(np.roll(self._queue, -int(control[Control.FRONT]), axis=0))
                    control[Control.FRONT] = 0
                if self.adverts is not None:
                    self.adverts.grow(int(control[Control.WORDS]))
            elif exit_ in _OF_ADVERTS:
                self._answer(exit_)
            else:
                break
        self._drain()
        self._forget()
        found = Propagated(
            done=int(control[Control.DONE]),
            now_ns=int(control[Control.NOW]),
            added=int(control[Control.ADDED]),
            moved_ns=int(control[Control.MOVED]),
            under_way=int(control[Control.UNDER_WAY]),
            core=exit_ == Exit.CORE,
        )
        control[Control.UNDER_WAY] = 0
        return found

    def expect(self, predicates: Iterable[Predicate]) -> None:
        """Takes predicates that nodes are going to have; see `Adverts.expect`."""
        if self.adverts is not None:
            self._fit(self.adverts.expect(predicates))

    def take(self) -> tuple[int, int, int, int, Frame]:
        """Takes the first arrival, for the core to decide about it.

        Returns:
            Its time, wire, changes of the link when it was sent, interfaces of its address (bits), and frame.
        """
        at, _, wire, cuts, row, hops, ports = self._first().tolist()
        frame = self._frame(row, hops)
        self._messages[row, PENDING] -= 1
        loops.drop_first(self._control, self._heap, self._queue)
        self._forget()
        return at, wire, cuts, ports, frame

    # Messages.

    def _new_row(self, frame: Frame, length: int) -> int:
        if not self._free:
            size = len(self._messages)
            self._messages, self._matched = doubled(self._messages), doubled(self._matched)
            if self.adverts is not None:
                self.adverts.fit_messages(2 * size)
            self._free = list(range(2 * size - 1, size - 1, -1))
        row = self._free.pop()
        self._messages[row] = frame.issuer, frame.epoch, length, 0, 0, 0, _signed(frame.seq)
        self._frames[row] = {frame.hop_limit: frame}
        if isinstance(frame.body, Message):
            self._match(row, frame)
        else:
            assert self.adverts is not None
            self._fit(self.adverts.add(row, frame, self._messages[row]))
        return row

    def _frame(self, row: int, hops: int) -> Frame:
        """The frame of a message with a hop limit, the same object for all that get it."""
        frames = self._frames[row]
        frame = frames.get(hops)
        if frame is None:
            frame = frames[hops] = self._frame(row, hops + 1).one_hop_less()
        return frame

    def _match(self, row: int, frame: Frame) -> None:
        assert isinstance(frame.body, Message)
        matching = POOL.matching(frame.body)
        self._fit(matching)
        self._matched[row] = _as_words(matching, self._matched.shape[1])

    def _match_again(self) -> None:
        """Filters that are new since a message was sent may match it."""
        if self._version != POOL.version:
            self._version = POOL.version
            for row, frames in self._frames.items():
                frame = next(iter(frames.values()))
                if isinstance(frame.body, Message):
                    self._match(row, frame)

    def _forget(self) -> None:
        """Sets the head, and frees the rows of messages that have arrived everywhere."""
        control = self._control
        under_way = control[Control.SIZE] + control[Control.QUEUED]
        first = self._first()
        self._head = (int(first[AT]), int(first[NUMBER])) if under_way else None
        if self._inbox:
            earliest = min((arrival[0], arrival[1]) for arrival in self._inbox)
            self._head = earliest if self._head is None else min(self._head, earliest)
        pending = self._messages[:, PENDING]
        for key, row in [(key, row) for key, row in self._rows.items() if not pending[row]]:
            del self._rows[key], self._frames[row]
            self._free.append(row)

    def _first(self) -> _Longs:
        """The first arrival, if there is one."""
        control = self._control
        queued: _Longs = self._queue[control[Control.FRONT]]
        first: _Longs = self._heap[0]
        if not control[Control.QUEUED] or (
            control[Control.SIZE] and (first[AT], first[NUMBER]) < (queued[AT], queued[NUMBER])
        ):
            return first
        return queued

    def _take_inbox(self) -> None:
        if self._inbox:
            arrivals = np.array(self._inbox, np.int64)
            self._inbox.clear()
            while self._control[Control.SIZE] + len(arrivals) >= len(self._heap):
                self._heap = doubled(self._heap)
            loops.push(self._control, self._heap, arrivals)

    # The state of routers.

    def _lay_out(self, node: int) -> None:
        """Takes over what has changed at a router."""
        state = self._states[node]
        assert state is not None
        if self.adverts is not None and self.adverts.lent[node]:
            # A new epoch makes every router stale, not only those that have handled an event.
            self.give_back(node)
        first = int(self._nodes[node, ROW])
        for interface, members in state.routing.take_changes().items():
            self._fit(members)
            self._predicates[first + interface] = _as_words(members, self._predicates.shape[1])
            self._samples[first + interface, 0] = UNKNOWN
        current = state.tables.current
        if current is not None and current.epoch > self._control[Control.EPOCH]:
            self._control[Control.EPOCH] = current.epoch
            self._stale[:] = 1
        table = state.tables.get(int(self._control[Control.EPOCH]))
        if table is not self._tables[node]:
            self._tables[node] = table
            row = self._nodes[node]
            row[SOURCES] = 0
            if table is not None:
                classes = table.classes.arrays
                row[CLASS_OF] = address_of(table.class_of)
                row[PARENTS] = address_of(classes.parents)
                row[FIRST] = address_of(classes.first)
                row[CHILDREN] = address_of(classes.children)
                row[SOURCES] = table.class_of.size
        if self.adverts is not None:
            self.adverts.lay_out(node, table)
        if self._report_deliveries is not None:
            self._lay_out_application(node, state)
        self._stale[node] = 0

    def _lay_out_application(self, node: int, state: ForwardingState) -> None:
        """Takes over the application that gets every message which p0 selects: the only one at its router.

        No application leaves in a simulation, so p0 is the union of the predicates of applications.
        """
        applications = state.applications
        if applications is None or applications.changes == self._changes[node]:
            return
        self._changes[node] = applications.changes
        declared = applications.by_application()
        row = self._nodes[node]
        row[RECORD_HEAD] = row[RECORD_HEAD_LENGTH] = 0
        if len(declared) != 1:
            return
        (number,) = declared
        head = self._heads[node] = np.frombuffer(self._head_of(node, number), np.uint8)
        row[RECORD_HEAD], row[RECORD_HEAD_LENGTH] = address_of(head), len(head)
        row[DELIVERED_LAST] = address_of(state.delivered.words)

    def _fit(self, members: Bits) -> None:
        """Makes rows of filters as wide as a set requires."""
        words = -(-members.bit_length() // 64)
        if words > self._control[Control.WORDS]:
            self._control[Control.WORDS] = words
        while words > self._predicates.shape[1]:
            self._predicates = np.hstack([self._predicates, np.zeros_like(self._predicates)])
            self._matched = np.hstack([self._matched, np.zeros_like(self._matched)])
            if self.adverts is not None:
                self.adverts.fit(self._predicates)

    # RAs.

    def give_back(self, node: int) -> None:
        """Returns to a router what compiled code has changed: it is about to handle an event."""
        assert self.adverts is not None
        self.adverts.give_back(node)
        if covered := int(self.node_counts[node, RA_COVERED]):
            # Counted here, since reasons are listed in the order in which they came up.
            self._cores[node].counters.dropped[Drop.RA_COVERED.value] += covered
            self.node_counts[node, RA_COVERED] = 0

    def _put(self, members: Bits) -> _Sets:
        """A set as words, for which rows are wide enough then."""
        self._fit(members)
        return _as_words(members, self._predicates.shape[1])

    def _answer(self, exit_: int) -> None:
        """Answers a question of compiled code about the first arrival, an RA."""
        adverts = self.adverts
        assert adverts is not None
        if exit_ == Exit.RELATE and adverts.relate(int(self._first()[NUMBER]), self._put):
            return
        if exit_ == Exit.QUESTION:
            adverts.answer(self._put)
            return
        wire, message, hops = self._first()[[WIRE, MESSAGE, HOP_LIMIT]].tolist()
        node, interface = self._wires[wire, [RECEIVER, INTERFACE]].tolist()
        table, columns = self._tables[node], self._messages[message]
        assert table is not None
        own = table.class_of.item(columns[ISSUER]) - 1
        if exit_ == Exit.LEND:
            adverts.lay_out_class(node, own)
        else:
            adverts.unite(node, own, interface, message, columns, hops - 1, self._put)

    # What happened.

    def _drain(self) -> None:
        """Reports what compiled code has logged, in its order."""
        rows = self._log[: self._control[Control.LOGGED]].tolist()
        self._control[Control.LOGGED] = 0
        recorded = 0
        for what, at_ns, where, row, hops, ports in rows:
            frame = self._frame(row, hops)
            if what == DELIVERED:
                recorded = self._record(recorded, ports)
                self._deliver(where, at_ns, frame)
            elif self._report is not None:
                self._report(what, at_ns, where, ports, frame)
        self._record(recorded, int(self._control[Control.RECORDED]))
        self._control[Control.RECORDED] = 0

    def _record(self, first: int, end: int) -> int:
        """Reports the deliveries whose records are from one byte to before another; returns the latter."""
        if first < end:
            assert self._report_deliveries is not None
            records = self._records[first:end].tobytes()
            self._report_deliveries(records.count(b"\n"), records)
        return end


def can_run(cores: list[Router]) -> bool:
    """Whether compiled code decides about messages as these routers would.

    They route by interface, match by the pool of filters, and nothing counts the messages that they send.
    """
    for core in cores:
        state = core.forwarding()
        if state is None or state.counts is not None or not isinstance(state.scheme, PerInterface):
            return False
        if state.routing.pool is not POOL:
            return False
    return True


def of_adverts(cores: list[Router], issued: int) -> PredicateLimits | None:
    """The limits of all routers, if compiled code may handle RAs as these routers would; None: it may not.

    Nothing is over-simplified or confirmed, and the RAs of no issuer together use up what it may send, so its
    allowance (`router.protocol.intake`) never matters.

    Args:
        issued: the greatest weight of all RAs of a node together.
    """
    options = cores[0].options
    limits = options.limits
    if options.max_filters is not None or options.reliable_control:
        return None
    if issued > limits.burst - limits.predicate_weight:
        return None
    return limits


def _signed(number: int) -> int:
    """An unsigned number of 64 bits as a signed number of the same bits."""
    return number - (number >> 63 << 64)


def _as_words(members: Bits, words: int) -> _Sets:
    return np.frombuffer(members.to_bytes(words * _WORD_BYTES, "little"), np.uint64)
