"""The data plane of one router: its state in arrays, and the batches that compiled code forwards on it."""

from __future__ import annotations

from typing import cast

import numpy as np
import numpy.typing as npt

from router.forwarding.buffers import FrameBuffers
from router.forwarding.kernel import forward
from router.forwarding.layout import LOG_OVERHEAD, State
from router.forwarding.tables import LaidOutEpochs, dense_numbers
from router.native.memory import address_of
from router.protocol.counters import Counters
from router.protocol.forwarding import ForwardingState
from router.wire.addresses import node_address

# Plain numbers: an element of an enumeration costs more than the assignment that it is an index of.
_COUNT, _NEXT, _OUT, _SENT = int(State.COUNT), int(State.NEXT), int(State.OUT), int(State.SENT)
_HOLD, _NOW, _TABLE, _LOG_AT = int(State.HOLD), int(State.NOW), int(State.TABLE), int(State.LOG_AT)
_COUNT_LIMIT = int(State.COUNT_LIMIT)


class DataPlane:
    """Forwards messages as the core of one router would.

    Frames that the core must handle come back in their place in the order of arrival, one at a time::

        frame = plane.receive(now, hold)
        while frame is not None:
            ...                                 # the core handles it
            frame = plane.resume(now, hold)

    After each of these calls, `log` and `unsent` are to be taken.

    Args:
        state: of the router.
        buffers: of the batches.
        descriptor: of the socket.
        mtu: of the device.
        recording: whether `log` is needed.

    Attributes:
        received: the messages of the batch; fewer than the buffers hold if the socket has no more.

    Raises:
        ValueError: the router's matcher cannot be searched by compiled code.
    """

    def __init__(
        self, state: ForwardingState, buffers: FrameBuffers, descriptor: int, mtu: int, *, recording: bool
    ) -> None:
        self._source = state
        self._buffers = buffers
        matcher = state.routing.laid_out()
        if matcher is None:
            raise ValueError("the matching engine cannot be searched by compiled code")
        self._matcher = matcher
        row: npt.NDArray[np.int64] = np.zeros(State.SIZE, np.int64)
        self._row, self._address = row, address_of(row)
        # Elements of memory views are read and written faster than those of arrays.
        self._state = row.data
        self._times = cast("memoryview[float]", row.view(np.float64).data)
        self._tables_seen = self._routing_seen = -1
        row[State.SOCKET], row[State.MTU], row[State.NODE] = descriptor, mtu, state.node
        row[State.SLOTS], row[State.ROOM] = buffers.slots, buffers.room
        row[State.FRAMES] = address_of(buffers.frames)
        row[State.HEADERS_IN], row[State.HEADERS_OUT] = map(
            address_of, (buffers.headers_in, buffers.headers_out)
        )
        row[State.PIECES_OUT] = address_of(buffers.pieces_out)
        row[State.ADDRESS] = int.from_bytes(node_address(state.node), "little")
        self._log: npt.NDArray[np.uint8] = np.empty(
            buffers.slots * (buffers.room + LOG_OVERHEAD) if recording else 0, np.uint8
        )
        self._log_view = self._log.data
        row[State.LOG] = address_of(self._log) if recording else 0

    # Batches.

    def receive(self, now: float, hold: bool) -> bytes | None:
        """Receives a batch and forwards its messages up to the first frame that is the core's.

        Args:
            now: seconds, as events get it.
            hold: leave the frames to send to the caller (`unsent`): others wait before them.

        Returns:
            That frame, or None: all of the batch was decided.
        """
        return self._forward(now, hold, 1)

    def resume(self, now: float, hold: bool) -> bytes | None:
        """As `receive`, for the rest of the batch, behind the frame that the core has handled."""
        self._state[_NEXT] += 1
        return self._forward(now, hold, 0)

    def put(self, frames: list[bytes], now: float) -> bytes | None:
        """As `receive`, for at most `buffers.slots` frames in place of those of the socket; holds."""
        for number, frame in enumerate(frames):
            self._buffers.put(number, frame)
        self._state[_COUNT], self._state[_NEXT] = len(frames), 0
        return self._forward(now, hold=True, fresh=0)

    @property
    def received(self) -> int:
        return self._state[_COUNT]

    @property
    def log(self) -> memoryview:
        """The records of the frames that the last call decided."""
        return self._log_view[: self._state[_LOG_AT]]

    @property
    def has_unsent(self) -> bool:
        return self._state[_SENT] < self._state[_OUT]

    def unsent(self) -> list[bytes]:
        """The frames that the last call left to be sent."""
        state = self._state
        return [self._buffers.outgoing(number) for number in range(state[_SENT], state[_OUT])]

    def _forward(self, now: float, hold: bool, fresh: int) -> bytes | None:
        source, state = self._source, self._state
        if source.tables.changes != self._tables_seen:
            self._lay_out_tables()
        if source.routing.changes != self._routing_seen:
            self._lay_out_predicates()
        if source.counts is not None:
            state[_COUNT_LIMIT] = source.counts.limit
        # A call of the matcher by the core may have merged segments.
        state[_TABLE] = self._matcher.table
        state[_HOLD] = hold
        self._times[_NOW] = now
        number: int = forward(self._address, fresh)
        return self._buffers.frame(number) if number < state[_COUNT] else None

    # Layout.

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

    def _lay_out_predicates(self) -> None:
        """Lays out which number the matcher has for which entry of the routing table."""
        row = self._row
        self._routing_seen = self._source.routing.changes
        self._source.routing.laid_out()
        numbers = self._matcher.lay_out()
        self._dense = dense_numbers(numbers)
        row[State.DENSE], row[State.DENSE_SIZE] = address_of(self._dense), len(self._dense)
        size = max(numbers.values(), default=0) + 1
        self._flags = np.zeros((2, size), np.uint8)
        row[State.OPEN], row[State.MARK] = map(address_of, self._flags)
        row[State.BODY_ROOM] = self._matcher.body_room

    # Counters.

    def collect(self, counters: Counters) -> tuple[int, int, int, int]:
        """Moves the counts of decided messages to those of the core.

        Returns:
            Ethernet frames and bytes received, and frames and bytes sent, since the last call.
        """
        row = self._row
        forwarded, unwanted = int(row[State.FORWARDED]), int(row[State.UNWANTED])
        counters.messages_received += forwarded + unwanted
        counters.messages_forwarded += forwarded
        counters.messages_unwanted += unwanted
        first, last = State.FRAMES_DONE, State.BYTES_SENT
        done, bytes_done, _, _, sent, bytes_sent = row[first : last + 1].tolist()
        row[first : last + 1] = 0
        return done, bytes_done, sent, bytes_sent
