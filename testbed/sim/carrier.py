"""The fabric's side of messages that compiled code propagates (`testbed.sim.bulk`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from router.predicates.covering.budget import PredicateLimits
from router.predicates.model import Predicate
from router.protocol.events import FrameReceived
from router.protocol.router import Router
from router.wire.frames import Frame, FrameType
from testbed.sim.bulk import Bulk, Report, can_run, of_adverts
from testbed.sim.captures import record
from testbed.sim.clock import Agenda
from testbed.sim.fabric import Fabric, Line, Wire
from testbed.sim.layout import (
    DELIVERIES,
    FORWARDED,
    HOST_IN,
    HOST_IN_BYTES,
    HOST_OUT,
    HOST_OUT_BYTES,
    RA_IN,
    RA_OUT,
    RECEIVED,
    SENT,
    UNWANTED,
    WIRE_BYTES,
    WIRE_DROPPED,
    WIRE_FRAMES,
    WIRE_WIDTH,
)

#: The first bytes of addresses that name interfaces 1 to 32.
_FIRST_PAGE = bytes((3, 0))


class BulkCarrier:
    """Passes messages between the fabric and compiled code; events for the agenda.

    Args:
        fabric: its links have neither bandwidth nor loss.
        agenda: the agenda of the simulation.
        cores: the routers, by node.
        deliver, report, heads, limits: see `Bulk`.
    """

    def __init__(
        self,
        fabric: Fabric,
        agenda: Agenda,
        cores: list[Router],
        deliver: Callable[[int, int, Frame], None],
        report: Report | None,
        heads: Callable[[int, int], bytes],
        limits: PredicateLimits | None,
    ) -> None:
        self._fabric, self._agenda, self._cores = fabric, agenda, cores
        self._wires = [wire for host in fabric.hosts for wire in host.wires.values()]
        for number, wire in enumerate(self._wires):
            wire.number = number
        rows = [(wire.receiver, wire.delay_ns, wire.line.number, wire.port) for wire in self._wires]
        self._cuts = np.array([line.cuts for line in fabric.lines], np.int64)
        captures = [*(host.capture for host in fabric.hosts), *(line.capture for line in fabric.lines)]
        #: Whether compiled code handles RAs.
        self.handles_ras = limits is not None
        self._bulk = Bulk(
            cores,
            np.array(rows, np.int64).reshape(-1, WIRE_WIDTH),
            [{port: wire.number for port, wire in host.wires.items()} for host in fabric.hosts],
            self._cuts,
            None if all(capture is None for capture in captures) else self._capture,
            deliver,
            report,
            heads,
            [wire.sender for wire in self._wires],
            limits,
        )
        #: By node, to be set to 1 when the router has changed.
        self.stale = self._bulk.stale
        #: By node, 1: compiled code has changed the state of the router, which `give_back` returns.
        adverts = self._bulk.adverts
        self.lent = bytearray(len(cores)) if adverts is None else adverts.lent

    def expect(self, predicates: Iterable[Predicate]) -> None:
        """Takes predicates that nodes are going to have; see `Bulk.expect`."""
        self._bulk.expect(predicates)

    def give_back(self, node: int) -> None:
        """Returns the state of a router, which is about to handle an event."""
        self._bulk.give_back(node)

    def line_changed(self, line: Line) -> None:
        """A link went down or came up."""
        self._cuts[line.number] = line.cuts

    def send(self, wire: Wire, data: bytes, at_ns: int, frame: Frame) -> bool:
        """Takes an unfragmented message or RA, if it goes to interfaces of the first page of addresses."""
        adverts = self._bulk.adverts
        if frame.type is not FrameType.MSG and (adverts is None or not adverts.takes(frame)):
            return False
        if data[:2] != _FIRST_PAGE:
            return False
        self._agenda.added += 1
        ports = int.from_bytes(data[2:6], "big") << 1
        self._bulk.send(at_ns, self._agenda.added, wire.number, wire.line.cuts, ports, frame, len(data))
        return True

    # `testbed.sim.clock.Arrivals`.

    @property
    def head(self) -> tuple[int, int] | None:
        return self._bulk.head

    def advance(self, before: tuple[int, int], until_ns: int, most: int) -> None:
        bulk, agenda, fabric = self._bulk, self._agenda, self._fabric
        found = bulk.run(agenda.added, before, until_ns, most, agenda.piece)
        agenda.added = found.added
        if found.done:
            agenda.done += found.done
            agenda.now = found.now_ns
            fabric.moved_ns = max(fabric.moved_ns, found.moved_ns)
            fabric.under_way += found.under_way
        if found.core:
            agenda.now, number, cuts, ports, frame = bulk.take()
            agenda.done += 1
            wire = self._wires[number]
            event = FrameReceived(wire.sender, frame)
            fabric.arrive(wire, cuts, self._ethernet_frame(wire.sender, ports, frame), event, True)

    # Captures and counters.

    def _capture(self, what: int, at_ns: int, where: int, ports: int, frame: Frame) -> None:
        hosts = self._fabric.hosts
        if what == SENT:
            sender, captures = where, [hosts[where].capture]
        else:
            wire = self._wires[where]
            sender, captures = wire.sender, [wire.line.capture, hosts[wire.receiver].capture]
        captured = record(at_ns, self._ethernet_frame(sender, ports, frame))
        for capture in captures:
            if capture is not None:
                capture.add(captured)

    def _ethernet_frame(self, sender: int, ports: int, frame: Frame) -> bytes:
        address = _FIRST_PAGE + (ports >> 1).to_bytes(4, "big")
        return address + self._fabric.hosts[sender].header + self._fabric.payload(frame)

    def collect(self) -> None:
        """Adds what compiled code has counted to the counters of hosts, wires and routers."""
        bulk = self._bulk
        for node, lent in enumerate(self.lent):
            if lent:
                self.give_back(node)
        for host, core, counts in zip(
            self._fabric.hosts, self._cores, bulk.node_counts.tolist(), strict=True
        ):
            host.received[FrameType.MSG] += counts[HOST_IN]
            host.bytes_received += counts[HOST_IN_BYTES]
            host.sent[FrameType.MSG] += counts[HOST_OUT]
            host.bytes_sent += counts[HOST_OUT_BYTES]
            core.counters.messages_received += counts[RECEIVED]
            core.counters.messages_forwarded += counts[FORWARDED]
            core.counters.messages_unwanted += counts[UNWANTED]
            core.counters.messages_delivered += counts[DELIVERIES]
            host.received[FrameType.RA] += counts[RA_IN]
            host.sent[FrameType.RA] += counts[RA_OUT]
            core.counters.ras_received += counts[RA_IN]
            core.counters.ras_forwarded += counts[RA_OUT]
        for wire, counts in zip(self._wires, bulk.wire_counts.tolist(), strict=True):
            wire.frames_sent += counts[WIRE_FRAMES]
            wire.bytes_sent += counts[WIRE_BYTES]
            wire.dropped += counts[WIRE_DROPPED]
        bulk.node_counts[:] = 0
        bulk.wire_counts[:] = 0


def in_bulk(
    fabric: Fabric,
    agenda: Agenda,
    cores: list[Router],
    deliver: Callable[[int, int, Frame], None],
    report: Report | None,
    heads: Callable[[int, int], bytes],
    issued: int,
) -> BulkCarrier | None:
    """Lets compiled code propagate messages and RAs, if it may.

    Args:
        deliver, report, heads: see `Bulk`.
        issued: the greatest weight of all RAs of a node together.

    Returns:
        None if frames have tags, a link shapes or loses frames, or a router routes in another way than
        `can_run` allows.
    """
    wires = (wire for host in fabric.hosts for wire in host.wires.values())
    if fabric.tags or not can_run(cores) or any(wire.shaped for wire in wires):
        return None
    limits = of_adverts(cores, issued)
    fabric.bulk = agenda.arrivals = carrier = BulkCarrier(
        fabric, agenda, cores, deliver, report, heads, limits
    )
    return carrier
