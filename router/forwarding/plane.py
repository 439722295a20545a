"""The data plane of one router: its state in arrays, and the batches that compiled code forwards on it."""

from __future__ import annotations

import math
import random
import select
import time
from collections.abc import Callable
from typing import cast

import numpy as np
import numpy.typing as npt

from router.clock import NS
from router.clock.clock import NEVER, ExperimentClock
from router.clock.meter import COMPILED, Meter
from router.forwarding import layout
from router.forwarding.kernel import forward, serve
from router.forwarding.layout import CHILD_WIDTH, CLASS_WIDTH, EPOCH_WIDTH, FrameBuffers
from router.matching.compiled import CLOSED
from router.matching.compiled.engine import CompiledMatcher
from router.native import address_of
from router.protocol.broadcast import EpochTable
from router.protocol.core.router import ForwardingState
from router.protocol.counters import Counters
from router.protocol.events import Action, Deliver
from router.protocol.schemes import Scheme
from router.recording.actions import encode_delivery
from router.recording.file import Recorder
from router.wire.header import (
    ETHERNET_HEADER_LENGTH,
    HEADER,
    HEADER_LENGTH,
    LOCAL_INTERFACE,
    PORTS_PER_PAGE,
    node_address,
)
from router.wire.message import decode_message
from router.wire.tree_classes import CLASS_DTYPE

# Names of this module are read faster than those of another.
_COUNT, _NEXT, _LOCAL, _HOLD = layout.COUNT, layout.NEXT, layout.LOCAL, layout.HOLD
_OUT, _SENT = layout.OUT, layout.SENT
_LOG, _LOG_AT, _NOW = layout.LOG, layout.LOG_AT, layout.NOW
#: Descriptors that one wait reports.
_READY = 64
_Longs = npt.NDArray[np.int64]
_BODY = ETHERNET_HEADER_LENGTH + HEADER_LENGTH


class DataPlane:
    """Forwards messages as the core of one router would.

    `wait` waits for input, and forwards messages for as long as nothing else is ready. It returns when there
    is something for the caller, such as a frame that only the core can decide. The caller takes the frames of
    the batch that are left in their order::

        frame = plane.receive(hold)
        while frame is not None:
            ...                                 # the core handles it
            frame = plane.resume(hold)

    After each call of `receive` and `resume`, `unsent` is to be taken. Messages for applications of this node
    are delivered in their place.

    Args:
        state: of the router, whose matching engine is the compiled one.
        clock: of the router.
        buffers: of the batches.
        descriptor: of the socket.
        mtu: of the device.
        log: takes records; None: nothing is recorded.
        perform: performs deliveries, and returns when the caller has something to do (`time.monotonic`; None:
            at no time).
        meter: is given the turns that end within `wait`, and how long frames have waited.
        turn_s: seconds of deliveries after which the rest of a batch is the core's, which the caller bounds.

    Attributes:
        log: see above.
        log_error: why `log` is taken no longer; None: it is, or there was none.
        has_stopped: whether `wait` has left a batch, or frames of it to send, for `receive`.
        woken: `time.monotonic` when the last `wait` had something to do.
    """

    def __init__(
        self,
        state: ForwardingState,
        clock: ExperimentClock,
        buffers: FrameBuffers,
        descriptor: int,
        mtu: int,
        log: Recorder | None,
        perform: Callable[[list[Action]], float | None],
        meter: Meter,
        turn_s: float,
    ) -> None:
        self.log = log
        self.log_error: OSError | None = None
        self._source = state
        self._tables, self._routing = state.scheme.context.tables, state.scheme.routing
        node = state.scheme.context.node
        self._clock = clock
        self._buffers = buffers
        self._perform, self._meter, self._turn_s = perform, meter, turn_s
        assert isinstance(self._routing.matcher, CompiledMatcher)
        self._matcher = self._routing.matcher
        row: npt.NDArray[np.int64] = np.zeros(layout.SIZE, np.int64)
        self._row, self._address = row, address_of(row)
        # Elements of memory views are read and written faster than those of arrays.
        self._state = row.data
        self._reals = cast("memoryview[float]", row.view(np.float64).data)
        self._tables_seen = self._routing_seen = -1
        row[layout.SOCKET], row[layout.MTU], row[layout.NODE] = descriptor, mtu, node
        row[layout.SLOTS], row[layout.ROOM] = buffers.slots, buffers.room
        row[layout.FRAMES] = address_of(buffers.frames)
        row[layout.PIECES_OUT] = address_of(buffers.pieces_out)
        row[layout.HEADERS_IN] = address_of(buffers.headers_in)
        row[layout.HEADERS_OUT] = address_of(buffers.headers_out)
        #: Arrays whose addresses are in the row.
        self._shared = (np.frombuffer(clock.changes, np.int64), np.asarray(meter.slot), np.zeros(4, np.int64))
        row[layout.CHANGES], row[layout.METER], row[layout.EVENTS] = map(address_of, self._shared)
        row[layout.ADDRESS] = int.from_bytes(node_address(node), "little")
        self._log_bytes = buffers.slots * (buffers.room + layout.LOG_OVERHEAD)
        self._only = [(descriptor, select.EPOLLIN)]
        self.has_stopped, self.woken = False, 0.0

    # Batches.

    def wait(self, epoll: select.epoll, until: float | None) -> list[tuple[int, int]]:
        """Waits, and forwards batches of messages for as long as nothing else is ready.

        Deliveries alone ask the core, and the layout of the tables is brought up to date after each. No line
        of Python is between a wait and its batch: caches are cold then, and a line costs more than the batch.

        Args:
            epoll: what to wait for; the plane's own socket is in it, for input.
            until: `time.monotonic` at which to return; None: at no time.

        Returns:
            Descriptors that are ready, each with its mask. The plane's own is among them if the caller is to
            call `receive`, before the next call.
        """
        state, meter, clock = self._state, self._meter, self._clock
        state[_HOLD], state[layout.EPOLL] = 0, epoll.fileno()
        state[layout.END] = NEVER if until is None else int(until * NS)
        self._prepare()
        while True:
            ended = serve(self._address)
            clock.latest = self._reals[_NOW]
            if ended == layout.OTHERS:
                break
            began, cpu_s = state[layout.BEGAN] / NS, 0.0
            if ended == layout.FRAMES_LEFT:
                began_cpu = time.thread_time()
                self.has_stopped = not self._delivered(hold=False)
                cpu_s = time.thread_time() - began_cpu
            # Within the turn: room for records may take the disk long.
            self._prepare()
            meter.turn(time.monotonic() - began, COMPILED, clock, cpu_s)
            if state[layout.LAG]:
                meter.late(self.take_lag(), clock)
            if self.has_stopped:
                break
        self.woken = time.monotonic()
        self._write_log()
        return self._only if self.has_stopped else epoll.poll(0, _READY)

    def _prepare(self) -> None:
        """Gives compiled code the tables, the clock, and room for records."""
        state, reals = self._state, self._reals
        self._lay_out()
        self._write_log()
        piece, state[layout.PIECE_END], state[layout.CHANGES_SEEN] = self._clock.segment()
        state[layout.PIECE_START] = piece.start_ns
        reals[layout.PIECE_SECOND], reals[layout.PIECE_RATE] = piece.experiment_s, piece.rate
        at = self._clock.now()
        reals[_NOW] = at
        reals[layout.LOG_DUE], state[layout.LOG_MOST] = self._reserve(at)

    def receive(self, hold: bool) -> bytes | None:
        """Forwards a batch up to the first frame that is the core's.

        The rest of the batch in which `wait` has stopped, or a new batch.

        Args:
            hold: leave the frames to send to the caller (`unsent`): others wait before them.

        Returns:
            That frame, or None: all of the batch was decided.
        """
        if self.has_stopped:
            self.has_stopped = False
        else:
            self._call(hold, 1)
        return self._undecided(hold)

    def resume(self, hold: bool) -> bytes | None:
        """As `receive`, for the rest of the batch, behind the frame that the core has handled."""
        self._go_on(hold)
        return self._undecided(hold)

    def _go_on(self, hold: bool) -> None:
        """Forwards the frames behind the frame at which compiled code has stopped."""
        self._pass()
        # A call into compiled code is slow after a wake-up: none is made behind the last frame.
        if self._state[_NEXT] < self._state[_COUNT]:
            self._call(hold, 0)

    def _pass(self) -> None:
        """Passes the frame at which compiled code has stopped."""
        self._state[_LOCAL] = 0
        self._state[_NEXT] += 1

    def take_rest(self) -> list[bytes]:
        """The frames of the batch behind the one that the core has handled; they are the caller's."""
        state = self._state
        rest = [self._buffers.frame(number) for number in range(state[layout.NEXT] + 1, state[layout.COUNT])]
        state[layout.NEXT] = state[layout.COUNT]
        return rest

    def _undecided(self, hold: bool) -> bytes | None:
        """Delivers messages up to the first frame of the batch that was not decided, and returns that."""
        self._delivered(hold)
        number = self._state[layout.NEXT]
        return self._buffers.frame(number) if number < self._state[layout.COUNT] else None

    @property
    def has_unsent(self) -> bool:
        return self._state[_SENT] < self._state[_OUT]

    def unsent(self) -> list[bytes]:
        """The frames that were left to be sent; the caller sends them."""
        state = self._state
        left = [self._buffers.outgoing(number) for number in range(state[_SENT], state[_OUT])]
        state[_OUT] = state[_SENT] = 0
        return left

    def take_lag(self) -> float:
        """How long a frame has waited that was received, at most, since the last call; seconds."""
        lag = self._state[layout.LAG]
        self._state[layout.LAG] = 0
        return lag / 1e9

    def _delivered(self, hold: bool) -> bool:
        """Delivers the message that compiled code has stopped at, if any, and goes on behind it, for a turn.

        Returns:
            Whether the batch is done: all of it is decided and sent.
        """
        state, until = self._state, time.monotonic() + self._turn_s
        while local := state[_LOCAL]:
            self._deliver(self._buffers.frame(state[_NEXT]), local == layout.IS_LOCAL)
            if time.monotonic() < until:
                self._go_on(hold)
            else:
                self._pass()
        return state[_NEXT] == state[_COUNT] and not self.has_unsent

    def _deliver(self, frame: bytes, forwarded: bool) -> None:
        """Delivers a message to applications of this node, and completes its record."""
        state = self._state
        _, _, _, _, source, seq, _, length, *_ = HEADER.unpack_from(frame, ETHERNET_HEADER_LENGTH)
        message = decode_message(frame[_BODY : _BODY + length])
        actions = self._source.messages.came_in(source, seq, message, forwarded)
        if self.log is not None:
            more = b"".join([encode_delivery(each) for each in actions if isinstance(each, Deliver)])
            try:
                self.log.answer(state[layout.EVENT_AT], state[layout.ANSWER_AT], state[_LOG_AT], more)
            except OSError as error:
                self.log, self.log_error = None, error
        state[_LOG_AT] = 0
        due = self._perform(actions)
        if due is not None:
            state[layout.END] = min(state[layout.END], int(due * NS))

    def _call(self, hold: bool, fresh: int) -> None:
        at = self._clock.now()
        self._lay_out()
        self._reserve(at)
        self._state[_HOLD], self._reals[_NOW] = hold, at
        forward(self._address, fresh)
        self._write_log()

    def _reserve(self, at: float) -> tuple[float, int]:
        """Makes room for records; returns when, and behind how many bytes, it has to be made again."""
        log, state = self.log, self._state
        state[_LOG] = state[_LOG_AT] = 0
        if log is None:
            return math.inf, 0
        try:
            state[_LOG], room = log.reserve(self._log_bytes, at)
        except OSError as error:
            self.log, self.log_error = None, error
            return math.inf, 0
        return log.clock_due, room - self._log_bytes

    def _write_log(self) -> None:
        if self._state[_LOCAL]:
            return  # `_deliver` completes the last record first
        length, self._state[_LOG_AT] = self._state[_LOG_AT], 0
        if length and self.log is not None:
            self.log.written(length)

    def _lay_out(self) -> None:
        """Lays out what has changed since the last call."""
        state, counts = self._state, self._source.counts
        if self._tables.changes != self._tables_seen:
            self._lay_out_tables()
        if self._routing.changes != self._routing_seen:
            self._lay_out_predicates()
        if counts is not None:
            state[layout.COUNT_LIMIT] = counts.limit
        # A call of the matcher by the core may have merged segments, or released memory for long messages.
        state[layout.TABLE] = self._matcher.address
        state[layout.BODY_ROOM] = self._matcher.body_room if self._routing_seen >= 0 else -1

    def _lay_out_tables(self) -> None:
        """Lays out the held epochs, and the counts of their interfaces."""
        counts, row = self._source.counts, self._row
        self._tables_seen = self._tables.changes
        # Newest first: most frames are of the current epoch.
        tables = sorted(self._tables.held(), key=lambda table: table.epoch, reverse=True)
        epochs: _Longs = np.zeros((len(tables), EPOCH_WIDTH), np.int64)
        #: Arrays whose addresses are in the rows.
        self._epochs: list[npt.NDArray[np.generic]] = [epochs]
        for epoch, table in zip(epochs, tables, strict=True):
            class_of = np.ascontiguousarray(table.class_of, CLASS_DTYPE)
            classes, children = _rows(self._source.scheme, table)
            epoch[:] = table.epoch, address_of(class_of), len(class_of), address_of(classes)
            self._epochs += [class_of, classes, children]
        row[layout.EPOCHS], row[layout.EPOCH_COUNT] = address_of(epochs), len(epochs)
        if counts is not None:
            counts.fit(max(self._tables.neighbours, default=0))
            row[layout.COUNTED], row[layout.COUNTED_SIZE] = counts.counts.buffer_info()
            row[layout.COUNT_DUE], _ = counts.due.buffer_info()

    def _lay_out_predicates(self) -> None:
        """Lays out which number the matcher has for which entry of the routing table."""
        row, routing = self._row, self._routing
        if routing.unsynced:
            # Messages are the core's, which gives the changes to the matcher.
            self._routing_seen = -1
            return
        self._routing_seen = routing.changes
        numbers = self._matcher.lay_out()
        #: By entry of the routing table: its number in the matcher, 0 for an entry that it lacks.
        self._dense = np.zeros(max(numbers, default=0) + 1, np.int32)
        self._dense[list(numbers)] = list(numbers.values())
        row[layout.DENSE], row[layout.DENSE_SIZE] = address_of(self._dense), len(self._dense)
        size = max(numbers.values(), default=0) + 1
        self._open = np.full(size, CLOSED, np.uint8)
        row[layout.OPEN] = address_of(self._open)

    # Counters.

    def collect(self, counters: Counters) -> tuple[int, int, int, int]:
        """Moves the counts of decided messages to those of the core.

        Returns:
            Ethernet frames and bytes received, and frames and bytes sent, since the last call.
        """
        row = self._row
        first, last = layout.FRAMES_DONE, layout.BYTES_SENT
        done, bytes_done, forwarded, unwanted, sent, bytes_sent = row[first : last + 1].tolist()
        counters.messages_received += done
        counters.messages_forwarded += forwarded
        counters.messages_unwanted += unwanted
        row[first : last + 1] = 0
        return done, bytes_done, sent, bytes_sent


def _rows(scheme: Scheme, table: EpochTable) -> tuple[_Longs, _Longs]:
    """The rows of classes, by number, and of their children."""
    rows: list[tuple[int, int, int, int]] = []
    spans = [(0, 0)]
    senders = [-1]
    for branch in table.classes:
        entries = scheme.deciding_entries(table, branch)
        first = len(rows)
        if entries is not None:
            rows += [_child(interface, entry) for interface, entry in entries]
        decided = entries is not None and branch.parent != LOCAL_INTERFACE
        senders.append(table.neighbours[branch.parent] if decided else -1)
        spans.append((first, len(rows)))
    children: _Longs = np.array(rows, np.int64).reshape(-1, CHILD_WIDTH)
    classes: _Longs = np.empty((len(senders), CLASS_WIDTH), np.int64)
    classes[:, 0] = senders
    classes[:, 1:] = address_of(children) + children.itemsize * CHILD_WIDTH * np.array(spans)
    return classes, children


def _child(interface: int, entry: int | None) -> tuple[int, int, int, int]:
    page, bit = divmod(interface - 1, PORTS_PER_PAGE)
    return interface, -1 if entry is None else entry, page, 1 << bit


def warm() -> None:
    """Loads the machine code, or compiles it (within a minute)."""
    from router.matching.engines import COMPILED, factory
    from router.protocol.core.router import Router
    from router.protocol.options import RouterOptions

    router = Router(0, RouterOptions(), factory(COMPILED), 0, random.Random(0))
    state = router.forwarding()
    assert state is not None
    buffers, clock = FrameBuffers(1, 64), ExperimentClock()
    plane = DataPlane(state, clock, buffers, -1, 64, None, lambda _actions: None, Meter(), math.inf)
    with select.epoll() as epoll:
        plane.wait(epoll, 0.0)
    # No descriptor is valid: nothing is received.
    plane.receive(hold=False)
