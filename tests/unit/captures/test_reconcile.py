"""Reconciliations on hand-made totals, where no mutation of evidence makes the difference."""

from __future__ import annotations

import json
import os
import struct
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from captures.accounting.direct import Direct
from captures.accounting.inputs import ip_frames
from captures.accounting.reconcile import (
    Total,
    TsharkError,
    of_files,
    reconcile_ovs,
    reconcile_routers,
    reconcile_tunnels,
    tshark_counts,
)
from captures.pcap.reader import PcapReader
from captures.rundir import RunLayout
from captures.rundir.capture_list import CapturedFile, host_identity, link_identity, write_captures
from captures.rundir.faults import FAULTS, FaultRecord
from captures.rundir.inputs import MANIFEST, MachineOfRun
from captures.rundir.summary import faults
from router.wire.header import HOST_PORT, node_address
from tests.support.capture_files import pcap
from tests.support.run_folder import good_run
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
_GATEWAY = bytes.fromhex("02c900000001")


def _ovs(there: int = 4, back: int = 2) -> dict[int, dict[int, dict[str, int]]]:
    """The counters of the switches of nodes 0 and 1 after frames from 0 to 1 and back."""
    ahead, reverse = ({"rx_packets": rx, "tx_packets": tx} for rx, tx in ((there, back), (back, there)))
    return {0: {1: {**reverse}, HOST_PORT: {**ahead}}, 1: {1: {**ahead}, HOST_PORT: {**reverse}}}


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


def _lose_in_tunnel(run: RunLayout, listed: Path) -> None:
    """Adds a second capture of the link, without the last frame, to a list of captures."""
    first, *others = json.loads(listed.read_text())
    *left, _ = PcapReader(run.path / first["file"]).records()
    second = {**first, "name": "tunnel-1-0", "kind": "tunnel", "u": 1, "v": 0}
    second |= {"file": first["file"].replace(first["name"], "tunnel-1-0")}
    second |= dict.fromkeys(("captured", "received_by_filter"), len(left))
    (run.path / second["file"]).write_bytes(pcap([(each.time_ns, each.data) for each in left]))
    listed.write_text(json.dumps([first, *others, second]))


def test_a_frame_that_a_tunnel_loses_fails_a_run_without_events_and_is_in_no_total(tmp_path: Path) -> None:
    made = good_run()
    with Direct(made.write(tmp_path / "whole")) as direct:
        whole, rates = direct.summary(), direct.table("link_utilisation")
    made.ovs[1][1]["rx_packets"] -= 1
    run = RunLayout(made.write(tmp_path / "cut"))
    machine = MachineOfRun(name="", nodes=[0], ahead_s=0.0, drift=0.0, bound_s=0.0, chrony="")
    MANIFEST.write(run, {**MANIFEST.read(run), "machines": [machine, {**machine, "nodes": [1, 2]}]})
    _lose_in_tunnel(run, run.captures)
    with Direct(run.path) as direct:
        summary = direct.summary()
        assert direct.table("link_utilisation").equals(rates)
    reason = "the ends of links between machines differ in 1 numbers; first: tunnel of link 0-1 from 0 to 1: "
    assert ([*faults(summary)], summary["verdict_reasons"]) == ([], [f"{reason}expected 3, found 2"])
    changed = ("frames_captured", "reconciliation", "verdict", "verdict_reasons", "clock_error_s")
    assert {**whole, **{name: summary[name] for name in changed}} == summary
    listed = run.captures.read_bytes()
    *others, second = json.loads(listed)
    second |= {"received_by_filter": second["captured"] + 1, "dropped_by_kernel": 1}
    run.captures.write_text(json.dumps([*others, second]))
    with Direct(run.path) as direct:
        dropped = direct.summary()
    assert (dropped["capture_drops"], [*faults(dropped)], dropped["verdict"]) == (1, [], "invalid")
    assert dropped["reconciliation"]["tunnel"] == {"expected": 0, "found": 0, "differences": []}
    run.captures.write_bytes(listed)
    lost = summary["reconciliation"]["tunnel"]
    for link, verdict, differences in ("1-2", "fails", lost["differences"]), ("1-0", "holds", []):
        FAULTS.append(run, FaultRecord(t_ns=1, at_s=0.0, what="cut", part="tunnel", link=link))
        with Direct(run.path) as direct:
            assert direct.summary()["reconciliation"]["tunnel"] == {**lost, "differences": differences}
            assert direct.verdict()[0] == verdict


def test_frames_by_tshark_are_compared_with_each_file() -> None:
    result = of_files("tshark", {"link-0-1": 6, "host-0": 6, "host-1": 5}, TOTALS)
    difference = {"where": "host-1: tshark", "expected": 5, "found": 6}
    assert result == {"expected": 17, "found": 18, "differences": [difference]}


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


def _with_ip(folder: Path, dropped: int = 0) -> RunLayout:
    """Beside the frames of `TOTALS`, node 0 sends three packets of IP to node 1, which answers two."""
    run = RunLayout(folder)
    run.ip_captures_folder.mkdir()
    own, other = node_address(0), node_address(1)

    def frame(source: bytes, destination: bytes) -> tuple[int, bytes]:
        return 1, destination + source + b"\x08\x00" + bytes(50)

    frames = {
        link_identity(LINK): [*[frame(other, own)] * 2, *[frame(own, other)] * 3],
        host_identity(0): [*[frame(own, _GATEWAY)] * 3, *[frame(own, own)] * 2],
        host_identity(1): [*[frame(other, other)] * 3, *[frame(other, _GATEWAY)] * 2],
    }
    listed = []
    for identity, records in frames.items():
        path = run.ip_capture(identity.name)
        path.write_bytes(pcap(records))
        lost = dropped if identity.kind == "link" else 0
        listed.append(CapturedFile(identity, run.relative(path), "", len(records), len(records) + lost, lost))
    write_captures(run.ip_captures, listed)
    nodes = [{"id": 0}, {"id": 1}]
    link = {"index": 0, "u": 0, "v": 1, "u_port": 1, "v_port": 1, "cost": 1}
    run.topology.write_text(json.dumps({"name": "pair", "nodes": nodes, "links": [link]}))
    return run


def test_switches_agree_with_the_captures_of_cbcb_without_the_frames_of_ip(tmp_path: Path) -> None:
    found = ip_frames(_with_ip(tmp_path), [LINK])
    assert found.on_links == 5
    compared = reconcile_ovs(TOTALS, found.left_out(_ovs(7, 4)), [LINK], (), found.lost)
    assert compared == {"expected": 24, "found": 24, "differences": []}
    with_ip = reconcile_ovs(TOTALS, _ovs(7, 4), [LINK])
    assert len(with_ip["differences"]) == 8


def test_packets_of_ip_that_a_tunnel_loses_are_a_difference(tmp_path: Path) -> None:
    _lose_in_tunnel(run := _with_ip(tmp_path), run.ip_captures)
    found = ip_frames(run, [LINK], [LINK])
    difference = {"where": "tunnel of link 0-1 from 0 to 1", "expected": 3, "found": 2}
    agreement = reconcile_tunnels([], [LINK], set(), found.at_ports, found.lost)
    assert agreement == {"expected": 5, "found": 4, "differences": [difference]}
    assert (found.on_links, reconcile_tunnels([], [LINK], set(), found.at_ports, {(1, 1)})["expected"]) == (
        5,
        0,
    )


def test_a_link_whose_capture_lost_packets_is_not_compared(tmp_path: Path) -> None:
    found = ip_frames(_with_ip(tmp_path, dropped=1), [LINK])
    assert found.lost == {(0, 1), (1, 1)}
    counters = _ovs(7, 4)
    counters[0][1]["tx_packets"] += 1
    compared = reconcile_ovs(TOTALS, found.left_out(counters), [LINK], (), found.lost)
    assert compared == {"expected": 12, "found": 12, "differences": []}


def test_a_cut_capture_is_read_up_to_there_without_a_warning_of_python(tmp_path: Path) -> None:
    run = _with_ip(tmp_path)
    path = run.ip_capture(link_identity(LINK).name)
    path.write_bytes(path.read_bytes()[:-10])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ip_frames(run, [LINK]).on_links == 4


def test_a_run_without_ip_has_no_such_frames(tmp_path: Path) -> None:
    found = ip_frames(RunLayout(tmp_path), [LINK])
    assert (found.on_links, found.left_out(_ovs(7, 4))) == (None, _ovs(7, 4))
