"""The verdict, the run folder's errors, and the pages made from the code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from captures.accounting.direct import Direct
from captures.accounting.log_tables import application_tables
from captures.accounting.verdict import verdict
from captures.datasource import options, views
from captures.frames.parts import balance
from captures.rundir import RunLayout
from captures.rundir import summary as summary_module
from captures.rundir.files import RunFolderError
from captures.rundir.inputs import read_manifest
from captures.rundir.summary import read_summary, write_summary
from captures.tables import document as tables
from tests.support.paths import DOCS
from tests.support.run_folder import SpacedRun


def _good() -> dict[str, Any]:
    zero = dict.fromkeys(
        (
            "false_negatives_after_convergence",
            "spurious_deliveries",
            "duplicate_deliveries",
            "capture_drops",
            "frames_undecodable",
            "frames_repeated",
            "socket_drops",
            "router_send_drops",
            "switch_drops",
            "messages_unrecorded",
            "records_lost",
        ),
        0,
    )
    equal = {"expected": 5, "found": 5, "differences": []}
    equally = {name: dict(equal) for name in ("tshark", "routers", "ovs", "applications")}
    return {
        **zero,
        "capture_defects": [],
        "contradictions": [],
        "evidence_missing": [],
        "frames_refused": [],
        "frames_replayed": ["router 0 refused 9 frames in the name of node 1: replayed"],
        "attention": None,
        "reconciliation": equally,
        "held": False,
        "messages_planned": 2,
        "messages_sent": 2,
        "deliveries_expected": 4,
        "deliveries_decided": 3,
        "recovery_s": [{"events": ["link_down 0-1"], "at_s": 12.0, "epoch": 2, "committed_s": 0.2}],
    }


def test_good_run_holds() -> None:
    assert verdict(_good()) == ("holds", [])


def test_broken_rules_of_subscriptions_fail_the_verdict() -> None:
    attention = {"violations": {"repeated": 0}, "examples": [], "starved_decided": 3, "undecided": "loss"}
    assert verdict({**_good(), "attention": attention}) == ("holds", [])
    decided = {**attention, "undecided": None}
    assert verdict({**_good(), "attention": decided})[1] == [
        "3 subscriptions starved although no frame was dropped, no cache was full and the trees were stable"
    ]
    broken = {**attention, "violations": {"repeated": 2}, "examples": ["repeated: publication 1/2"]}
    assert verdict({**_good(), "attention": broken}) == (
        "fails",
        ["2 deliveries to subscriptions break the rule `repeated`; first: repeated: publication 1/2"],
    )


def test_frames_that_links_doubled_show_no_loop() -> None:
    assert verdict({**_good(), "frames_repeated": 1}, doubling=True) == ("holds", [])


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("router_send_drops", 1, "1 frames that routers could not send"),
        ("switch_drops", 1, "1 frames that switches lost: their buffers were full, or upcalls failed"),
        (
            "frames_refused",
            ["router 0 refused 3 frames in the name of node 1: untagged"],
            "not authentic: router 0 refused 3 frames in the name of node 1: untagged",
        ),
        ("messages_sent", 0, "none of 2 messages was sent"),
        (
            "recovery_s",
            [{"events": ["link_down 0-1", "node_up 3"], "at_s": 12.5, "epoch": None, "committed_s": None}],
            "the network never recovered from link_down 0-1, node_up 3, at 12.5 s: no epoch of new trees "
            "reached every router",
        ),
    ],
)
def test_a_fault_that_no_mutation_of_evidence_makes_fails_with_its_reason(
    key: str, value: object, reason: str
) -> None:
    assert verdict({**_good(), key: value}) == ("fails", [reason])


def test_a_late_run_is_invalid_whatever_else_it_shows() -> None:
    late = {"routers": {"lag_s": 90.0, "lag_wall_s": 1.5, "at_s": 3.0, "node": 4}, "workload": None}
    bound = {"lag_s": 30.0, "lag_wall_s": 1.0}
    run = {
        **_good(),
        "lag": late,
        "lag_bound": bound,
        "sufficient_time_scale": 16.0,
        "spurious_deliveries": 9,
    }
    assert verdict(run) == (
        "invalid",
        [
            "the machine was too slow",
            "routers (first of all that of node 4): 90 s of experiment time late at 3 s, at most 1.5 s of "
            "wall time; the bound is 30 s, and 1 s of wall time",
            'a time scale of 16 would have done; time_scale = "auto" finds a rate, '
            "where links have no properties of their own",
        ],
    )


def test_a_run_without_its_lag_is_invalid() -> None:
    reasons = ["nobody knows whether the machine was fast enough: lag.json is missing"]
    assert verdict({**_good(), "evidence_missing": ["lag.json", "clock.jsonl"]}) == ("invalid", reasons)


def test_a_link_without_a_capture_fails() -> None:
    reasons = ["2 links without a capture; first: link-0-1"]
    assert verdict(_good(), ["link-0-1", "host-3"]) == ("fails", reasons)


def test_difference_fails_with_its_place() -> None:
    run = _good()
    run["reconciliation"]["ovs"]["differences"] = [{"where": "switch 1 port 2", "expected": 4, "found": 5}]
    assert verdict(run) == (
        "fails",
        ["ovs and the captures differ in 1 numbers; first: switch 1 port 2: expected 4, found 5"],
    )


def test_run_without_workload_may_send_nothing() -> None:
    assert verdict({**_good(), "messages_planned": 0, "messages_sent": 0}) == ("holds", [])


def test_a_session_may_end_before_its_workload_and_before_anything_is_decided() -> None:
    session = {**_good(), "held": True, "messages_sent": 0, "deliveries_expected": 1, "deliveries_decided": 0}
    assert verdict(session) == ("holds", [])
    assert verdict({**session, "held": False})[0] == "fails"
    assert verdict({**session, "spurious_deliveries": 1})[0] == "fails"


def test_pages_are_those_of_the_code() -> None:
    assert (DOCS / "reference/summary.md").read_text() == summary_module.document()
    assert (DOCS / "reference/tables.md").read_text() == tables.document()


def test_missing_and_bad_files_are_named(tmp_path: Path) -> None:
    run = RunLayout(tmp_path)
    with pytest.raises(RunFolderError, match=r"manifest\.json: missing"):
        read_manifest(run)
    run.manifest.write_text(json.dumps({"datapath": "kernel"}))
    with pytest.raises(RunFolderError, match="no field 'started_ns'"):
        read_manifest(run)
    run.manifest.write_text(json.dumps({"datapath": "kernel", "started_ns": 1, "evidence": [], "inputs": {}}))
    run.applications_folder.mkdir(parents=True)
    log = run.applications_of(3)
    log.write_text('{"event": "deliver", "node": 1, "t_ns": 5, "app": "a", "source": 0}\n')
    with pytest.raises(RunFolderError, match=r"applications/r3\.jsonl:1: no field 'seq'"):
        application_tables(run)
    log.write_text("\n{nonsense\n")
    with pytest.raises(RunFolderError, match=r"applications/r3\.jsonl:2: expected JSON"):
        application_tables(run)


def test_groups_of_files_are_of_about_equal_size() -> None:
    assert balance([9, 1, 1, 1, 1, 1], 2) == [[0], [1, 2, 3, 4, 5]]
    assert balance([], 4) == []
    assert balance([7], 4) == [[0]]


def test_the_page_of_the_data_sources_has_their_options_and_columns() -> None:
    page = (DOCS / "reference/pcap-source.md").read_text()
    assert options.options_table() in page
    assert views.columns_tables() in page


def test_convergence_counts_from_the_first_predicate_of_a_session(tmp_path: Path) -> None:
    """Second 0 of a session passes long before its user sets a predicate."""
    found = []
    for waited_ms in (0, 2418):
        run = SpacedRun()
        run.tick(waited_ms)
        run.set_predicate(1)
        run.advertise(1, [(1, [0, 2])], seq=1)
        run.workload.clear()
        with Direct(run.write(tmp_path / str(waited_ms))) as direct:
            found.append(direct.summary()["convergence_s"])
    # A millisecond until the confirmation, and before a frame in each of five captures.
    assert found == [pytest.approx(0.006, abs=1e-9)] * 2


@pytest.mark.attack("hostile run folder")
@pytest.mark.parametrize("key", summary_module.SUMMARY_KEYS)
def test_a_value_of_the_wrong_type_is_an_error_that_names_file_and_key(tmp_path: Path, key: str) -> None:
    run = RunLayout(tmp_path)
    hostile: list[Any] = [[[]], {"x": "y"}]
    for wrong in hostile:
        write_summary(run, {key: wrong})
        with pytest.raises(RunFolderError, match=rf"summary.json: {key}(\.x|\[0\])?: .*(expected: |has no )"):
            read_summary(run)
    write_summary(run, {key: None})
    assert read_summary(run) == {key: None}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"delivery_delay": {"median_s": "x"}}, "delivery_delay.median_s: 'x'; expected: number"),
        ({"lag": {"routers": 3}}, "lag.routers: 3; expected: object"),
        ({"recovery_s": [{}]}, r"recovery_s\[0\]: has no events"),
        ({"reconciliation": {"ovs": {"differences": [{}]}}}, r"differences\[0\]: has no where"),
    ],
)
def test_values_within_objects_have_types_too(tmp_path: Path, value: dict[str, Any], message: str) -> None:
    write_summary(RunLayout(tmp_path), value)
    with pytest.raises(RunFolderError, match=message):
        read_summary(RunLayout(tmp_path))
