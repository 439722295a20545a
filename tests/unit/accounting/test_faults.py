"""The verdict on a run folder whose numbers are known, where captures, connections or predicates fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from captures.accounting.direct import Direct
from tests.support.run_folder import NODES, RunBuilder, good_run


def _summary(run: Path) -> dict[str, Any]:
    with Direct(run) as direct:
        return direct.summary()


def test_a_run_whose_captures_dropped_frames_is_invalid(tmp_path: Path) -> None:
    run = good_run()
    run.drops["link-0-1"] = 3
    summary = _summary(run.write(tmp_path / "run"))
    assert summary["verdict"] == "invalid"
    assert summary["verdict_reasons"][:2] == [
        "the machine was too slow",
        "captures: 3 frames dropped before they were read",
    ]


def test_cut_capture_is_found(tmp_path: Path) -> None:
    run = good_run().write(tmp_path / "run")
    path = run / "pcap" / "link-1-2.pcap"
    path.write_bytes(path.read_bytes()[:-1])
    summary = _summary(run)
    assert summary["frames_captured"] == 31
    assert summary["capture_defects"][0].startswith("link-1-2: the file ends inside a record")
    assert summary["verdict_reasons"] == [
        f"capture cut short: {summary['capture_defects'][0]}",
        "capture files and their own counters differ in 1 numbers; "
        "first: link-1-2: in the file: expected 4, found 3",
        # Port 2 of switch 1 sent it, port 1 of switch 2 received it.
        "ovs and the captures differ in 2 numbers; first: switch 1 port 2: sent: expected 3, found 2",
    ]


def test_a_delivery_to_a_broken_connection_is_neither_made_nor_missed(tmp_path: Path) -> None:
    run = good_run()
    for event in run.events:
        if event["event"] == "deliver" and event["node"] == 2:
            event["event"] = "lose"
    summary = _summary(run.write(tmp_path / "run"))
    assert summary["verdict_reasons"] == []
    keys = ("deliveries_expected", "deliveries_made", "deliveries_lost", "false_negatives", "false_positives")
    assert [summary[key] for key in keys] == [2, 1, 1, 0, 2]


def test_message_missed_before_convergence_decides_nothing(tmp_path: Path) -> None:
    run = RunBuilder()
    for node in NODES:
        run.set_up(node)
    run.set_predicate(1)
    run.set_predicate(2)
    run.send(1, 50, [], expected=True)
    run.advertise(1, [(1, [0, 2])], seq=1)
    summary = _summary(run.write(tmp_path / "run"))
    assert (summary["false_negatives"], summary["false_negatives_after_convergence"]) == (2, 0)
    (reason,) = summary["verdict_reasons"]
    assert reason.startswith("none of 2 expected deliveries is decided")
