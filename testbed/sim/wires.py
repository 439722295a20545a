"""The links of a simulated network: both directions, host links, their counters, and captures in the form of
an emulation's.

The model, in wall seconds of the emulation that it represents:

- A frame that a router sends at t arrives at the switch of the next router, and at that router, at
  t + `HOP_NS` + the link's delay + its wait for bandwidth. `HOP_NS` is the time of two host links, two
  switches and the work of a router together; a router answers at once.
- Bandwidth is a token bucket with the emulation's depth and longest wait (`topos`); a frame
  that would wait longer is dropped. Loss, duplicates, jitter and reordering are drawn from the seed for each
  Ethernet frame.
- Captures and switches see a frame of a link when it arrives, as in an emulation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

from captures.frames import CaptureIdentity
from captures.pcap import FILE_HEADER, record_header
from captures.rundir import RunLayout
from captures.rundir.capture_list import CapturedFile, Kept, host_identity, link_identity, write_captures
from captures.rundir.measures import Port
from router.protocol.counters import Counters
from router.records.counters import router_counters
from router.wire.frames import FrameType
from router.wire.header import ETHERTYPE_BYTES, HOST_PORT, TYPE_NAMES, node_address
from testbed.sim import EPOCH_NS, NS
from topos import TBF_BURST_BYTES, TBF_LATENCY_S, Link, Topology

#: Bytes kept in memory over all captures, and the least size of a write.
_BUFFER_BYTES = 256 * 1024 * 1024
_WRITE_BYTES = 4096


def record(now_ns: int, frame: bytes) -> bytes:
    return record_header(EPOCH_NS + now_ns, len(frame)) + frame


class Capture:
    """The capture of a link or of a host link.

    Attributes:
        captured: Ethernet frames so far.
    """

    def __init__(self, identity: CaptureIdentity, device: str, path: Path, limit: int) -> None:
        self.identity, self.device, self.path = identity, device, path
        self._waiting = bytearray(FILE_HEADER)
        self._limit = limit
        self.captured = 0

    def add(self, record: bytes) -> None:
        self._waiting += record
        self.captured += 1
        if len(self._waiting) > self._limit:
            self.flush()

    def flush(self) -> None:
        if not self._waiting:
            return
        # Opened for each write: a large network has more captures than a process may open files.
        with self.path.open("ab") as file:
            file.write(self._waiting)
        self._waiting = bytearray()


class Captures:
    """All captures of a simulation.

    Args:
        topology: has a capture for each link and for each node's host link.

    Attributes:
        links: by index of the link.
        hosts: by node.
    """

    def __init__(self, topology: Topology, run: RunLayout, kept: Kept = "all") -> None:
        self._run = run
        limit = max(_WRITE_BYTES, _BUFFER_BYTES // (len(topology.links) + len(topology.nodes)))

        def capture(identity: CaptureIdentity, device: str) -> Capture:
            return Capture(identity, device, run.capture(identity.name), limit)

        self.links = {
            link.index: capture(link_identity(link), f"s{link.u}-e{link.u_port}")
            for link in topology.links
            if kept != "none"
        }
        self.hosts = {
            node.id: capture(host_identity(node.id), f"s{node.id}-h")
            for node in topology.nodes
            if kept == "all"
        }
        self._all = (*self.links.values(), *self.hosts.values())

    def flush(self) -> None:
        for capture in self._all:
            capture.flush()

    def finish(self) -> None:
        """Writes the buffered records and the list of captures, whose counters are without losses."""
        self.flush()
        files = [
            CapturedFile(
                each.identity,
                self._run.relative(each.path),
                each.device,
                captured=each.captured,
                received_by_filter=each.captured,
                dropped_by_kernel=0,
            )
            for each in self._all
        ]
        write_captures(self._run.captures, files)


#: See the module docstring. In an emulation of five routers on a busy machine (userspace datapath) the
#: fastest tenth of the hops took up to 0.3 ms from router to router and up to 0.3 ms in the router; the
#: median was 3.5 ms.
HOP_NS = 500_000
#: Longest wait of a frame for the emulation's token bucket.
_LONGEST_WAIT_NS = round(TBF_LATENCY_S * NS)
#: Names of frame types, by number.
_TYPES = tuple(TYPE_NAMES.get(number, "") for number in range(max(FrameType) + 1))


class Wire:
    """One direction of a link, with the counters of the switch ports at its ends.

    Attributes:
        cuts: even while the link is up; grows with each change.
    """

    def __init__(self, link: Link, sender: int, receiver: int, seed: int) -> None:
        self.cuts = 0
        #: The captures that see the frames that arrive.
        self.captures: list[Capture] = []
        #: The receiver's port.
        self.port = link.u_port if receiver == link.u else link.v_port
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
        self.link_ns = round((link.delay_ms or 0.0) * 1e6)
        self.delay_ns = HOP_NS + self.link_ns
        self.jitter_ns = (link.jitter_ms or 0.0) * 1e6
        self.ns_per_byte = 8 * NS / (link.bandwidth_mbps * 1e6) if link.bandwidth_mbps else 0.0
        self.loss = (link.loss_percent or 0.0) / 100
        self.reorder = (link.reorder_percent or 0.0) / 100
        self.duplicate = (link.duplicate_percent or 0.0) / 100
        #: Whether frames take anything but the delay.
        self.shaped = bool(self.ns_per_byte or self.loss or self.jitter_ns or self.reorder or self.duplicate)

    def arrivals(self, now_ns: int, sent: list[bytes]) -> list[tuple[int, int]]:
        """Returns time and number of each Ethernet frame that arrives, in order; counts the others."""
        if not self.shaped:
            return [(now_ns + self.delay_ns, number) for number in range(len(sent))]
        found = []
        for number, data in enumerate(sent):
            if self._draw(self.loss):
                self.lost += 1
                self.lost_bytes += len(data)
                continue
            for _ in range(2 if self._draw(self.duplicate) else 1):
                wait = self._wait_ns(now_ns, len(data))
                if wait is None:
                    self.dropped += 1
                else:
                    found.append((now_ns + self._way_ns() + wait, number))
        found.sort()
        return found

    def _draw(self, probability: float) -> bool:
        return probability > 0.0 and self.random.random() < probability

    def _way_ns(self) -> int:
        """Draws the time that a frame takes, beside its wait for bandwidth."""
        if self._draw(self.reorder):
            return self.delay_ns - self.link_ns
        if not self.jitter_ns:
            return self.delay_ns
        return self.delay_ns + round(self.random.uniform(-self.jitter_ns, self.jitter_ns))

    def _wait_ns(self, now_ns: int, length: int) -> int | None:
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
    """A router's host link, and the links of its switch, with their counters.

    Attributes:
        outgoing: the directions of links that leave the switch, by port.
        incoming: those that come in, by port.
        dropped: frames that the router dropped below its core, by reason.
    """

    def __init__(self, node: int, capture: Capture | None) -> None:
        self.capture = capture
        self.header = node_address(node) + ETHERTYPE_BYTES
        self.outgoing: dict[int, Wire] = {}
        self.incoming: dict[int, Wire] = {}
        #: Ethernet frames by type: those of the controller, and those of the router.
        self.controls = [0] * len(_TYPES)
        self.sent = [0] * len(_TYPES)
        self.control_bytes = self.bytes_sent = 0
        self.dropped: Counter[str] = Counter()

    def send(self, now_ns: int, kind: FrameType, data: bytes) -> None:
        self.sent[kind] += 1
        self.bytes_sent += len(data)
        if self.capture is not None:
            self.capture.add(record(now_ns, data))

    def receive_control(self, now_ns: int, kind: FrameType, data: bytes) -> None:
        self.controls[kind] += 1
        self.control_bytes += len(data)
        if self.capture is not None:
            self.capture.add(record(now_ns, data))

    def _received(self) -> tuple[list[int], int]:
        """The Ethernet frames that the router received, by type, and their bytes."""
        wires = self.incoming.values()
        frames = map(sum, zip(self.controls, *(wire.frames for wire in wires), strict=True))
        return list(frames), self.control_bytes + sum(wire.bytes_sent for wire in wires)

    def router_counters(self, core: Counters, refused: Mapping[str, Any] | None) -> dict[str, Any]:
        """Returns the counters of the router.

        Args:
            refused: Ethernet frames that were not authentic; None: frames have no tags.
        """
        received, bytes_received = self._received()
        return router_counters(
            core,
            frames_received=_by_name(received),
            frames_sent=_by_name(self.sent),
            bytes_received=bytes_received,
            bytes_sent=self.bytes_sent,
            dropped=self.dropped,
            refused=refused or {},
            socket_drops=0,
            applications_disconnected_slow=0,
            records_lost=0,
        )

    def switch_counters(self) -> dict[int, dict[str, int]]:
        """Returns the counters of the switch, by port.

        A port counts a sent frame before it is lost.
        """
        received, bytes_received = self._received()
        ports = {HOST_PORT: (sum(self.sent), sum(received), self.bytes_sent, bytes_received, 0, 0)}
        for port, wire in sorted(self.outgoing.items()):
            back, sent = self.incoming[port], sum(wire.frames) + wire.lost
            size = wire.bytes_sent + wire.lost_bytes
            ports[port] = (sum(back.frames), sent, back.bytes_sent, size, 0, wire.dropped)
        return {port: dict(zip(Port.__annotations__, counts, strict=True)) for port, counts in ports.items()}


def _by_name(counts: list[int]) -> dict[str, int]:
    return {name: count for name, count in zip(_TYPES, counts, strict=True) if count}
