"""A router's link to its switch: sends and receives protocol frames as counted Ethernet frames.

Every Ethernet frame that is read or sent is counted once, by type, with its length as on the wire (14
bytes of header included, check sequence excluded): the counts equal those of a capture on the host link.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from router.protocol.events import ControllerFrame, FrameReceived
from router.runtime.packet_socket import PacketSocket, SendResult
from router.wire.addresses import (
    CONTROLLER,
    CONTROLLER_DESTINATION,
    ETHERTYPE,
    node_address,
    port_addresses,
)
from router.wire.codec import forwarded_frame, fragment
from router.wire.frames import Frame
from router.wire.intake import FrameIntake

#: Ethernet frames that may wait for the device.
SEND_QUEUE_FRAMES = 16_384
#: Frames read at one wake-up before other sockets are served.
BATCH = 64
#: Seconds before a frame is offered again to a device whose queue was full.
_RETRY_AFTER = 0.001
_ETHERTYPE_BYTES = ETHERTYPE.to_bytes(2, "big")


@dataclass(frozen=True, slots=True)
class _Outgoing:
    type: str
    frame: bytes


class Link:
    """Reads and sends the frames of one router.

    Args:
        node: the router's node.
        packets: the router's socket.
        log: is called for each frame that cannot be used: (event, fields).
        send_queue_frames: Ethernet frames that may wait for the device before more are dropped.
    """

    def __init__(
        self,
        node: int,
        packets: PacketSocket,
        log: Callable[[str, dict[str, Any]], None],
        send_queue_frames: int = SEND_QUEUE_FRAMES,
    ) -> None:
        self.packets = packets
        self.frames_sent: Counter[str] = Counter()
        self.bytes_sent = 0
        self._dropped: Counter[str] = Counter()
        self._log = log
        self._intake = FrameIntake(forwarded_frame, self._log_drop)
        self._queue: deque[_Outgoing] = deque()
        self._queue_limit = send_queue_frames
        self._retry_at: float | None = None
        self._source = node_address(node)

    @property
    def frames_received(self) -> Counter[str]:
        """Ethernet frames read so far, by type."""
        return self._intake.frames

    @property
    def bytes_received(self) -> int:
        """Bytes of the Ethernet frames read so far."""
        return self._intake.bytes

    @property
    def idle(self) -> bool:
        """True if no frame waits to be sent and none is partly received."""
        return not self._queue and self._intake.reassembler.next_deadline() is None

    def dropped(self) -> Counter[str]:
        """Numbers of dropped frames by reason: Ethernet frames, or (`reassembly_*`) frames partly
        received."""
        counts = self._dropped + self._intake.dropped
        counts["reassembly_timeout"] = self._intake.reassembler.expired
        counts["reassembly_evicted"] = self._intake.reassembler.evicted
        return counts

    @property
    def wants_write(self) -> bool:
        """True if frames wait until the socket is writable."""
        return bool(self._queue) and self._retry_at is None

    def next_deadline(self) -> float | None:
        """Returns the time at which `tick` is to be called, or None."""
        deadlines = (self._retry_at, self._intake.reassembler.next_deadline())
        return min((at for at in deadlines if at is not None), default=None)

    def tick(self, now: float) -> None:
        self._intake.reassembler.expire(now)
        if self._retry_at is not None and now >= self._retry_at:
            self._retry_at = None
            self.flush(now)

    def receive(self, now: float) -> Iterator[tuple[FrameReceived | ControllerFrame, bytes]]:
        """Reads up to `BATCH` Ethernet frames; yields the protocol frames that they complete.

        Each frame comes with its wire form: the header of the Ethernet frame that completed it, and its body.
        """
        for _ in range(BATCH):
            data = self.packets.receive()
            if data is None:
                return
            taken = self._intake.take(data, now)
            if taken is not None:
                sender, frame, encoded = taken
                yield (
                    ControllerFrame(frame) if sender == CONTROLLER else FrameReceived(sender, frame),
                    encoded,
                )

    def send(self, interfaces: frozenset[int], frame: Frame, now: float) -> None:
        """Sends a protocol frame out of `interfaces`: one Ethernet frame for each page and fragment."""
        self._send(_addresses(interfaces), frame, now)

    def send_to_controller(self, frame: Frame, now: float) -> None:
        self._send([CONTROLLER_DESTINATION], frame, now)

    def _send(self, destinations: list[bytes], frame: Frame, now: float) -> None:
        try:
            payloads = fragment(frame, self.packets.mtu)
        except ValueError as error:
            self._drop("unencodable", type=frame.type.name, error=str(error))
            return
        kind = frame.type.name
        for destination in destinations:
            header = destination + self._source + _ETHERTYPE_BYTES
            for payload in payloads:
                self._send_ethernet(_Outgoing(kind, header + payload), now)

    def _send_ethernet(self, outgoing: _Outgoing, now: float) -> None:
        # Behind the queue, so that frames keep their order.
        if self._queue or not self._sent(outgoing, now):
            if len(self._queue) >= self._queue_limit:
                self._drop("send_queue_full", type=outgoing.type)
            else:
                self._queue.append(outgoing)

    def flush(self, now: float) -> None:
        """Sends queued frames, as far as the device accepts them."""
        while self._queue and self._sent(self._queue[0], now):
            self._queue.popleft()

    def _sent(self, outgoing: _Outgoing, now: float) -> bool:
        """Offers a frame to the device. Returns True if it was sent or dropped, False if it must wait."""
        result = self.packets.send(outgoing.frame)
        if result is SendResult.SENT:
            self.frames_sent[outgoing.type] += 1
            self.bytes_sent += len(outgoing.frame)
            return True
        if result is SendResult.FAILED:
            self._drop("send_failed", type=outgoing.type)
            return True
        if result is SendResult.NO_BUFFERS:
            self._retry_at = now + _RETRY_AFTER
        return False

    def _drop(self, reason: str, **fields: Any) -> None:
        self._dropped[reason] += 1
        self._log_drop(reason, fields)

    def _log_drop(self, reason: str, fields: dict[str, Any]) -> None:
        self._log("dropped", {"reason": reason, **fields})


# A router uses few sets of interfaces for many frames.
@lru_cache(maxsize=4096)
def _addresses(interfaces: frozenset[int]) -> list[bytes]:
    return port_addresses(interfaces)
