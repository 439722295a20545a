"""A router twice: by the core alone, and with compiled code that forwards its messages."""

from __future__ import annotations

import json
import re
import socket
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from router.clock.clock import FixedClock, Reading
from router.forwarding.applications import Waiting
from router.forwarding.buffers import FrameBuffers
from router.forwarding.plane import DataPlane
from router.predicates.model import Message
from router.protocol.events import (
    Accepted,
    Action,
    ControllerFrame,
    Deliver,
    Event,
    FrameReceived,
    Send,
    SendMessage,
)
from router.protocol.options import RouterOptions
from router.recording.actions import encode_actions
from router.recording.file import Origin, Recorder
from router.records.applications import delivery_head
from router.wire.addresses import CONTROLLER, ETHERTYPE, node_address, port_addresses
from router.wire.codec import WholeFrame, forwarded_frame, fragment
from router.wire.frames import Frame
from router.wire.intake import FrameIntake

MTU = 400
_ETHERTYPE = ETHERTYPE.to_bytes(2, "big")


def ethernet(frame: Frame, sender: int, mtu: int = MTU) -> list[bytes]:
    """The Ethernet frames by which the router of node `sender` sends a frame to its first port."""
    head = port_addresses([1])[0] + node_address(sender) + _ETHERTYPE
    return [head + payload for payload in fragment(frame, mtu)]


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"


def _record(node: int, app: int, source: int, seq: int) -> str:
    return f'{{"event":"deliver","node":{node},"app":"app {app}","source":{source},"seq":{seq}}}'


class _Clock(FixedClock):
    """A clock that its router sets."""

    at = 0.0

    def now(self) -> float:
        return self.at

    def reading(self) -> Reading:
        return Reading(1e9, 0, 1.0)


class CoreRouter:
    """A router whose frames the core handles.

    Attributes:
        out: the Ethernet frames that it sent, in order.
        lines: what each application got.
        records: the records of deliveries, without their times.
        actions: the other actions, in order, encoded.
        received, sent: Ethernet frames by type; `bytes_received`, `bytes_sent` their bytes.
    """

    def __init__(self, node: int, options: RouterOptions, recording: Path) -> None:
        origin = Origin(node, options, "compiled", 0, 1)
        self.node = node
        self.core = origin.router()
        self.clock = _Clock()
        self.recorder = Recorder(recording, origin, self.clock)
        self.intake = FrameIntake(forwarded_frame)
        self.out: list[bytes] = []
        self.lines: defaultdict[int, bytes] = defaultdict(bytes)
        self.records: list[str] = []
        self.actions: list[bytes] = []
        self.sent: Counter[str] = Counter()
        self.bytes_sent = 0

    def handle(self, event: Event, now: float, wire: WholeFrame | None = None) -> None:
        self.recorder.event(event, now, wire)
        actions = self.core.handle(event, now)
        self.recorder.actions(event, actions)
        self._perform(event, actions)

    def frames(self, batch: list[bytes], now: float) -> None:
        """Takes Ethernet frames in their order."""
        for data in batch:
            self.take(data, now)

    def take(self, data: bytes, now: float) -> None:
        taken = self.intake.take(data, now)
        if taken is not None:
            sender, frame, wire = taken
            event = ControllerFrame(frame) if sender == CONTROLLER else FrameReceived(sender, frame)
            self.handle(event, now, wire)

    def request(self, app: int, lines: list[bytes], now: float) -> None:
        """Takes requests of an application to send a message."""
        for line in lines:
            self._serve(app, line, now)

    def _serve(self, app: int, line: bytes, now: float) -> None:
        """As `router.runtime.applications` does."""
        request = json.loads(line)
        event = SendMessage(app, Message(request["attributes"]))
        self.recorder.event(event, now)
        actions = self.core.handle(event, now)
        self.recorder.actions(event, actions)
        (accepted,) = (action for action in actions if isinstance(action, Accepted))
        answer = {"id": request["id"], "ok": True, "source": accepted.source, "seq": accepted.seq}
        self.lines[app] += _json(answer)
        record = {"event": "send_message", "node": self.node, "app": f"app {app}"}
        record |= {"source": accepted.source, "seq": accepted.seq, "attributes": request["attributes"]}
        self.records.append(_json(record).decode().rstrip())
        self._perform(event, actions)

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
            encode_actions(event, [action])
            for action in actions
            if not isinstance(action, Send | Deliver | Accepted)
        ]
        for action in actions:
            if isinstance(action, Send):
                for destination in port_addresses(action.interfaces):
                    for payload in fragment(action.frame, MTU):
                        head = destination + node_address(self.node) + _ETHERTYPE
                        self.send(action.frame.type.name, head + payload)
            if isinstance(action, Deliver):
                self._deliver(action)

    def _deliver(self, action: Deliver) -> None:
        """As `router.runtime.applications` does."""
        line = {"event": "deliver", "source": action.source, "seq": action.seq, "attributes": action.message}
        for app in action.apps:
            self.lines[app] += _json(line)
            self.records.append(_record(self.node, app, action.source, action.seq))


class CompiledRouter(CoreRouter):
    """A router whose messages compiled code forwards, where it may.

    Attributes:
        decided, lines_decided, requests_decided: messages that compiled code has decided, records of what it
            did for applications, and requests among these.
    """

    def __init__(self, node: int, options: RouterOptions, recording: Path) -> None:
        super().__init__(node, options, recording)
        state = self.core.forwarding()
        assert state is not None
        self.buffers = FrameBuffers(64, MTU + 14)
        self.plane = DataPlane(state, self.clock, self.buffers, -1, MTU, self.recorder)
        self.decided = self.lines_decided = self.requests_decided = 0
        self._rest: list[bytes] = []
        applications = self.plane.applications
        assert applications is not None
        self.applications = applications
        applications.deliverer = self
        self._sockets: dict[int, tuple[socket.socket, socket.socket]] = {}

    def open(self, apps: Iterable[int]) -> None:
        """Lets compiled code deliver to applications; each takes little at a time."""
        for app in apps:
            ours, theirs = self._sockets[app] = socket.socketpair()
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
            ours.setblocking(False)
            theirs.setblocking(False)
            self._connect(app)

    def close(self) -> None:
        for pair in self._sockets.values():
            for each in pair:
                each.close()

    # What a plane needs of its caller (`router.forwarding.applications.Deliverer`).

    def recorded(self, records: bytes, since: float) -> None:  # noqa: ARG002
        fresh = re.sub(r'"(t|requested)_ns":\d+,', "", records.decode()).splitlines()
        self.lines_decided += len(fresh)
        self.requests_decided += sum("send_message" in record for record in fresh)
        self.records += fresh

    def left(self, number: int, lines: bytes, deliveries: Sequence[Waiting]) -> None:
        self._read(number)
        self.lines[number] += lines
        self.records += [
            _record(self.node, number, each.source, each.seq)
            for each in deliveries
            if each.source is not None
        ]
        assert len(lines) == sum(each.length for each in deliveries)
        self._connect(number)

    def requested(self, number: int, data: bytes) -> None:  # noqa: ARG002
        self._rest = data.splitlines()

    def request(self, app: int, lines: list[bytes], now: float) -> None:
        self.clock.at = now
        if app not in self._sockets:
            super().request(app, lines, now)
            return
        while lines:
            self._rest = []
            self._sockets[app][1].send(b"".join(lines))
            self.plane.take_requests(app)
            self._send_what_is_left()
            for each in self._sockets:
                self._read(each)
            lines = []
            if self._rest:
                # The first of them is not an ordinary request.
                self._serve(app, self._rest[0], now)
                lines = [line + b"\n" for line in self._rest[1:]]
                self._connect(app)

    def _connect(self, app: int) -> None:
        self.applications.open(app, self._sockets[app][0].fileno(), delivery_head(self.node, f"app {app}"))

    def _read(self, app: int) -> None:
        with suppress(BlockingIOError):
            while True:
                text = self._sockets[app][1].recv(1 << 16)
                self.lines[app] += text

    def frames(self, batch: list[bytes], now: float) -> None:
        self.clock.at = now
        left = self.plane.put(batch)
        self._send_what_is_left()
        while left is not None:
            # What the core delivers comes behind.
            for app in self._sockets:
                self._read(app)
            self.take(left, now)
            left = self.plane.resume(hold=True)
            self._send_what_is_left()
        for app in self._sockets:
            self._read(app)

    def counters(self) -> dict[str, Any]:
        frames, octets, _, _ = self.plane.collect(self.core.counters)
        self.decided += frames
        if frames:
            self.intake.frames["MSG"] += frames
        self.intake.bytes += octets
        return super().counters()

    def _send_what_is_left(self) -> None:
        for data in self.plane.unsent():
            self.send("MSG", data)
