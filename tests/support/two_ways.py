"""A router twice: by the core alone, and with compiled code that forwards its messages."""

from __future__ import annotations

import math
import socket
from array import array
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from router.clock import Piece
from router.clock.clock import NEVER, ExperimentClock, Reading
from router.clock.meter import Meter
from router.forwarding.layout import FrameBuffers
from router.forwarding.plane import DataPlane
from router.protocol.events import Action, ControllerFrame, Deliver, Event, FrameReceived, Send
from router.protocol.options import RouterOptions
from router.recording.actions import encode_actions, encode_delivery
from router.recording.file import Origin, Recorder
from router.wire.codec import WholeFrame, forwarded_frame, fragment
from router.wire.header import CONTROLLER, ETHERTYPE_BYTES, node_address, port_addresses
from router.wire.intake import FrameIntake

MTU = 400
#: The device of routers that have none of their own, and its other end.
_DEVICE = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


class _Clock(ExperimentClock):
    """A clock that stands still until its router or a test sets it."""

    def __init__(self) -> None:
        super().__init__()
        self.at = 0.0
        self._count = array("q", [0])
        self.changes = memoryview(self._count)

    def set(self, at: float, rate: float) -> None:
        self.at, self._rate = at, rate
        # Compiled code looks at the clock again.
        self._count[0] += 1

    def now(self) -> float:
        return self.at

    def segment(self) -> tuple[Piece, int, int]:
        seen = self._count[0]
        return Piece(0, self.at, 0.0), NEVER, seen

    def reading(self) -> Reading:
        return Reading(1e9, 0, self.rate)


class CoreRouter:
    """A router whose frames the core handles.

    Attributes:
        out: the Ethernet frames that it sent, in order.
        actions: the other actions, in order, encoded.
        received, sent: Ethernet frames by type; `bytes_received`, `bytes_sent` their bytes.
        after_delivery: is called after each delivery, as an application may leave when it gets a message.
    """

    def __init__(self, node: int, options: RouterOptions, recording: Path) -> None:
        origin = Origin(node, options, "compiled", 0, 1)
        self.node = node
        self.core = origin.router().core
        self.clock = _Clock()
        self.recorder = Recorder(recording, origin, self.clock)
        self.intake = FrameIntake(forwarded_frame)
        self.out: list[bytes] = []
        self.actions: list[bytes] = []
        self.sent: Counter[str] = Counter()
        self.bytes_sent = 0
        self.after_delivery: Callable[[], None] = lambda: None

    def handle(self, event: Event, now: float, wire: WholeFrame | None = None) -> None:
        self.recorder.event(event, now, wire)
        actions = self.core.handle(event, now)
        self.recorder.actions(event, actions)
        self._perform(event, actions)

    def frames(self, batch: list[bytes], now: float) -> None:
        for data in batch:
            self.take(data, now)

    def take(self, data: bytes, now: float) -> None:
        taken = self.intake.take(data, now)
        if taken is not None:
            sender, frame, wire = taken
            event = ControllerFrame(frame) if sender == CONTROLLER else FrameReceived(sender, frame)
            self.handle(event, now, wire)

    def send(self, kind: str, data: bytes) -> None:
        self.out.append(data)
        self.sent[kind] += 1
        self.bytes_sent += len(data)

    def counters(self) -> dict[str, Any]:
        """All counters, of core and link."""
        intake = self.intake
        return {
            **asdict(self.core.counters),
            "frames_received": dict(intake.frames),
            "bytes_received": intake.bytes,
            "dropped_frames": dict(intake.dropped),
            "frames_sent": dict(self.sent),
            "bytes_sent": self.bytes_sent,
        }

    def _perform(self, event: Event, actions: list[Action]) -> None:
        self.actions += [
            encode_actions(event, [action]) for action in actions if not isinstance(action, Send)
        ]
        for action in actions:
            if isinstance(action, Send):
                for destination in port_addresses(action.interfaces):
                    for payload in fragment(action.frame, MTU):
                        head = destination + node_address(self.node) + ETHERTYPE_BYTES
                        self.send(action.frame.type.name, head + payload)
            elif isinstance(action, Deliver):
                self.after_delivery()


class CompiledRouter(CoreRouter):
    """A router whose messages compiled code forwards, where it may.

    Attributes:
        decided: messages that compiled code has decided.
        due: when a delivery has something to do later, `time.monotonic`; None: at no time.
    """

    def __init__(
        self,
        node: int,
        options: RouterOptions,
        recording: Path,
        device: tuple[socket.socket, socket.socket] = _DEVICE,
        turn_s: float = math.inf,
        meter: Meter | None = None,
        clock: ExperimentClock | None = None,
    ) -> None:
        super().__init__(node, options, recording)
        state = self.core.forwarding()
        assert state is not None
        self._wire = device[1]
        self.buffers = FrameBuffers(64, MTU + 14)
        self.plane = DataPlane(
            state,
            clock or self.clock,
            self.buffers,
            device[0].fileno(),
            MTU,
            self.recorder,
            self._delivered,
            meter or Meter(),
            turn_s,
        )
        self.decided = 0
        self.due: float | None = None

    def frames(self, batch: list[bytes], now: float) -> None:
        self.clock.at = now
        for data in batch:
            self._wire.send(data)
        left = self.plane.receive(hold=True)
        self._send_what_is_left()
        while left is not None:
            self.take(left, now)
            left = self.plane.resume(hold=True)
            self._send_what_is_left()

    def counters(self) -> dict[str, Any]:
        frames, octets, _, _ = self.plane.collect(self.core.counters)
        self.decided += frames
        if frames:
            self.intake.frames["MSG"] += frames
        self.intake.bytes += octets
        return super().counters()

    def _delivered(self, actions: list[Action]) -> float | None:
        for action in actions:
            assert isinstance(action, Deliver)
            self.actions.append(encode_delivery(action))
            self.after_delivery()
        return self.due

    def _send_what_is_left(self) -> None:
        for data in self.plane.unsent():
            self.send("MSG", data)
