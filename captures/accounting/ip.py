"""IPv4 beside CBCB: how often each switch port counted its frames, from their captures.

A switch gives each IP frame the link addresses of its hop (`testbed.controller.rules`): the source of a
frame on a link is the node that sent it there, and the destination of a frame to a host is its node.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from captures.datasource.opening import open_captures
from captures.rundir import RunLayout
from captures.rundir.capture_list import CapturedFile, read_ip_captures
from router.wire.header import HOST_PORT, node_address
from topos import Link

_RECEIVED, _SENT = "rx_packets", "tx_packets"


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
    with warnings.catch_warnings():
        # A capture that ends inside a record: the comparison with the switches shows what is missing.
        warnings.simplefilter("ignore", UserWarning)
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
    for batch in open_captures(run.path / capture.file, columns=("eth_src", "eth_dst")):
        if link is None:
            assert node is not None
            to_host = _count(batch["eth_dst"], node)
            found.at_ports[node, HOST_PORT, _SENT] += to_host
            found.at_ports[node, HOST_PORT, _RECEIVED] += batch.num_rows - to_host
            continue
        assert found.on_links is not None
        found.on_links += batch.num_rows
        by_u = _count(batch["eth_src"], link.u)
        for (sender, receiver), frames in zip((ends, ends[::-1]), (by_u, batch.num_rows - by_u), strict=True):
            found.at_ports[*sender, _SENT] += frames
            found.at_ports[*receiver, _RECEIVED] += frames


def _count(addresses: pa.Array, node: int) -> int:
    """The number of link addresses that are the node's; frames shorter than a header have none."""
    address = int.from_bytes(node_address(node), "big")
    return pc.sum(pc.equal(addresses, address)).as_py() or 0
