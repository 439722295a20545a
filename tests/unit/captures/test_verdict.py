"""The verdict and its reasons, what makes a run late and invalid, and frames that were refused.

`tests/support/mutations.py` has the changes of evidence; here are the faults that none of them makes.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from captures.accounting.conclusion import log_keys
from captures.accounting.direct import Direct
from captures.accounting.inputs import Inputs
from captures.accounting.verdict import lag_keys, late, verdict
from captures.rundir import RunLayout
from captures.rundir.clock import Clock
from captures.rundir.controller import Rejection, read_controller
from captures.rundir.measures import DROPS, LAG, Answers, LagReport, PartLag, SwitchDrops, read_lag
from captures.rundir.summary import SUMMARY_KEYS
from router.protocol.counters import Drop
from router.records.json_file import json_line
from router.security.guard import Refusal
from tests.support.run_folder import RunBuilder, SpacedRun, good_run

_EQUAL = {"expected": 5, "found": 5, "differences": []}
_GOOD: dict[str, Any] = {
    **dict.fromkeys(SUMMARY_KEYS, 0),
    **dict.fromkeys(("capture_defects", "contradictions", "evidence_missing", "frames_refused"), ()),
    "frames_replayed": ["router 0 refused 9 frames in the name of node 1: replayed"],
    "attention": None,
    "reconciliation": dict.fromkeys(("tshark", "routers", "ovs", "applications"), _EQUAL),
    "messages_planned": 2,
    "messages_sent": 2,
    "deliveries_expected": 4,
    "deliveries_decided": 3,
    "recovery_s": [{"events": ["link_down 0-1"], "at_s": 12.0, "epoch": 2, "committed_s": 0.2}],
}
_ATTENTION = {"violations": {"repeated": 0}, "examples": [], "starved_decided": 3, "undecided": "loss"}
_SESSION = {"held": True, "messages_sent": 0, "deliveries_expected": 1, "deliveries_decided": 0}
_BROKEN = {**_ATTENTION, "violations": {"repeated": 2}, "examples": ["repeated: publication 1/2"]}
_NEVER = {"events": ["link_down 0-1", "node_up 3"], "at_s": 12.5, "epoch": None, "committed_s": None}
_REFUSAL = "router 0 refused 3 frames in the name of node 1: untagged"
#: Changed keys of the summary of a good run, and the reason of the verdict; empty: the run holds.
_VERDICTS: dict[str, tuple[dict[str, Any], str]] = {
    "a good run": ({}, ""),
    "starved subscriptions of which nothing is decided": ({"attention": _ATTENTION}, ""),
    "starved subscriptions": (
        {"attention": {**_ATTENTION, "undecided": None}},
        "3 subscriptions starved although no frame was dropped, no cache was full and the trees were stable",
    ),
    "a broken rule of subscriptions": (
        {"attention": _BROKEN},
        "2 deliveries to subscriptions break the rule `repeated`; first: repeated: publication 1/2",
    ),
    "frames that routers could not send": ({"router_send_drops": 1}, "1 frames that routers could not send"),
    "frames that switches lost": (
        {"switch_drops": 1},
        "1 frames that switches lost: their buffers were full, or upcalls failed",
    ),
    "refused frames": ({"frames_refused": [_REFUSAL]}, f"not authentic: {_REFUSAL}"),
    "no message of the workload": ({"messages_sent": 0}, "none of 2 messages was sent"),
    "no workload": ({"messages_planned": 0, "messages_sent": 0}, ""),
    "a session that its user ends before anything is decided": (_SESSION, ""),
    "a network that never recovers": (
        {"recovery_s": [_NEVER]},
        "the network never recovered from link_down 0-1, node_up 3, at 12.5 s: no epoch of new trees reached "
        "every router",
    ),
}


@pytest.mark.parametrize("case", _VERDICTS)
def test_a_fault_fails_with_its_reason(case: str) -> None:
    changed, reason = _VERDICTS[case]
    assert verdict({**_GOOD, **changed}) == (("fails", [reason]) if reason else ("holds", []))


def test_a_session_fails_by_what_it_did() -> None:
    assert verdict({**_GOOD, **_SESSION, "held": False})[0] == "fails"
    assert verdict({**_GOOD, **_SESSION, "spurious_deliveries": 1})[0] == "fails"


def test_links_that_double_frames_show_no_loop_and_those_without_a_capture_fail() -> None:
    assert verdict({**_GOOD, "frames_repeated": 1}, doubling=True) == ("holds", [])
    reasons = ["2 links without a capture; first: link-0-1"]
    assert verdict(_GOOD, ["link-0-1", "host-3"]) == ("fails", reasons)
    # Nor is a run without its lag valid.
    reasons = ["nobody knows whether the machine was fast enough: lag.json is missing"]
    assert verdict({**_GOOD, "evidence_missing": ["lag.json", "clock.jsonl"]}) == ("invalid", reasons)


def test_message_missed_before_convergence_decides_nothing(tmp_path: Path) -> None:
    run = RunBuilder()
    run.set_up()
    run.set_predicate(1)
    run.set_predicate(2)
    run.send(1, 50, [], expected=True)
    run.advertise(1, [(1, [0, 2])], seq=1)
    with Direct(run.write(tmp_path / "run")) as direct:
        summary = direct.summary()
    assert (summary["false_negatives"], summary["false_negatives_after_convergence"]) == (2, 0)
    (reason,) = summary["verdict_reasons"]
    assert reason.startswith("none of 2 expected deliveries is decided")


def test_a_delivery_to_a_broken_connection_is_neither_made_nor_missed(tmp_path: Path) -> None:
    run = good_run()
    for event in run.events:
        if event["event"] == "deliver" and event["node"] == 2:
            event["event"] = "lose"
    with Direct(run.write(tmp_path / "run")) as direct:
        summary = direct.summary()
    assert summary["verdict_reasons"] == []
    keys = ("deliveries_expected", "deliveries_made", "deliveries_lost", "false_negatives", "false_positives")
    assert [summary[key] for key in keys] == [2, 1, 1, 0, 2]


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


# Lag.


def _part(name: str, lag_s: float, wall_s: float, at_s: float = 0.0, **fields: Any) -> PartLag:
    made: Any = {"part": name, "lag_s": lag_s, "lag_wall_s": wall_s, "lag_at_s": at_s, **fields}
    return cast("PartLag", made)


def _router(node: int, lag_s: float, wall_s: float, turn_s: float = 0.01) -> PartLag:
    turn = {"turn_s": turn_s, "turn_of": "RA", "turn_at_s": 5.0, "turn_cpu_s": 0.1 / node}
    return _part("router", lag_s, wall_s, at_s=12.0, node=node, **turn)


def _report(*parts: PartLag) -> LagReport:
    answers = Answers(median_s=0.001, p99_s=0.5, max_s=2.5)
    return LagReport(from_s=30.0, bound_s=30.0, bound_wall_s=1.0, parts=list(parts), answers=answers)


def test_keys_name_the_latest_of_each_part_and_the_longest_turn(tmp_path: Path) -> None:
    controller = _part("controller", 0.0, 0.0, turn_s=3.0, turn_of="", turn_at_s=0.0, turn_cpu_s=2.0)
    report = _report(
        _router(1, 3.0, 0.05, 0.2), _router(2, 2.0, 0.9), _part("switches", 1.0, 0.1), controller
    )
    run = RunLayout(tmp_path)
    assert read_lag(run) is None
    LAG.write(run, report)
    assert read_lag(run) == report
    assert lag_keys(report, Clock.steady(0, 60.0)) == {
        "lag": {
            "routers": {"lag_s": 3.0, "lag_wall_s": 0.9, "at_s": 12.0, "node": 1},
            "workload": None,
            "switches": {"lag_s": 1.0, "lag_wall_s": 0.1, "at_s": 0.0, "node": None},
            "captures": None,
        },
        "lag_bound": {"lag_s": 30.0, "lag_wall_s": 1.0},
        "longest_turn": {"node": 1, "turn_s": 0.2, "cpu_s": 0.1, "of": "RA", "at_s": 5.0},
        "sufficient_time_scale": None,
        "answer_delay": {"median_s": 0.001, "p99_s": 0.5, "max_s": 2.5},
    }


def test_a_simulation_measures_nothing_and_is_never_late() -> None:
    keys = lag_keys(None, Clock.steady(0, 60.0))
    assert set(keys.values()) == {None}
    assert late({**keys, "capture_drops": 0}) == []


_RATE = 'time_scale = "auto" finds a rate, where links have no properties of their own'
_BOUND = "the bound is 30 s, and 1 s of wall time"


@pytest.mark.parametrize(
    ("parts", "drops", "reasons"),
    [
        ([_router(1, 30.0, 1.0), _part("workload", 29.0, 0.5)], 0, []),
        # Eight seconds at 60: of experiment time 16 bounds, of wall time 8.
        (
            [_router(1, 2.0, 0.1), _router(7, 480.0, 8.0), _part("workload", 5.0, 0.1)],
            0,
            [
                "routers (first of all that of node 7): 480 s of experiment time late at 12 s, at most 8 s "
                f"of wall time; {_BOUND}",
                f"a time scale of 3 would have done; {_RATE}",
            ],
        ),
        (
            [_part("switches", 3.0, 1.5, at_s=77.0)],
            0,
            [
                f"switches: 3 s of experiment time late at 77 s, at most 1.5 s of wall time; {_BOUND}",
                f"a time scale of 32 would have done; {_RATE}",
            ],
        ),
        ([_router(1, 1.0, 0.01)], 3, ["captures: 3 frames dropped before they were read", _RATE]),
    ],
    ids=["within the bound", "a router", "wall time alone", "captures lost frames"],
)
def test_a_late_run_is_invalid_in_any_case(parts: list[PartLag], drops: int, reasons: list[str]) -> None:
    summary = {**_GOOD, **lag_keys(_report(*parts), Clock.steady(0, 60.0)), "capture_drops": drops}
    found = ["the machine was too slow", *reasons] if reasons else []
    assert late(summary) == found
    assert verdict({**summary, "spurious_deliveries": 9 * bool(reasons)}) == (
        ("invalid", found) if reasons else ("holds", [])
    )
    slow = {**summary, "in_flight_window_s": 1.0, "delivery_delay": {"max_s": 2.6}, "spurious_deliveries": 5}
    for more in ({}, {"false_negatives_after_convergence": 2}):
        assert "messages: under way for up to 2.6 s" in " ".join(verdict({**slow, **more})[1])
    assert verdict({**slow, "in_flight_window_s": 3.0}) == verdict({**summary, "spurious_deliveries": 5})
    assert verdict({**slow, "frames_repeated": 1}, doubling=True) == verdict(slow)
    for other in ({"frames_repeated": 1}, {"false_negatives_after_convergence": 2, "spurious_deliveries": 0}):
        assert verdict({**slow, **other}) == verdict({**slow, **other, "in_flight_window_s": 3.0})
    apart = "clocks of machines may be 2 ms apart; expected at most 1 ms"
    assert verdict({**summary, "clock_error_s": 0.002}) == ("invalid", [*found, apart])


# Frames that were refused.


_REFUSED = (
    *("frames_refused", "frames_replayed", "frames_rejected", "frames_dropped_by_switches", "switch_drops"),
)


def _keys(folder: Path, routers: dict[int, dict[str, Any]], *controllers: dict[str, Any]) -> dict[str, Any]:
    """The keys that are not empty of a run with controllers that left their counters, one after the other."""
    run = RunLayout(folder)
    run.controller_log.parent.mkdir(parents=True, exist_ok=True)
    counts: dict[str, Any] = {"frames_sent": {}, "frames_received": {}, "undecodable": {}, "rejected": {}}
    events = [{"t_ns": 1, "event": "counters", **counts, "refused": each} for each in controllers]
    run.controller_log.write_bytes(b"".join(map(json_line, events)))
    inputs = SimpleNamespace(router_counters=routers, run=run, time_scale=1.0)
    inputs.held, inputs.workload, inputs.captures = False, [], []
    inputs.controller = [event for _, event in read_controller(run.controller_log)]
    inputs.log = SimpleNamespace(sent=pa.table({"seq": [1]}))
    keys = log_keys(cast(Inputs, inputs))
    return {name: keys[name] for name in _REFUSED if keys[name]}


def test_each_receiver_names_sender_and_reason(tmp_path: Path) -> None:
    routers = {
        0: {"refused": {"1": {"bad_signature": 2, "issuer_replayed": 3, "replayed": 50, "untagged": 1}}},
        1: {"refused": {"controller": {"bad_tag": 4}, "others": {"untagged": 5}}},
        2: {},
    }
    assert _keys(tmp_path, routers, {"1": {"untagged": 7}}) == {
        "frames_refused": [
            "router 0 refused 2 frames in the name of node 1: bad_signature",
            "router 0 refused 1 frames in the name of node 1: untagged",
            "router 1 refused 4 frames in the name of controller: bad_tag",
            "router 1 refused 5 frames in the name of others: untagged",
            "the controller refused 7 frames in the name of node 1: untagged",
        ],
        "frames_replayed": [
            "router 0 refused 3 frames in the name of node 1: issuer_replayed",
            "router 0 refused 50 frames in the name of node 1: replayed",
        ],
    }


@pytest.mark.parametrize("controllers", [[], [{}]])
def test_a_run_without_refused_frames_or_a_controller_has_none(
    tmp_path: Path, controllers: list[dict[str, Any]]
) -> None:
    assert _keys(tmp_path, {0: {}}, *controllers) == {}


@pytest.mark.parametrize("reason", Rejection)
def test_every_reason_of_the_controller_has_its_key_and_its_text(tmp_path: Path, reason: Rejection) -> None:
    text = f"the controller refused 2 frames in the name of node 1: {reason.value}"
    assert _keys(tmp_path, {0: {}}, {"1": {reason: 2}}) == {"frames_rejected": [text]}
    _, described = SUMMARY_KEYS["frames_rejected"]
    assert f"`{reason.value}`" in described
    # A reason of guard or core would be in two keys.
    assert reason.value not in {*Drop, *Refusal}


def test_the_counts_of_a_controller_that_was_followed_by_another_are_added(tmp_path: Path) -> None:
    counts = {"1": {"hello_rate": 37}}, {"1": {"hello_rate": 3}, "2": {"untagged": 1}}
    assert _keys(tmp_path, {0: {}}, *counts) == {
        "frames_rejected": ["the controller refused 40 frames in the name of node 1: hello_rate"],
        "frames_refused": ["the controller refused 1 frames in the name of node 2: untagged"],
    }


def test_what_switches_dropped_names_their_nodes(tmp_path: Path) -> None:
    run = RunLayout(tmp_path)
    run.counters_folder.mkdir()
    lossy = SwitchDrops(controller_source=0, no_rule=0, lost_upcalls=490)
    DROPS.write(run, {0: lossy, 2: SwitchDrops(controller_source=3, no_rule=1, no_room=7)})
    assert _keys(tmp_path, {0: {}}) == {
        "switch_drops": 497,
        "frames_dropped_by_switches": [
            "the switch of node 2 dropped 3 frames with the address of the controller",
            "the switch of node 2 dropped 1 frames that no rule forwards",
        ],
    }
    # Runs that are older than the count of frames without room.
    DROPS.write(run, {0: SwitchDrops(controller_source=0, no_rule=2)})
    text = "the switch of node 0 dropped 2 frames that no rule forwards"
    assert _keys(tmp_path, {0: {}}) == {"frames_dropped_by_switches": [text]}
