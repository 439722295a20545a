"""The simulated network below the routers: host links, switches, links, and their counters.

The model, in wall seconds of the emulation that it represents:

- A frame that a router sends at t arrives at the switch of the next router, and at that router, at
  t + `HOP_NS` + the link's delay + its wait for bandwidth. `HOP_NS` is the time of two host links, two
  switches and the work of a router together; a router answers at once.
- Bandwidth is a token bucket with the emulation's depth and longest wait (`testbed.network.shaping`); a frame
that would wait longer is dropped. Loss, duplicates, jitter and reordering are drawn for each Ethernet frame,
from the seed.
- Captures and switches see a frame of a link when it arrives: delayed and shaped frames pass the emulation's
  captures at that time, too.
- A frame to or from the controller takes `CONTROL_NS`; no such frame is lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from captures.rundir.counters import SwitchCounters
from router.protocol.counters import Counters
from router.protocol.events import ControllerFrame, Event, FrameReceived
from router.records.counters import router_counters
from router.wire.addresses import (
    CONTROLLER_DESTINATION,
    CONTROLLER_SOURCE,
    ETHERNET_HEADER_LENGTH,
    ETHERTYPE,
    HOST_PORT,
    ROUTER_DESTINATION,
    node_address,
)
from router.wire.codec import DEFAULT_MTU, fragment
from router.wire.frames import Frame, FrameType
from router.wire.header import TYPE_NAMES, decode_header
from router.wire.intake import RefusedError
from testbed.network.shaping import TBF_BURST_BYTES, TBF_LATENCY_S
from testbed.sim.captures import Capture, Captures, record
from testbed.sim.clock import NS, Agenda
from testbed.sim.encoding import Encoder, Measurer, destinations
from topos.model import Link, Topology

if TYPE_CHECKING:
    from router.security.guard import Guard

#: See the module docstring. In an emulation of five routers on a busy machine (userspace datapath) the
#: fastest tenth of the hops took up to 0.3 ms from router to router and up to 0.3 ms in the router; the
#: median was 3.5 ms.
HOP_NS = 500_000
CONTROL_NS = 1_000_000
#: Longest wait of a frame for the emulation's token bucket.
_LONGEST_WAIT_NS = round(TBF_LATENCY_S * NS)
_ETHERTYPE_BYTES = ETHERTYPE.to_bytes(2, "big")

#: Names of frame types, by number.
_TYPES = tuple(TYPE_NAMES.get(number, "") for number in range(max(FrameType) + 1))

#: Handles an event that a router receives.
Receive = Callable[[Event], None]


class Line:
    """The common state of both directions of a link.

    `cuts` is even while the link is up, and grows with each change.
    """

    __slots__ = ("cuts",)

    def __init__(self) -> None:
        self.cuts = 0


class Wire:
    """One direction of a link, with the counters of the switch ports at its ends."""

    __slots__ = (
        *("bytes_sent", "captures", "delay_ns", "dropped", "duplicate", "frames", "full_ns", "jitter_ns"),
        *("line", "link_ns", "loss", "lost", "lost_bytes", "ns_per_byte", "port", "random", "receiver"),
        *("reorder", "sender", "shaped"),
    )

    def __init__(self, line: Line, link: Link, sender: int, receiver: int, seed: int) -> None:
        self.line = line
        #: The captures that see the frames that arrive.
        self.captures: list[Capture] = []
        #: The receiver's port.
        self.port = link.u_port if receiver == link.u else link.v_port
        self.sender = sender
        self.receiver = receiver
        #: Time at which the token bucket will be full (ns).
        self.full_ns = 0.0
        self.random = Random(f"{seed}/loss {sender}-{receiver}")
        self.shape(link)
        #: Ethernet frames that arrived, by type.
        self.frames = [0] * len(_TYPES)
        self.bytes_sent = 0
        self.lost = self.lost_bytes = self.dropped = 0

    def shape(self, link: Link) -> None:
        """Takes the properties of a link."""
        self.link_ns = round((link.delay_ms or 0.0) * 1e6)
        self.delay_ns = HOP_NS + self.link_ns
        self.jitter_ns = (link.jitter_ms or 0.0) * 1e6
        self.ns_per_byte = 8 * NS / (link.bandwidth_mbps * 1e6) if link.bandwidth_mbps else 0.0
        self.loss = (link.loss_percent or 0.0) / 100
        self.reorder = (link.reorder_percent or 0.0) / 100
        self.duplicate = (link.duplicate_percent or 0.0) / 100
        #: Whether frames take anything but the delay.
        self.shaped = bool(self.ns_per_byte or self.loss or self.jitter_ns or self.reorder or self.duplicate)

    def draw(self, probability: float) -> bool:
        """Draws at random whether something happens to a frame."""
        return probability > 0.0 and self.random.random() < probability

    def way_ns(self) -> int:
        """Draws the time that a frame takes, beside its wait for bandwidth."""
        if self.draw(self.reorder):
            return self.delay_ns - self.link_ns
        if not self.jitter_ns:
            return self.delay_ns
        return self.delay_ns + round(self.random.uniform(-self.jitter_ns, self.jitter_ns))

    def wait_ns(self, now_ns: int, length: int) -> int | None:
        """Returns the wait of a frame of `length` bytes for bandwidth, or None if it exceeds the longest
        wait."""
        burst_ns = TBF_BURST_BYTES * self.ns_per_byte
        full_ns = max(self.full_ns, float(now_ns)) + length * self.ns_per_byte
        wait = full_ns - burst_ns - now_ns
        if wait > _LONGEST_WAIT_NS:
            return None
        self.full_ns = full_ns
        return max(0, round(wait))


class Host:
    """A router's host link, with the counters of the router at its end."""

    __slots__ = ("bytes_sent", "capture", "control_bytes", "controls", "dropped", "header", "sent", "wires")

    def __init__(self, node: int, capture: Capture | None) -> None:
        self.capture = capture
        self.header = node_address(node) + _ETHERTYPE_BYTES
        #: By switch port.
        self.wires: dict[int, Wire] = {}
        #: Ethernet frames by type: those of the controller, and those of the router.
        self.controls = [0] * len(_TYPES)
        self.sent = [0] * len(_TYPES)
        self.control_bytes = self.bytes_sent = 0
        self.dropped: Counter[str] = Counter()


class Fabric:
    """Carries frames between routers, and between routers and the controller.

    Args:
        topology: nodes and links.
        agenda: the agenda on which arrivals are scheduled.
        captures: captures of links and host links.
        seed: seed of the losses.
        guards: makes the guard of a sender from its Ethernet source address; None: frames have no tags.

    Attributes:
        under_way: frames that have been sent and have not arrived.
        moved_ns: virtual time at which a frame was last sent or arrived.
    """

    def __init__(
        self,
        topology: Topology,
        agenda: Agenda,
        captures: Captures,
        seed: int,
        guards: Callable[[bytes], Guard] | None = None,
    ) -> None:
        self._agenda = agenda
        #: Without captures and tags nobody reads the bytes of frames.
        reads = guards is not None or captures.hosts or captures.links
        self._encode = Encoder().payloads if reads else Measurer().payloads
        self._hosts = [Host(node.id, captures.hosts.get(node.id)) for node in topology.nodes]
        self._lines: dict[frozenset[int], Line] = {}
        for link in topology.links:
            line = self._lines[frozenset((link.u, link.v))] = Line()
            for port, sender, receiver in (
                (link.u_port, link.u, link.v),
                (link.v_port, link.v, link.u),
            ):
                wire = self._hosts[sender].wires[port] = Wire(line, link, sender, receiver, seed)
                seen = captures.links.get(link.index), self._hosts[receiver].capture
                wire.captures = [capture for capture in seen if capture is not None]
        self._receive: list[Receive] = []
        #: The guards of the nodes, and that of the controller behind them; empty: frames have no tags.
        self._guards: list[Guard] = []
        if guards is not None:
            self._guards = [guards(node_address(node.id)) for node in topology.nodes]
            self._guards.append(guards(CONTROLLER_SOURCE))
            for guard in self._guards:
                guard.neighbours = lambda: range(len(topology.nodes))
        self._to_controller: Callable[[int, Frame], None] | None = None
        self.under_way = 0
        self.moved_ns = 0

    def connect(self, routers: list[Receive], controller: Callable[[int, Frame], None]) -> None:
        """Sets the receivers of frames: routers by node, and the controller (node, frame)."""
        self._receive = routers
        self._to_controller = controller

    def set_link(self, u: int, v: int, up: bool) -> bool:
        """Takes a link down or up; frames on it are lost.

        Returns False if the state did not change.
        """
        line = self._lines[frozenset((u, v))]
        if (line.cuts % 2 == 0) == up:
            return False
        line.cuts += 1
        return True

    def shape_link(self, link: Link) -> None:
        """Gives a link other properties, for the frames that are sent from now on."""
        for node, port in ((link.u, link.u_port), (link.v, link.v_port)):
            self._hosts[node].wires[port].shape(link)

    # Frames.

    def send(self, node: int, interfaces: frozenset[int], frame: Frame) -> None:
        """Sends a router's frame out of `interfaces`: one Ethernet frame for each page and fragment."""
        host = self._hosts[node]
        try:
            if self._guards:
                frame = self._guards[node].signed(frame)
            payloads = self._encode(frame)
        except ValueError:
            host.dropped["unencodable"] += 1
            return
        event = FrameReceived(node, frame)
        for address, ports in destinations(interfaces):
            head = address + host.header
            if self._guards:
                receivers = [node_address(host.wires[port].receiver) for port in ports]
                sent = self._guards[node].frames(head, frame, receivers, DEFAULT_MTU)
            else:
                sent = [head + payload for payload in payloads]
            for data in sent:
                self._from_router(host, frame, data)
            wires = [host.wires[port] for port in ports]
            if len(sent) == 1:
                self._transmit(wires, sent, event)
            else:
                for wire in wires:
                    self._transmit_fragments(wire, sent, event)

    def send_to_controller(self, node: int, frame: Frame) -> None:
        host = self._hosts[node]
        if self._guards:
            frame = self._guards[node].signed(frame)
        for data in self._controls(node, CONTROLLER_DESTINATION + host.header, frame, CONTROLLER_SOURCE):
            self._from_router(host, frame, data)
        self.under_way += 1
        self._agenda.at(self._agenda.now + CONTROL_NS, self._arrive_at_controller, node, frame)

    def send_from_controller(self, node: int, frame: Frame) -> None:
        if self._guards:
            frame = self._guards[-1].signed(frame)
        self.under_way += 1
        self.moved_ns = self._agenda.now
        self._agenda.at(self._agenda.now + CONTROL_NS, self._arrive_from_controller, node, frame)

    def _from_router(self, host: Host, frame: Frame, data: bytes) -> None:
        now = self._agenda.now
        self.moved_ns = now
        host.sent[frame.type] += 1
        host.bytes_sent += len(data)
        if host.capture is not None:
            host.capture.add(record(now, data))

    def _transmit(self, wires: list[Wire], sent: list[bytes], event: FrameReceived) -> None:
        """Sends an unfragmented frame on wires: an event of the agenda for each time at which it arrives."""
        now = self._agenda.now
        together: dict[int, list[tuple[Wire, int]]] = {}
        for wire in wires:
            cuts = wire.line.cuts
            if cuts % 2:
                wire.dropped += 1
            elif wire.shaped:
                for at, _ in self._shaped(wire, sent):
                    together.setdefault(at, []).append((wire, cuts))
            else:
                together.setdefault(now + wire.delay_ns, []).append((wire, cuts))
        for at, arriving in together.items():
            self.under_way += len(arriving)
            self._agenda.at(at, self._arrive, arriving, sent[0], event, True)

    def _transmit_fragments(self, wire: Wire, sent: list[bytes], event: FrameReceived) -> None:
        """Sends the fragments of a frame on a wire; the receiving router gets the frame with the last."""
        cuts = wire.line.cuts
        if cuts % 2:
            wire.dropped += len(sent)
            return
        arrivals = self._shaped(wire, sent)
        missing = set(range(len(sent)))
        self.under_way += len(arrivals)
        for at, number in arrivals:
            missing.discard(number)
            # The reassembly takes each fragment once.
            self._agenda.at(at, self._arrive, [(wire, cuts)], sent[number], event, not missing)
            if not missing:
                missing.add(len(sent))
        if arrivals and not missing.isdisjoint(range(len(sent))):
            # The emulation's router drops the frame after the reassembly timeout.
            self._hosts[wire.receiver].dropped["reassembly_timeout"] += 1

    def _shaped(self, wire: Wire, sent: list[bytes]) -> list[tuple[int, int]]:
        """Returns time and number of each Ethernet frame that arrives, in order; counts the others."""
        now = self._agenda.now
        arrivals = []
        for number, data in enumerate(sent):
            if wire.draw(wire.loss):
                wire.lost += 1
                wire.lost_bytes += len(data)
                continue
            for _ in range(2 if wire.draw(wire.duplicate) else 1):
                wait = wire.wait_ns(now, len(data))
                if wait is None:
                    wire.dropped += 1
                else:
                    arrivals.append((now + wire.way_ns() + wait, number))
        arrivals.sort()
        return arrivals

    def _arrive(
        self, wires: list[tuple[Wire, int]], data: bytes, event: FrameReceived, complete: bool
    ) -> None:
        """Delivers an Ethernet frame at the ends of wires, each of which counts as an event.

        Args:
            wires: each with the changes of its link when the frame was sent.
            complete: the Ethernet frame is the last fragment of its frame.
        """
        agenda = self._agenda
        agenda.done += len(wires) - 1
        self.under_way -= len(wires)
        kind, length = event.frame.type, len(data)
        for wire, cuts in wires:
            if wire.line.cuts != cuts:
                wire.dropped += 1
                continue
            self.moved_ns = agenda.now
            wire.frames[kind] += 1
            wire.bytes_sent += length
            receiver = wire.receiver
            if wire.captures:
                captured = record(agenda.now, data)
                for capture in wire.captures:
                    capture.add(captured)
            if complete and (not self._guards or self._is_authentic(receiver, data)):
                self._receive[receiver](event)

    def _arrive_at_controller(self, node: int, frame: Frame) -> None:
        self.under_way -= 1
        assert self._to_controller is not None
        self._to_controller(node, frame)

    def _arrive_from_controller(self, node: int, frame: Frame) -> None:
        self.under_way -= 1
        now = self.moved_ns = self._agenda.now
        host = self._hosts[node]
        head = ROUTER_DESTINATION + CONTROLLER_SOURCE + _ETHERTYPE_BYTES
        for data in self._controls(-1, head, frame, node_address(node)):
            if host.capture is not None:
                host.capture.add(record(now, data))
            host.controls[frame.type] += 1
            host.control_bytes += len(data)
        self._receive[node](ControllerFrame(frame))

    def _controls(self, sender: int, head: bytes, frame: Frame, receiver: bytes) -> list[bytes]:
        """The Ethernet frames between a router and the controller (-1). Sent once: not cached."""
        if self._guards:
            return self._guards[sender].frames(head, frame, [receiver], DEFAULT_MTU)
        return [head + payload for payload in fragment(frame)]

    def _is_authentic(self, receiver: int, data: bytes) -> bool:
        """Whether the receiver takes an Ethernet frame with a tag; one that it does not take is counted."""
        try:
            self._guards[receiver].open(data, decode_header(data[ETHERNET_HEADER_LENGTH:]))
        except RefusedError as refused:
            self._hosts[receiver].dropped[str(refused)] += 1
            return False
        return True

    # Counters.

    def router_counters(self, node: int, core: Counters) -> dict[str, Any]:
        """Returns the counters of the router of a node; `core` are the counters of its protocol core."""
        host = self._hosts[node]
        received, bytes_received = self._received(host)
        return router_counters(
            core,
            frames_received=_by_name(received),
            frames_sent=_by_name(host.sent),
            bytes_received=bytes_received,
            bytes_sent=host.bytes_sent,
            dropped=host.dropped,
            refused=self._guards[node].refused_by_sender() if self._guards else None,
        )

    def switch_counters(self) -> SwitchCounters:
        """Returns the counters of the ports of all switches.

        A port counts a sent frame before it is lost.
        """
        counters: SwitchCounters = {}
        for node, host in enumerate(self._hosts):
            received, bytes_received = self._received(host)
            ports = counters[node] = {
                HOST_PORT: {
                    "rx_packets": sum(host.sent),
                    "tx_packets": sum(received),
                    "rx_bytes": host.bytes_sent,
                    "tx_bytes": bytes_received,
                    "rx_dropped": 0,
                    "tx_dropped": 0,
                }
            }
            for port, wire in sorted(host.wires.items()):
                back = self._opposite(wire)
                ports[port] = {
                    "rx_packets": sum(back.frames),
                    "tx_packets": sum(wire.frames) + wire.lost,
                    "rx_bytes": back.bytes_sent,
                    "tx_bytes": wire.bytes_sent + wire.lost_bytes,
                    "rx_dropped": 0,
                    "tx_dropped": wire.dropped,
                }
        return counters

    def _received(self, host: Host) -> tuple[list[int], int]:
        """The Ethernet frames that a router received, by type, and their bytes."""
        incoming = [self._opposite(wire) for wire in host.wires.values()]
        frames = [
            sum(counts) for counts in zip(host.controls, *(wire.frames for wire in incoming), strict=True)
        ]
        return frames, host.control_bytes + sum(wire.bytes_sent for wire in incoming)

    def _opposite(self, wire: Wire) -> Wire:
        return self._hosts[wire.receiver].wires[wire.port]


def _by_name(counts: list[int]) -> dict[str, int]:
    return {name: count for name, count in zip(_TYPES, counts, strict=True) if count}
