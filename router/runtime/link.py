"""A router's link to its switch: sends and receives protocol frames as counted Ethernet frames.

Every Ethernet frame that is read or sent is counted once, by type, with its length as on the wire (14
bytes of header included, check sequence excluded): the counts equal those of a capture on the host link.

Messages and control frames come in by sockets of their own, and wait to be sent in queues of their own.
"""

from __future__ import annotations

import errno
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from router.protocol.counters import Counters
from router.protocol.events import ControllerFrame, FrameReceived
from router.runtime.packet_socket import PacketSocket, PacketSockets
from router.wire import header
from router.wire.codec import WholeFrame, forwarded_frame, fragment
from router.wire.format import DATA
from router.wire.frames import Frame, FrameType
from router.wire.intake import FrameIntake

if TYPE_CHECKING:  # it comes with Numba
    from router.forwarding.plane import DataPlane
    from router.security.guard import Guard  # it comes with cryptography

#: Ethernet frames of messages and publications, and of control frames, that may wait for the device.
SEND_QUEUE_FRAMES = 16_384
#: Ethernet frames that wait which are sent in one turn: each takes some 5 us.
SENT_IN_A_TURN = 256
#: Seconds before a frame is offered again to a device whose queue was full.
_RETRY_AFTER = 0.001
#: Seconds for which the next fragment may be under way: others of the switch's frames go before it. One that
#: comes later comes from a sender that is not idle.
_FRAGMENTS_AWAITED_S = 2.0
_MESSAGE = FrameType.MSG.name
#: A frame that came in, and its wire form, with the header of the Ethernet frame that completed it.
Received = tuple[FrameReceived | ControllerFrame, WholeFrame]


class SendQueue:
    """The frames that wait for one socket; they keep their order.

    Args:
        socket: takes the frames.
        limit: frames that may wait before more are dropped.
        sent: is called with type and length of each frame that was sent.
        dropped: is called with the reason and the type of frames that were dropped, and their number.
        first: the queue for the same device whose frames go before those of this queue; None: there is none.

    Attributes:
        blocked: whether frames wait because the socket or the device has taken no more.
        retry_at: when frames are offered again: to a device that does not report when it has room, or in the
            next turn.
    """

    def __init__(
        self,
        socket: PacketSocket,
        limit: int,
        sent: Callable[[str, int], None],
        dropped: Callable[[str, str, int], None],
        first: SendQueue | None = None,
    ) -> None:
        self.socket = socket
        self._limit = limit
        self._sent = sent
        self._dropped = dropped
        #: Ethernet frames, with the types of their protocol frames.
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._first = first
        self.blocked = False
        self.retry_at: float | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def wants_write(self) -> bool:
        """True if frames wait until the socket is writable."""
        return bool(self._waiting) and self.retry_at is None and not self._goes_later

    @property
    def _goes_later(self) -> bool:
        """Whether a full device keeps frames that go first."""
        return self._first is not None and self._first.blocked

    def send(self, kind: str, frames: Sequence[bytes], now: float) -> None:
        """Sends the Ethernet frames of one protocol frame, behind those that wait.

        The queue takes all or none; an empty queue has room for any number.
        """
        idle = not self._waiting
        if not idle and len(self) + len(frames) > self._limit:
            self._dropped("send_queue_full", kind, len(frames))
            return
        self._waiting.extend([(kind, frame) for frame in frames])
        if idle:
            self.flush(now)

    def flush(self, now: float) -> None:
        """Sends what waits, as far as the device accepts it and a turn may last."""
        self.retry_at = None
        sent = 0
        while self._waiting and not self._goes_later:
            if sent == SENT_IN_A_TURN:
                self.retry_at = now
                return
            if not self._offer(*self._waiting[0], now):
                return
            sent += 1
            self._waiting.popleft()

    def _offer(self, kind: str, frame: bytes, now: float) -> bool:
        """Offers a frame to the device. Returns True if it was sent or dropped, False if it must wait."""
        try:
            self.socket.send(frame)
        except OSError as error:
            self.blocked = error.errno in (errno.EAGAIN, errno.ENOBUFS)
            if error.errno == errno.ENOBUFS:
                self.retry_at = now + _RETRY_AFTER
            if not self.blocked:
                self._dropped("send_failed", kind, 1)
        else:
            self.blocked = False
            self._sent(kind, len(frame))
        return not self.blocked


class Link:
    """Reads and sends the frames of one router.

    Args:
        node: the router's node.
        sockets: the router's sockets.
        log: is called for each frame that cannot be used: (event, fields).
        send_queue_frames: Ethernet frames of messages, and of control frames, that may wait for the device
            before more are dropped.
        plane: forwards messages; None: all go to the core.
        guard: tags the frames that are sent, and verifies those that are received; None: there are no tags.
        neighbours: interface -> node, as far as the router knows them.

    Attributes:
        intake: of the frames that are read, with its counts.
        messages, control: the queues of frames to send: messages and publications, and all others.
        changed: whether `next_deadline` or the queues may have changed; for the caller to reset.
        compiled: messages that the plane has decided, when `collect` was last called.
    """

    def __init__(
        self,
        node: int,
        sockets: PacketSockets,
        log: Callable[[str, dict[str, Any]], None],
        send_queue_frames: int = SEND_QUEUE_FRAMES,
        plane: DataPlane | None = None,
        guard: Guard | None = None,
        neighbours: Callable[[], Mapping[int, int]] = dict,
    ) -> None:
        self.sockets = sockets
        self.frames_sent: Counter[str] = Counter()
        self.bytes_sent = 0
        self._dropped: Counter[str] = Counter()
        self._log = log
        verify = None if guard is None else guard.open
        self.intake = FrameIntake(forwarded_frame, self._log_drop, verify)
        self._guard = guard
        self._neighbours = neighbours
        if guard is not None:
            guard.neighbours = lambda: neighbours().values()
        self._plane = plane
        self.control = SendQueue(sockets.control, send_queue_frames, self._count, self._drop_frames)
        self.messages = SendQueue(
            sockets.messages, send_queue_frames, self._count, self._drop_frames, self.control
        )
        self.changed = False
        self.compiled = 0
        #: Control frames that were read and not handled.
        self._arrived: deque[bytes] = deque()
        #: Messages likewise: the core handles them.
        self._put_off: deque[bytes] = deque()
        self._source = header.node_address(node)
        #: What `next_deadline` has returned last.
        self._known: float | None = None

    @property
    def idle(self) -> bool:
        """True if no frame waits to be sent or handled, and none had a new fragment of late."""
        if self.messages or self.control or self._arrived or self._put_off:
            return False
        latest = self.intake.reassembler.latest()
        return latest is None or time.monotonic() - latest > _FRAGMENTS_AWAITED_S

    @property
    def holds(self) -> bool:
        """True if frames wait that go before any message that compiled code would send."""
        return bool(self.messages) or self.control.blocked

    @property
    def behind(self) -> bool:
        """True if control frames were read that are not handled: `receive_control` has more."""
        return bool(self._arrived)

    @property
    def messages_behind(self) -> bool:
        """True if messages were read that are not handled: `receive_messages` has more."""
        return bool(self._put_off)

    def dropped(self) -> Counter[str]:
        """Numbers of dropped frames by reason: Ethernet frames, or (`reassembly_*`) frames partly
        received."""
        counts = self._dropped + self.intake.dropped
        counts["reassembly_timeout"] = self.intake.reassembler.expired
        counts["reassembly_evicted"] = self.intake.reassembler.evicted
        return counts

    def collect(self, counters: Counters) -> None:
        """Adds what the plane has counted to the counts of the link, and to those of the core."""
        if self._plane is None:
            return
        received, bytes_received, sent, bytes_sent = self._plane.collect(counters)
        self.compiled += received
        if received:
            self.intake.frames[_MESSAGE] += received
            self.intake.bytes += bytes_received
        if sent:
            self.frames_sent[_MESSAGE] += sent
            self.bytes_sent += bytes_sent

    def next_deadline(self) -> float | None:
        """Returns the time at which `tick` is to be called, or None."""
        deadlines = (self.messages.retry_at, self.control.retry_at, self.intake.reassembler.next_deadline())
        self._known = min((at for at in deadlines if at is not None), default=None)
        return self._known

    def tick(self, now: float) -> None:
        self.intake.reassembler.expire(now)
        for queue in (self.control, self.messages):
            if queue.retry_at is not None and now >= queue.retry_at:
                queue.flush(now)

    def give_up_partial(self) -> None:
        """Gives up the frames that are partly received, at the end."""
        self.intake.reassembler.expire(math.inf)

    def receive_control(self, now: float) -> Iterator[Received]:
        """Reads a batch of Ethernet frames; yields the control frames that they complete.

        Frames that the caller does not ask for wait for the next call.
        """
        arrived = self._arrived
        if not arrived:
            arrived.extend(self.sockets.control.receive())
        while arrived:
            yield from self._take(arrived.popleft(), now)

    def receive_messages(self, now: float) -> Iterator[Received]:
        """Reads a batch of messages; yields those that the core must handle, in their order.

        A caller that does not take all of them calls `put_off_messages`; the rest waits for the next call.
        """
        plane, put_off = self._plane, self._put_off
        if plane is None or put_off:
            if not put_off:
                put_off.extend(self.sockets.messages.receive())
            while put_off:
                yield from self._take(put_off.popleft(), now)
            return
        left = plane.receive(self.holds)
        self._keep_unsent(plane, now)
        while left is not None:
            yield from self._take(left, now)
            left = plane.resume(self.holds)
            self._keep_unsent(plane, now)

    def put_off_messages(self) -> None:
        """Keeps the messages that `receive_messages` has read and not yielded."""
        if self._plane is not None and not self._put_off:
            self._put_off.extend(self._plane.take_rest())

    def note_waiting(self) -> None:
        """Marks the link changed if frames wait to be sent, or an incomplete frame expires earlier."""
        deadline = self.intake.reassembler.next_deadline()
        earlier = deadline is not None and (self._known is None or deadline < self._known)
        # The core may have answered a message by an SR.
        if self.messages or self.control or earlier:
            self.changed = True

    def _keep_unsent(self, plane: DataPlane, now: float) -> None:
        """Keeps the frames that the plane could not send."""
        if plane.has_unsent:
            for frame in plane.unsent():
                self.messages.send(_MESSAGE, [frame], now)

    def _take(self, data: bytes, now: float) -> Iterator[Received]:
        taken = self.intake.take(data, now)
        if taken is not None:
            sender, frame, encoded = taken
            controller = sender == header.CONTROLLER
            yield ControllerFrame(frame) if controller else FrameReceived(sender, frame), encoded

    def send(self, interfaces: frozenset[int], frame: Frame, now: float) -> None:
        """Sends a protocol frame out of `interfaces`: one Ethernet frame for each page and fragment."""
        self._send(_addresses(interfaces), frame, now)

    def send_to_controller(self, frame: Frame, now: float) -> None:
        self._send([header.CONTROLLER_DESTINATION], frame, now)

    def _send(self, destinations: list[bytes], frame: Frame, now: float) -> None:
        kind = frame.type.name
        queue = self.messages if frame.type in DATA else self.control
        try:
            guard, mtu = self._guard, self.sockets.mtu
            if guard is None:
                payloads = fragment(frame, mtu)
                made = [[self._head(each) + payload for payload in payloads] for each in destinations]
            else:
                frame = guard.signed(frame)
                made = [
                    guard.frames(self._head(each), frame, self._receivers(each), mtu) for each in destinations
                ]
        except ValueError as error:
            self._drop("unencodable", type=kind, error=str(error))
            return
        for frames in made:
            queue.send(kind, frames, now)

    def _head(self, destination: bytes) -> bytes:
        return destination + self._source + header.ETHERTYPE_BYTES

    def _receivers(self, destination: bytes) -> list[bytes]:
        """The addresses of the controller, or of the neighbours that are known, behind a destination."""
        if destination == header.CONTROLLER_DESTINATION:
            return [header.CONTROLLER_SOURCE]
        nodes = self._neighbours()
        ports = sorted(header.ports_of(destination))
        return [header.node_address(nodes[port]) for port in ports if port in nodes]

    def _count(self, kind: str, length: int) -> None:
        self.frames_sent[kind] += 1
        self.bytes_sent += length

    def _drop(self, reason: str, **fields: Any) -> None:
        self._dropped[reason] += 1
        self._log_drop(reason, fields)

    def _drop_frames(self, reason: str, kind: str, count: int) -> None:
        self._drop(reason, type=kind)
        self._dropped[reason] += count - 1

    def _log_drop(self, reason: str, fields: dict[str, Any]) -> None:
        self._log("dropped", {"reason": reason, **fields})


# A router uses few sets of interfaces for many frames.
_addresses = lru_cache(maxsize=4096)(header.port_addresses)
