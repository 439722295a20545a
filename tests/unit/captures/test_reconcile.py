"""Reconciliations on hand-made totals."""

from __future__ import annotations

import os
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from captures.accounting.reconcile import (
    Total,
    TsharkError,
    reconcile_captures,
    reconcile_ovs,
    reconcile_routers,
    reconcile_tshark,
    tshark_counts,
)
from captures.frames import CaptureIdentity
from captures.rundir.capture_list import CapturedFile
from router.wire.header import HOST_PORT
from topos import Link

#: Of a pcap file; a record of 60 bytes.
HEADER = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, 1)
RECORD = struct.pack("<IIII", 1, 2, 60, 60) + bytes(60)
LINK = Link(index=0, u=0, v=1, u_port=1, v_port=1)
TOTALS = [
    Total("link-0-1", "link", 0, None, None, 0, 1, "MSG", 4, 400, 0),
    Total("link-0-1", "link", 0, None, None, 1, 0, "RA", 2, 200, 0),
    Total("host-0", "host", None, 0, "from_router", 0, None, "MSG", 4, 400, 0),
    Total("host-0", "host", None, 0, "to_router", 1, 0, "RA", 2, 200, 0),
    Total("host-1", "host", None, 1, "from_router", 1, None, "RA", 2, 200, 0),
    Total("host-1", "host", None, 1, "to_router", 0, 1, "MSG", 4, 400, 0),
]


def _routers() -> dict[int, dict[str, object]]:
    return {
        0: {"frames_sent": {"MSG": 4}, "frames_received": {"RA": 2}, "socket_drops": 0},
        1: {"frames_sent": {"RA": 2}, "frames_received": {"MSG": 4}, "socket_drops": 0},
    }


def _ovs() -> dict[int, dict[int, dict[str, int]]]:
    return {
        0: {1: {"rx_packets": 2, "tx_packets": 4}, HOST_PORT: {"rx_packets": 4, "tx_packets": 2}},
        1: {1: {"rx_packets": 4, "tx_packets": 2}, HOST_PORT: {"rx_packets": 2, "tx_packets": 4}},
    }


def test_equal_totals_have_no_differences() -> None:
    assert reconcile_routers(TOTALS, _routers()) == {"expected": 12, "found": 12, "differences": []}
    assert reconcile_ovs(TOTALS, _ovs(), [LINK]) == {"expected": 24, "found": 24, "differences": []}


def test_router_that_counts_one_more_and_drops_are_named() -> None:
    counters = _routers()
    counters[0]["frames_received"] = {"RA": 3, "HELLO": 0}
    counters[1]["socket_drops"] = 5
    assert reconcile_routers(TOTALS, counters)["differences"] == [
        {"where": "router 0: received RA", "expected": 3, "found": 2},
        {"where": "router 1: socket drops", "expected": 0, "found": 5},
    ]


def test_switch_port_that_differs_is_named() -> None:
    counters = _ovs()
    counters[1][1]["rx_packets"] = 9
    del counters[0][HOST_PORT]
    assert reconcile_ovs(TOTALS, counters, [LINK])["differences"] == [
        {"where": "switch 0 port 65000: received", "expected": 0, "found": 4},
        {"where": "switch 0 port 65000: sent", "expected": 0, "found": 2},
        {"where": "switch 1 port 1: received", "expected": 9, "found": 4},
    ]


def test_lossy_link_is_left_out() -> None:
    counters = _ovs()
    counters[1][1]["rx_packets"] = 3
    lossy = Link(index=0, u=0, v=1, u_port=1, v_port=1, loss_percent=1.0)
    assert reconcile_ovs(TOTALS, counters, [lossy]) == {"expected": 12, "found": 12, "differences": []}


def test_a_frame_that_a_port_dropped_is_a_difference_in_a_calm_run() -> None:
    counters = _ovs()
    counters[1][1]["tx_dropped"] = 2
    assert reconcile_ovs(TOTALS, counters, [LINK])["differences"] == []
    difference = {"where": "switch 1 port 1: dropped", "expected": 0, "found": 2}
    assert reconcile_ovs(TOTALS, counters, [LINK], calm=True)["differences"] == [difference]
    # Its queue may be full.
    limited = [replace(LINK, bandwidth_mbps=1.0)]
    assert reconcile_ovs(TOTALS, counters, limited, calm=True)["differences"] == []


def test_tshark_and_own_counts_are_both_compared() -> None:
    captures = [
        CapturedFile(CaptureIdentity("link-0-1", "link", 0, 0, 1), "a", "device", 7, 7, 0),
        CapturedFile(CaptureIdentity("host-0", "host", node=0), "b", "device", 6, 6, 0),
        CapturedFile(CaptureIdentity("host-1", "host", node=1), "c", "device", 6, 7, 2),
    ]
    result = reconcile_tshark(TOTALS, {"link-0-1": 6, "host-0": 6, "host-1": 5})
    assert (result["expected"], result["found"]) == (17, 18)
    assert result["differences"] == [{"where": "host-1: tshark", "expected": 5, "found": 6}]
    result = reconcile_captures(TOTALS, captures)
    assert (result["expected"], result["found"]) == (19, 18)
    assert result["differences"] == [
        {"where": "link-0-1: in the file", "expected": 7, "found": 6},
        {"where": "host-1: received and not dropped", "expected": 5, "found": 6},
    ]


def test_tshark_counts_each_file_even_beside_a_cut_one(tmp_path: Path) -> None:
    contents = {"none": HEADER, "two": HEADER + RECORD * 2, "three": HEADER + RECORD * 3}
    files = {}
    for name, content in contents.items():
        files[name] = tmp_path / f"{name}.pcap"
        files[name].write_bytes(content)
    assert tshark_counts(files) == {"none": 0, "two": 2, "three": 3}
    files["two"].write_bytes(contents["two"][:-10])
    assert tshark_counts(files) == {"none": 0, "two": 1, "three": 3}
    # Of these it reads nothing.
    files["two"].write_bytes(HEADER + RECORD[:-10])
    files["three"].write_bytes(HEADER[:10])
    assert tshark_counts(files) == {"none": 0, "two": 0, "three": 0}
    assert tshark_counts({"three": files["three"]}) == {"three": 0}


def test_tshark_counts_files_with_line_breaks_in_their_paths(tmp_path: Path) -> None:
    folder = tmp_path / "a\nb"
    folder.mkdir()
    (folder / "c.pcap").write_bytes(HEADER + RECORD)
    assert tshark_counts({"c": folder / "c.pcap"}) == {"c": 1}


def test_tshark_counts_more_files_than_a_command_line_holds(tmp_path: Path) -> None:
    folder = tmp_path.joinpath(*["a" * 250] * 4)
    folder.mkdir(parents=True)
    (folder / "0.pcap").write_bytes(HEADER + RECORD)
    files = {str(each): folder / f"{each}.pcap" for each in range(2_500)}
    for path in [*files.values()][1:]:
        path.hardlink_to(folder / "0.pcap")
    assert tshark_counts(files) == dict.fromkeys(files, 1)


@pytest.mark.parametrize(
    ("status", "words"), [(127, "error while loading shared libraries"), (1, "cannot allocate memory")]
)
def test_a_tshark_that_cannot_begin_has_counted_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, words: str
) -> None:
    """0 frames of each file would be a difference."""
    program = tmp_path / "capinfos"
    program.write_text(f"#!/bin/sh\necho 'capinfos: {words}' >&2\nexit {status}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    file = tmp_path / "a.pcap"
    file.write_bytes(HEADER)
    with pytest.raises(TsharkError, match=f"status {status}: capinfos: {words}"):
        tshark_counts({"a": file})


def test_a_dropped_frame_excuses_counters_of_its_own_way_alone() -> None:
    arrived = [replace(TOTALS[3], frames=1, whole=1)]
    none: dict[str, object] = {"frames_sent": {}, "frames_received": {"RA": 1}, "ras_received": 0}
    unsent: dict[str, object] = {"frames_sent": {}, "frames_received": {}, "urs_sent": 1}
    for reason, on_arrival, at_sending in (("malformed", 0, 1), ("send_queue_full", 1, 0), ("no_tree", 0, 0)):
        drops = {"dropped": {reason: 1}}
        assert len(reconcile_routers(arrived, {0: none | drops})["differences"]) == on_arrival
        assert len(reconcile_routers([], {0: unsent | drops})["differences"]) == at_sending
