"""The way of frames through a simulated network, below its routers.

Frames between routers cross links (`testbed.sim.wires`). A frame to or from the controller takes
`CONTROL_NS`; no such frame is lost.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from captures.rundir.measures import SwitchCounters
from router.protocol.counters import Counters
from router.protocol.events import ControllerFrame, Event, FrameReceived
from router.wire.codec import DEFAULT_MTU, fragment
from router.wire.frames import Frame
from router.wire.header import (
    CONTROLLER_DESTINATION,
    CONTROLLER_HEADER,
    CONTROLLER_SOURCE,
    ETHERNET_HEADER_LENGTH,
    decode_header,
    node_address,
    port_addresses,
    ports_of,
)
from router.wire.intake import RefusedError
from testbed.sim import Agenda
from testbed.sim.wires import Captures, Host, Wire, record
from topos import Link, Topology

if TYPE_CHECKING:
    from router.security.guard import Guard

CONTROL_NS = 1_000_000
#: Frames whose encoding is kept. A flood ends long before so many other frames have been sent.
_REMEMBERED = 4096

#: Handles an event that a router receives.
Receive = Callable[[Event], None]


class Fabric:
    """Carries frames between routers, and between routers and the controller.

    Args:
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
        self._hosts = [Host(node.id, captures.hosts.get(node.id)) for node in topology.nodes]
        #: Both directions of each link, by its nodes.
        self._links: dict[frozenset[int], list[Wire]] = {}
        for link in topology.links:
            directions = self._links[frozenset((link.u, link.v))] = []
            for port, sender, receiver in ((link.u_port, link.u, link.v), (link.v_port, link.v, link.u)):
                wire = self._hosts[sender].outgoing[port] = Wire(link, sender, receiver, seed)
                directions.append(wire)
                self._hosts[receiver].incoming[wire.port] = wire
                seen = captures.links.get(link.index), self._hosts[receiver].capture
                wire.captures = [capture for capture in seen if capture is not None]
        #: Ethernet payloads of the frames sent last, by identity of the frame, which its entry keeps: routers
        #: that forward a frame at equal distance from its source share one object.
        self._encoded: OrderedDict[int, tuple[Frame, list[bytes]]] = OrderedDict()
        self._receive: list[Receive] = []
        #: The guards of the nodes, and that of the controller behind them; empty: frames have no tags.
        self._guards: list[Guard] = []
        if guards is not None:
            self._guards = [guards(node_address(node.id)) for node in topology.nodes]
            self._guards.append(guards(CONTROLLER_SOURCE))
            for guard in self._guards:
                guard.neighbours = lambda: range(len(topology.nodes))
        self._to_controller: Callable[[int, Frame], None]
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
        wires = self._links[frozenset((u, v))]
        if (wires[0].cuts % 2 == 0) == up:
            return False
        for wire in wires:
            wire.cuts += 1
        return True

    def shape_link(self, link: Link) -> None:
        """Gives a link other properties, for the frames that are sent from now on."""
        for wire in self._links[frozenset((link.u, link.v))]:
            wire.shape(link)

    # Frames.

    def send(self, node: int, interfaces: frozenset[int], frame: Frame) -> None:
        """Sends a router's frame out of `interfaces`: one Ethernet frame for each page and fragment."""
        host = self._hosts[node]
        ways = [
            (address + host.header, [host.outgoing[port] for port in ports])
            for address, ports in destinations(interfaces)
        ]
        try:
            if self._guards:
                guard = self._guards[node]
                frame = guard.signed(frame)
                sendings = [
                    guard.frames(head, frame, [node_address(wire.receiver) for wire in wires], DEFAULT_MTU)
                    for head, wires in ways
                ]
            else:
                payloads = self._payloads(frame)
                sendings = [[head + payload for payload in payloads] for head, _ in ways]
        except ValueError:
            host.dropped["unencodable"] += 1
            return
        event = FrameReceived(node, frame)
        self.moved_ns = self._agenda.now
        for (_, wires), sent in zip(ways, sendings, strict=True):
            for data in sent:
                host.send(self.moved_ns, frame.type, data)
            for wire in wires:
                self._transmit(wire, sent, event)

    def send_to_controller(self, node: int, frame: Frame) -> None:
        host = self._hosts[node]
        if self._guards:
            frame = self._guards[node].signed(frame)
        for data in self._controls(node, CONTROLLER_DESTINATION + host.header, frame, CONTROLLER_SOURCE):
            host.send(self._agenda.now, frame.type, data)
        self.under_way += 1
        self.moved_ns = self._agenda.now
        self._agenda.at(self._agenda.now + CONTROL_NS, self._arrive_at_controller, node, frame)

    def send_from_controller(self, node: int, frame: Frame) -> None:
        if self._guards:
            frame = self._guards[-1].signed(frame)
        self.under_way += 1
        self.moved_ns = self._agenda.now
        self._agenda.at(self._agenda.now + CONTROL_NS, self._arrive_from_controller, node, frame)

    def _payloads(self, frame: Frame) -> list[bytes]:
        """Returns the Ethernet payloads of a frame, one for each fragment.

        Raises ValueError: the frame is outside the format.
        """
        known = self._encoded.get(id(frame))
        if known is None:
            known = self._encoded[id(frame)] = frame, fragment(frame)
            if len(self._encoded) > _REMEMBERED:
                self._encoded.popitem(last=False)
        return known[1]

    def _transmit(self, wire: Wire, sent: list[bytes], event: FrameReceived) -> None:
        """Sends the fragments of a frame on a wire; the receiving router gets the frame with the last."""
        cuts = wire.cuts
        if cuts % 2:
            wire.dropped += len(sent)
            return
        agenda = self._agenda
        arrivals = wire.arrivals(agenda.now, sent)
        self.under_way += len(arrivals)
        if len(sent) == 1:
            for at, _ in arrivals:
                agenda.at(at, self._arrive, wire, cuts, sent[0], event, True)
            return
        missing = set(range(len(sent)))
        for at, number in arrivals:
            missing.discard(number)
            # The reassembly takes each fragment once.
            agenda.at(at, self._arrive, wire, cuts, sent[number], event, not missing)
            if not missing:
                missing.add(len(sent))
        if arrivals and not missing.isdisjoint(range(len(sent))):
            # The emulation's router drops the frame after the reassembly timeout.
            self._hosts[wire.receiver].dropped["reassembly_timeout"] += 1

    def _arrive(self, wire: Wire, cuts: int, data: bytes, event: FrameReceived, complete: bool) -> None:
        """Delivers an Ethernet frame at the end of a wire.

        Args:
            cuts: the changes of the link when the frame was sent.
            complete: the Ethernet frame is the last fragment of its frame.
        """
        self.under_way -= 1
        if wire.cuts != cuts:
            wire.dropped += 1
            return
        now = self.moved_ns = self._agenda.now
        wire.frames[event.frame.type] += 1
        wire.bytes_sent += len(data)
        if wire.captures:
            captured = record(now, data)
            for capture in wire.captures:
                capture.add(captured)
        # Every fragment is opened: a copy of any of them is a replay.
        if (not self._guards or self._is_authentic(wire.receiver, data)) and complete:
            self._receive[wire.receiver](event)

    def _arrive_at_controller(self, node: int, frame: Frame) -> None:
        self.under_way -= 1
        self._to_controller(node, frame)

    def _arrive_from_controller(self, node: int, frame: Frame) -> None:
        self.under_way -= 1
        now = self.moved_ns = self._agenda.now
        host = self._hosts[node]
        for data in self._controls(-1, CONTROLLER_HEADER, frame, node_address(node)):
            host.receive_control(now, frame.type, data)
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
        refused = self._guards[node].refused_by_sender() if self._guards else None
        return self._hosts[node].router_counters(core, refused)

    def switch_counters(self) -> SwitchCounters:
        return {node: host.switch_counters() for node, host in enumerate(self._hosts)}


@lru_cache(maxsize=65_536)
def destinations(interfaces: frozenset[int]) -> tuple[tuple[bytes, tuple[int, ...]], ...]:
    """Returns the addresses that together name `interfaces`, each with its switch ports in ascending
    order."""
    return tuple((address, tuple(sorted(ports_of(address)))) for address in port_addresses(interfaces))
