"""The frames of IPv4 that captures show are left out of what switches counted."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

from captures.accounting.ip import ip_frames
from captures.accounting.reconcile import Total, reconcile_ovs
from captures.rundir import RunLayout
from captures.rundir.capture_list import CapturedFile, host_identity, link_identity, write_captures
from router.wire.header import HOST_PORT, node_address
from tests.support.run_folder import pcap_bytes
from topos import Link

LINK = Link(0, 0, 1, 1, 1)
_GATEWAY = bytes.fromhex("02c900000001")


def _frame(source: bytes, destination: bytes) -> tuple[int, bytes]:
    return 1, destination + source + b"\x08\x00" + bytes(50)


def _run(folder: Path, dropped: int = 0) -> RunLayout:
    """Node 0 sends three packets to node 1, which answers two."""
    run = RunLayout(folder)
    run.ip_captures_folder.mkdir()
    own, other = node_address(0), node_address(1)
    frames = {
        link_identity(LINK): [*[_frame(own, other)] * 3, *[_frame(other, own)] * 2],
        host_identity(0): [*[_frame(own, _GATEWAY)] * 3, *[_frame(own, own)] * 2],
        host_identity(1): [*[_frame(other, other)] * 3, *[_frame(other, _GATEWAY)] * 2],
    }
    listed = []
    for identity, records in frames.items():
        path = run.ip_capture(identity.name)
        path.write_bytes(pcap_bytes(records))
        lost = dropped if identity.kind == "link" else 0
        listed.append(CapturedFile(identity, run.relative(path), "", len(records), len(records) + lost, lost))
    write_captures(run.ip_captures, listed)
    nodes = [{"id": 0}, {"id": 1}]
    link = {"index": 0, "u": 0, "v": 1, "u_port": 1, "v_port": 1, "cost": 1}
    run.topology.write_text(json.dumps({"name": "pair", "nodes": nodes, "links": [link]}))
    return run


def _counters() -> dict[int, dict[int, dict[str, int]]]:
    """The counters of the switches: the packets, and one frame of CBCB from node 0 to node 1."""
    return {
        0: {1: {"rx_packets": 2, "tx_packets": 4}, HOST_PORT: {"rx_packets": 4, "tx_packets": 2}},
        1: {1: {"rx_packets": 4, "tx_packets": 2}, HOST_PORT: {"rx_packets": 2, "tx_packets": 4}},
    }


_TOTALS = [
    Total("link-0-1", "link", 0, None, None, 0, 1, "MSG", 1, 100, 0),
    Total("host-0", "host", None, 0, "from_router", 0, None, "MSG", 1, 100, 0),
    Total("host-1", "host", None, 1, "to_router", 0, 1, "MSG", 1, 100, 0),
]


def test_switches_agree_with_the_captures_of_cbcb_without_the_frames_of_ip(tmp_path: Path) -> None:
    found = ip_frames(_run(tmp_path), [LINK])
    assert found.on_links == 5
    compared = reconcile_ovs(_TOTALS, found.left_out(_counters()), [LINK], (), found.lost)
    assert compared == {"expected": 4, "found": 4, "differences": []}
    with_ip = reconcile_ovs(_TOTALS, _counters(), [LINK])
    assert len(with_ip["differences"]) == 8


def test_a_link_whose_capture_lost_packets_is_not_compared(tmp_path: Path) -> None:
    found = ip_frames(_run(tmp_path, dropped=1), [LINK])
    assert found.lost == {(0, 1), (1, 1)}
    counters = _counters()
    counters[0][1]["tx_packets"] += 1
    compared = reconcile_ovs(_TOTALS, found.left_out(counters), [LINK], (), found.lost)
    assert compared == {"expected": 2, "found": 2, "differences": []}


def test_a_cut_capture_is_read_up_to_there_without_a_warning_of_python(tmp_path: Path) -> None:
    run = _run(tmp_path)
    path = run.ip_capture(link_identity(LINK).name)
    path.write_bytes(path.read_bytes()[:-10])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ip_frames(run, [LINK]).on_links == 4


def test_a_run_without_ip_has_no_such_frames(tmp_path: Path) -> None:
    found = ip_frames(RunLayout(tmp_path), [LINK])
    assert (found.on_links, found.left_out(_counters())) == (None, _counters())
