"""The data plane of one router: its state in arrays, and the batches that compiled code forwards on it."""

from __future__ import annotations

from select import EPOLLIN
from struct import Struct
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt

from router.clock.clock import ExperimentClock
from router.forwarding.buffers import FrameBuffers
from router.forwarding.kernel import forward, serve
from router.forwarding.layout import EVENT_BYTES, EVENT_DATA, EVENTS_SIZE, LOG_OVERHEAD, State
from router.forwarding.tables import LaidOutEpochs, dense_numbers
from router.matching.compiled.engine import CompiledMatcher
from router.native.memory import address_of
from router.protocol.core.router import ForwardingState
from router.protocol.counters import Counters
from router.wire.addresses import node_address

# Plain numbers: an element of an enumeration costs more than the assignment that it is an index of.
_COUNT, _NEXT, _OUT, _SENT = int(State.COUNT), int(State.NEXT), int(State.OUT), int(State.SENT)
_HOLD, _NOW, _TABLE, _LOG_AT = int(State.HOLD), int(State.NOW), int(State.TABLE), int(State.LOG_AT)
_BODY_ROOM = int(State.BODY_ROOM)
_WOKEN, _WOKEN_CPU = int(State.WOKEN), int(State.WOKEN_CPU)
_TURN, _TURN_CPU = int(State.TURN), int(State.TURN_CPU)
_COUNT_LIMIT, _SOCKET, _LAG = int(State.COUNT_LIMIT), int(State.SOCKET), int(State.LAG)
_LOG, _LOG_ROOM, _LOG_UNTIL = int(State.LOG), int(State.LOG_ROOM), int(State.LOG_UNTIL)
_EPOLL, _DEADLINE, _READY, _STOPPED = (
    int(State.EPOLL),
    int(State.DEADLINE),
    int(State.READY),
    int(State.STOPPED),
)
_CLOCK_START, _CLOCK_SECONDS, _CLOCK_RATE, _CLOCK_UNTIL = (
    int(State.CLOCK_START),
    int(State.CLOCK_SECONDS),
    int(State.CLOCK_RATE),
    int(State.CLOCK_UNTIL),
)
_CLOCK_LINES, _CLOCK_LINES_KNOWN, _CLOCK_STALE = (
    int(State.CLOCK_LINES),
    int(State.CLOCK_LINES_KNOWN),
    int(State.CLOCK_STALE),
)
#: Mask and descriptor of a struct epoll_event.
_EVENT = Struct(f"=I{EVENT_DATA - 4}xi")


class Log(Protocol):
    """Takes the records of what compiled code did: `router.recording.file.Recorder`."""

    clock_due: float

    def reserve(self, length: int, at: float | None) -> tuple[int, int]:
        """Makes room and returns its address and its bytes.

        Raises OSError: there is none.
        """

    def written(self, length: int) -> None:
        """So many bytes of it were written."""


class DataPlane:
    """Forwards messages as the core of one router would.

    `wait` waits for input, and forwards messages for as long as nothing else is ready. It returns when there
    is something for the caller, such as a frame that only the core can decide. The caller takes the frames of
    the batch that are left in their order::

        frame = plane.receive(hold)
        while frame is not None:
            ...                                 # the core handles it
            frame = plane.resume(hold)

    After each call of `receive` and `resume`, `unsent` is to be taken.

    Args:
        state: of the router.
        clock: of the router.
        buffers: of the batches.
        descriptor: of the socket.
        mtu: of the device.

    Attributes:
        log: takes records; None: nothing is recorded.
        log_error: why `log` is taken no longer; None: it is, or there was none.

    Raises:
        ValueError: the router's matcher cannot be searched by compiled code.
    """

    def __init__(
        self,
        state: ForwardingState,
        clock: ExperimentClock,
        buffers: FrameBuffers,
        descriptor: int,
        mtu: int,
        log: Log | None,
    ) -> None:
        self.log = log
        self.log_error: OSError | None = None
        self._source = state
        self._clock = clock
        self._buffers = buffers
        assert isinstance(state.routing.matcher, CompiledMatcher)
        self._matcher = state.routing.matcher
        row: npt.NDArray[np.int64] = np.zeros(State.SIZE, np.int64)
        self._row, self._address = row, address_of(row)
        # Elements of memory views are read and written faster than those of arrays.
        self._state = row.data
        self._reals = cast("memoryview[float]", row.view(np.float64).data)
        self._tables_seen = self._routing_seen = -1
        row[State.SOCKET], row[State.MTU], row[State.NODE] = descriptor, mtu, state.node
        row[State.SLOTS], row[State.ROOM] = buffers.slots, buffers.room
        row[State.FRAMES] = address_of(buffers.frames)
        row[State.HEADERS_IN], row[State.HEADERS_OUT] = map(
            address_of, (buffers.headers_in, buffers.headers_out)
        )
        row[State.PIECES_OUT] = address_of(buffers.pieces_out)
        row[State.ADDRESS] = int.from_bytes(node_address(state.node), "little")
        row[State.CLOCK_STALE] = 1
        self._events: npt.NDArray[np.uint8] = np.zeros(EVENTS_SIZE * EVENT_BYTES, np.uint8)
        row[State.EVENTS] = address_of(self._events)
        self._log_bytes = buffers.slots * (buffers.room + LOG_OVERHEAD)

    # Batches.

    def wait(self, epoll: int, deadline_ns: int, hold: bool) -> list[tuple[int, int]]:
        """Waits, and forwards messages until something else is to be done.

        Args:
            epoll: descriptor of the set to wait for; the plane's own socket is waited for in it.
            deadline_ns: monotonic ns at which to return; `layout.NEVER`: at no time.
            hold: leave messages to the caller: frames wait to be sent before them.

        Returns:
            Descriptors that are ready, each with its mask (see epoll_wait(2)). The plane's own is among them
            if the caller is to call `receive`, before the next call.
        """
        state, at = self._state, None
        if state[_CLOCK_STALE]:
            self._lay_out_clock()
            at = self._clock.now()
        self._prepare(hold, at)
        state[_EPOLL], state[_DEADLINE] = epoll, deadline_ns
        state[_COUNT] = state[_OUT] = state[_SENT] = 0
        serve(self._address)
        self._finish()
        if state[_STOPPED]:
            return [(state[_SOCKET], EPOLLIN)]
        events = self._events.data
        places = range(0, state[_READY] * EVENT_BYTES, EVENT_BYTES)
        return [(which, mask) for mask, which in (_EVENT.unpack_from(events, place) for place in places)]

    @property
    def has_stopped(self) -> bool:
        """Whether `wait` has left a batch, or frames of it to send, that `receive` is to take."""
        return bool(self._state[_STOPPED])

    def receive(self, hold: bool) -> bytes | None:
        """Forwards a batch up to the first frame that is the core's.

        The rest of the batch in which `wait` has stopped, or a new one.

        Args:
            hold: leave the frames to send to the caller (`unsent`): others wait before them.

        Returns:
            That frame, or None: all of the batch was decided.
        """
        state = self._state
        if state[_STOPPED]:
            state[_STOPPED] = 0
            number = state[_NEXT]
            return self._buffers.frame(number) if number < state[_COUNT] else None
        return self._forward(hold, 1)

    def resume(self, hold: bool) -> bytes | None:
        """As `receive`, for the rest of the batch, behind the frame that the core has handled."""
        state = self._state
        state[_NEXT] += 1
        if state[_NEXT] == state[_COUNT]:
            # That frame was the last: what a call into compiled code costs at a wake-up is saved.
            state[_OUT] = state[_SENT] = 0
            return None
        return self._forward(hold, 0)

    def take_rest(self) -> list[bytes]:
        """The frames of the batch behind the one that the core has handled; they are the caller's."""
        state = self._state
        rest = [self._buffers.frame(number) for number in range(state[_NEXT] + 1, state[_COUNT])]
        state[_NEXT] = state[_COUNT]
        state[_OUT] = state[_SENT] = 0
        return rest

    def put(self, frames: list[bytes]) -> bytes | None:
        """As `receive`, for at most `buffers.slots` frames in place of those of the socket; holds."""
        for number, frame in enumerate(frames):
            self._buffers.put(number, frame)
        self._state[_COUNT], self._state[_NEXT] = len(frames), 0
        return self._forward(hold=True, fresh=0)

    @property
    def has_unsent(self) -> bool:
        return self._state[_SENT] < self._state[_OUT]

    def unsent(self) -> list[bytes]:
        """The frames that the last call left to be sent."""
        state = self._state
        return [self._buffers.outgoing(number) for number in range(state[_SENT], state[_OUT])]

    def take_lag(self) -> float:
        """How long a frame has waited that `wait` has received, at most, since the last call; seconds."""
        lag = self._state[_LAG]
        self._state[_LAG] = 0
        return lag / 1e9

    def take_turn(self) -> tuple[float, float]:
        """Wall and CPU time of the longest turns that ended in `wait`, since the last call; seconds."""
        state = self._state
        longest = state[_TURN] / 1e9, state[_TURN_CPU] / 1e9
        state[_TURN] = state[_TURN_CPU] = 0
        return longest

    @property
    def woken(self) -> tuple[float, float]:
        """`time.monotonic` and `time.thread_time` when the last `wait` had something to do."""
        state = self._state
        return state[_WOKEN] / 1e9, state[_WOKEN_CPU] / 1e9

    def _forward(self, hold: bool, fresh: int) -> bytes | None:
        at = self._clock.now()
        self._prepare(hold, at)
        self._reals[_NOW] = at
        number: int = forward(self._address, fresh)
        self._finish()
        return self._buffers.frame(number) if number < self._state[_COUNT] else None

    def _prepare(self, hold: bool, at: float | None) -> None:
        """Lays out what has changed since the last call, and makes room for records."""
        source, state = self._source, self._state
        if source.tables.changes != self._tables_seen:
            self._lay_out_tables()
        if source.routing.changes != self._routing_seen:
            self._lay_out_predicates()
        if source.counts is not None:
            state[_COUNT_LIMIT] = source.counts.limit
        # A call of the matcher by the core may have merged segments, or released memory for long messages.
        state[_TABLE] = self._matcher.table
        state[_BODY_ROOM] = self._matcher.body_room if self._routing_seen >= 0 else -1
        state[_HOLD] = hold
        log = self.log
        if log is None:
            state[_LOG] = 0
        else:
            try:
                state[_LOG], state[_LOG_ROOM] = log.reserve(self._log_bytes, at)
                self._reals[_LOG_UNTIL] = log.clock_due
            except OSError as error:
                self.log, self.log_error, state[_LOG] = None, error, 0
        state[_LOG_AT] = 0

    def _finish(self) -> None:
        length = self._state[_LOG_AT]
        if length and self.log is not None:
            self.log.written(length)

    # Layout.

    def _lay_out_clock(self) -> None:
        state, line = self._state, self._clock.line()
        state[_CLOCK_START], state[_CLOCK_UNTIL] = line.start_ns, line.until_ns
        state[_CLOCK_LINES], state[_CLOCK_LINES_KNOWN] = line.lines, line.lines_known
        self._reals[_CLOCK_SECONDS], self._reals[_CLOCK_RATE] = line.seconds, line.rate
        state[_CLOCK_STALE] = 0

    def _lay_out_tables(self) -> None:
        """Lays out the held epochs, and the counts of their interfaces."""
        source, row = self._source, self._row
        self._tables_seen = source.tables.changes
        self._epochs = LaidOutEpochs(source)
        row[State.EPOCHS], row[State.EPOCH_COUNT] = address_of(self._epochs.rows), len(self._epochs.rows)
        if source.counts is not None:
            for table in source.tables.held():
                source.counts.fit(max(table.neighbours, default=0))
            row[State.COUNTED], row[State.COUNTED_SIZE] = source.counts.counts.buffer_info()
            row[State.COUNT_DUE], _ = source.counts.due.buffer_info()

    def _lay_out_predicates(self) -> None:
        """Lays out which number the matcher has for which entry of the routing table."""
        row = self._row
        routing = self._source.routing
        if not routing.synced:
            # Messages are the core's, which gives the changes to the matcher.
            self._routing_seen = -1
            return
        self._routing_seen = routing.changes
        numbers = self._matcher.lay_out()
        self._dense = dense_numbers(numbers)
        row[State.DENSE], row[State.DENSE_SIZE] = address_of(self._dense), len(self._dense)
        size = max(numbers.values(), default=0) + 1
        self._flags = np.zeros((2, size), np.uint8)
        row[State.OPEN], row[State.MARK] = map(address_of, self._flags)

    # Counters.

    def collect(self, counters: Counters) -> tuple[int, int, int, int]:
        """Moves the counts of decided messages to those of the core.

        Returns:
            Ethernet frames and bytes received, and frames and bytes sent, since the last call.
        """
        row = self._row
        first, last = State.FRAMES_DONE, State.BYTES_SENT
        done, bytes_done, forwarded, unwanted, sent, bytes_sent = row[first : last + 1].tolist()
        counters.messages_received += done
        counters.messages_forwarded += forwarded
        counters.messages_unwanted += unwanted
        row[first : last + 1] = 0
        return done, bytes_done, sent, bytes_sent
