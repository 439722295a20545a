"""Captures of a simulation: the pcap files and capture.json that tcpdump leaves after an emulation."""

from __future__ import annotations

import json
import struct
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from captures.capturing.tcpdump import CaptureKind, CaptureResult
from testbed.sim.clock import EPOCH_NS, NS
from topos.model import Topology

#: Nanosecond pcap, native to little-endian machines; version 2.4, no snapshot limit to speak of, Ethernet.
_FILE_HEADER = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, 1)
_RECORD = struct.Struct("<IIII")
#: Which captures a simulation keeps: those of all links and host links, of links between routers, or none.
Kept = Literal["all", "links", "none"]
#: Bytes that wait in memory, over all captures, and the least that is worth a write.
_BUFFER_BYTES = 256 * 1024 * 1024
_WRITE_BYTES = 4096


def record(now_ns: int, frame: bytes) -> bytes:
    """An Ethernet frame, seen at virtual time `now_ns`, as captures hold it."""
    second, nanosecond = divmod(EPOCH_NS + now_ns, NS)
    length = len(frame)
    return _RECORD.pack(second, nanosecond, length, length) + frame


class Capture:
    """One capture: of a link or of a host link.

    Attributes:
        captured: Ethernet frames so far.
    """

    __slots__ = ("_limit", "_path", "_waiting", "captured")

    def __init__(self, path: Path, limit: int) -> None:
        self._path = path
        self._waiting = bytearray(_FILE_HEADER)
        self._limit = limit
        self.captured = 0

    def add(self, record: bytes) -> None:
        """Takes an Ethernet frame, as `record` makes it."""
        self._waiting += record
        self.captured += 1
        if len(self._waiting) > self._limit:
            self.flush()

    def flush(self) -> None:
        """Writes what waits."""
        if not self._waiting:
            return
        # Opened for each write: a large network has more captures than a process may have open files.
        with self._path.open("ab") as file:
            file.write(self._waiting)
        self._waiting = bytearray()


class Captures:
    """All captures of a simulation.

    Args:
        topology: one capture for each of its links and one for each node's host link.
        run_dir: the run folder.
        kept: the captures that there are.

    Attributes:
        links: by index of the link.
        hosts: by node.
    """

    def __init__(self, topology: Topology, run_dir: Path, kept: Kept = "all") -> None:
        self._run_dir = run_dir
        self._topology = topology
        limit = max(_WRITE_BYTES, _BUFFER_BYTES // (len(topology.links) + len(topology.nodes)))
        self.links = {
            link.index: Capture(run_dir / "pcap" / f"link-{link.u}-{link.v}.pcap", limit)
            for link in topology.links
            if kept != "none"
        }
        self.hosts = {
            node.id: Capture(run_dir / "pcap" / f"host-{node.id}.pcap", limit)
            for node in topology.nodes
            if kept == "all"
        }

    def flush(self) -> None:
        """Writes what waits."""
        for capture in (*self.links.values(), *self.hosts.values()):
            capture.flush()

    def finish(self) -> None:
        """Writes what waits, and capture.json, with the fields that an emulation's has."""
        self.flush()
        results = []
        for link in self._topology.links:
            if link.index not in self.links:
                continue
            capture = self.links[link.index]
            name = f"link-{link.u}-{link.v}"
            device = f"s{link.u}-e{link.u_port}"
            results.append(_result(name, "link", device, capture.captured, u=link.u, v=link.v))
        for node in self._topology.nodes:
            if node.id not in self.hosts:
                continue
            capture = self.hosts[node.id]
            results.append(
                _result(f"host-{node.id}", "host", f"s{node.id}-h", capture.captured, node=node.id)
            )
        document = json.dumps([asdict(result) for result in results], indent=1)
        (self._run_dir / "capture.json").write_text(document + "\n", encoding="utf-8")


def _result(name: str, kind: CaptureKind, device: str, captured: int, **ends: int) -> CaptureResult:
    """What tcpdump would report of a capture from which nothing is lost."""
    return CaptureResult(
        name=name,
        kind=kind,
        u=ends.get("u"),
        v=ends.get("v"),
        node=ends.get("node"),
        file=f"pcap/{name}.pcap",
        device=device,
        captured=captured,
        received_by_filter=captured,
        dropped_by_kernel=0,
    )
