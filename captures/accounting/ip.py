"""IPv4 beside CBCB: how often each switch port counted its frames, from their captures.

A switch gives each IP frame the link addresses of its hop (`testbed.controller.rules`): the source of a
frame on a link is the node that sent it there, and the destination of a frame to a host is its node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from captures.pcap.blocks import Block
from captures.pcap.reader import PcapReader
from captures.rundir.capture_list import CapturedFile, read_ip_captures
from captures.rundir.layout import RunLayout
from router.wire.header import ETHERNET_HEADER_LENGTH, HOST_PORT, node_address
from topos.model import Link

_RECEIVED, _SENT = "rx_packets", "tx_packets"
_ADDRESS_BYTES = 6


@dataclass
class IpFrames:
    """The IPv4 frames of a run.

    Attributes:
        on_links: frames over links between switches; None: the run has no IP.
        at_ports: (node, port, counter of Open vSwitch) -> frames.
        lost: (node, port) of devices of which the capture lost frames.
    """

    on_links: int | None = None
    at_ports: Counter[tuple[int, int, str]] = field(default_factory=Counter)
    lost: set[tuple[int, int]] = field(default_factory=set)

    def left_out(
        self, counters: Mapping[int, Mapping[int, Mapping[str, int]]]
    ) -> dict[int, dict[int, dict[str, int]]]:
        """Returns counters of switch ports without these frames."""
        return {
            node: {
                port: {name: count - self.at_ports[node, port, name] for name, count in own.items()}
                for port, own in ports.items()
            }
            for node, ports in counters.items()
        }


def ip_frames(run: RunLayout, links: Iterable[Link]) -> IpFrames:
    """Reads the captures of IPv4.

    Raises:
        RunFolderError: their list is malformed.
        PcapError, OSError: a capture cannot be read.
    """
    captures = read_ip_captures(run)
    if not captures:
        return IpFrames()
    found = IpFrames(on_links=0)
    by_index: dict[int | None, Link] = {link.index: link for link in links}
    for capture in captures:
        link = by_index[capture.identity.link] if capture.identity.kind == "link" else None
        _take(found, run, capture, link)
    return found


def _take(found: IpFrames, run: RunLayout, capture: CapturedFile, link: Link | None) -> None:
    node = capture.identity.node
    if link is not None:
        ends = [(link.u, link.u_port), (link.v, link.v_port)]
    else:
        assert node is not None
        ends = [(node, HOST_PORT)]
    if capture.dropped_by_kernel:
        found.lost.update(ends)
    for block in PcapReader(run.path / capture.file).blocks():
        if link is None:
            assert node is not None
            to_host = int((_addresses(block, 0) == _number(node_address(node))).sum())
            found.at_ports[node, HOST_PORT, _SENT] += to_host
            found.at_ports[node, HOST_PORT, _RECEIVED] += len(block.start) - to_host
            continue
        assert found.on_links is not None
        found.on_links += len(block.start)
        by_u = int((_addresses(block, _ADDRESS_BYTES) == _number(node_address(link.u))).sum())
        for (sender, receiver), frames in zip(
            (ends, ends[::-1]), (by_u, len(block.start) - by_u), strict=True
        ):
            found.at_ports[*sender, _SENT] += frames
            found.at_ports[*receiver, _RECEIVED] += frames


def _addresses(block: Block, at: int) -> npt.NDArray[np.int64]:
    """The link addresses at an offset of each frame, as numbers; -1: the frame is shorter than a header."""
    data = np.frombuffer(block.data, np.uint8)
    numbers = np.zeros(len(block.start), np.int64)
    whole = block.captured >= ETHERNET_HEADER_LENGTH
    start = np.where(whole, block.start, 0) + at
    for byte in range(_ADDRESS_BYTES):
        numbers = numbers << 8 | data[np.minimum(start + byte, len(data) - 1)]
    return np.where(whole, numbers, -1)


def _number(address: bytes) -> int:
    return int.from_bytes(address, "big")
