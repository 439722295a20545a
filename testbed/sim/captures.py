"""Captures of a simulation: files and their list in the form of an emulation's."""

from __future__ import annotations

from pathlib import Path

from captures.frames import CaptureIdentity
from captures.pcap import FILE_HEADER, record_header
from captures.rundir import RunLayout
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
        self._limit = max(_WRITE_BYTES, _BUFFER_BYTES // (len(topology.links) + len(topology.nodes)))
        #: Each with its identity and device, links before hosts.
        self._kept: list[tuple[CaptureIdentity, str, Capture]] = []
        self.links = {
            link.index: self._capture(link_identity(link), f"s{link.u}-e{link.u_port}")
            for link in topology.links
            if kept != "none"
        }
        self.hosts = {
            node.id: self._capture(host_identity(node.id), f"s{node.id}-h")
            for node in topology.nodes
            if kept == "all"
        }

    def _capture(self, identity: CaptureIdentity, device: str) -> Capture:
        self._kept.append((identity, device, Capture(self._run.capture(identity.name), self._limit)))
        return self._kept[-1][2]

    def flush(self) -> None:
        for _, _, capture in self._kept:
            capture.flush()

    def finish(self) -> None:
        """Writes the buffered records and the list of captures, whose counters are without losses."""
        self.flush()
        files = [
            CapturedFile(
                identity,
                self._run.relative(self._run.capture(identity.name)),
                device,
                captured=capture.captured,
                received_by_filter=capture.captured,
                dropped_by_kernel=0,
            )
            for identity, device, capture in self._kept
        ]
        write_captures(self._run.captures, files)
