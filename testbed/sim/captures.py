"""Captures of a simulation: files and their list in the form of an emulation's."""

from __future__ import annotations

from pathlib import Path

from captures.frames import CaptureIdentity
from captures.pcap import FILE_HEADER, record_header
from captures.rundir import RunLayout, host_capture_name, link_capture_name
from captures.rundir.capture_list import CapturedFile, Kept, host_identity, link_identity, write_captures
from testbed.sim import EPOCH_NS
from topos import Topology

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

    __slots__ = ("_limit", "_path", "_waiting", "captured")

    def __init__(self, path: Path, limit: int) -> None:
        self._path = path
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
        with self._path.open("ab") as file:
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
        self._topology = topology
        limit = max(_WRITE_BYTES, _BUFFER_BYTES // (len(topology.links) + len(topology.nodes)))
        self.links = {
            link.index: Capture(run.capture(link_capture_name(link.u, link.v)), limit)
            for link in topology.links
            if kept != "none"
        }
        self.hosts = {
            node.id: Capture(run.capture(host_capture_name(node.id)), limit)
            for node in topology.nodes
            if kept == "all"
        }

    def flush(self) -> None:
        for capture in (*self.links.values(), *self.hosts.values()):
            capture.flush()

    def finish(self) -> None:
        """Writes the buffered records and the list of captures."""
        self.flush()
        topology = self._topology
        links = [
            self._ended(link_identity(link), f"s{link.u}-e{link.u_port}", self.links[link.index])
            for link in topology.links
            if link.index in self.links
        ]
        hosts = [
            self._ended(host_identity(node.id), f"s{node.id}-h", self.hosts[node.id])
            for node in topology.nodes
            if node.id in self.hosts
        ]
        write_captures(self._run.captures, links + hosts)

    def _ended(self, identity: CaptureIdentity, device: str, capture: Capture) -> CapturedFile:
        """Returns the counters of a capture without losses."""
        file = self._run.relative(self._run.capture(identity.name))
        return CapturedFile(
            identity,
            file,
            device,
            captured=capture.captured,
            received_by_filter=capture.captured,
            dropped_by_kernel=0,
        )
