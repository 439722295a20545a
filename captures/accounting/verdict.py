"""The verdict on a run: whether its numbers show that the network worked correctly, and in time.

A run is invalid where a part was later than the bound: what it did and did not deliver then says more of the
machine than of the network.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from captures.accounting.traffic import attention_faults
from captures.rundir import RunLayout
from captures.rundir.clock import Clock
from captures.rundir.faults import FaultRecord
from captures.rundir.measures import LagReport, PartLag

#: Parts in the order of the summary -> their name in reasons.
PARTS = {"router": "routers", "workload": "workload", "switches": "switches", "captures": "captures"}
#: A rate that is suggested leaves this much room below the bound.
_ROOM = 0.8
#: Greatest error between the clocks of machines of a valid run, wall seconds: no frame takes longer.
CLOCK_ERROR_MAX_S = 1e-3


def lag_keys(report: LagReport | None, clock: Clock) -> dict[str, Any]:
    """The keys lag, lag_bound, longest_turn, sufficient_time_scale and answer_delay of summary.json.

    Args:
        report: None: nothing was measured, as in a simulation.
    """
    if report is None:
        names = ("lag", "lag_bound", "longest_turn", "sufficient_time_scale", "answer_delay")
        return dict.fromkeys(names)
    latest = {part: _latest(report["parts"], part) for part in PARTS}
    turns = [part for part in report["parts"] if part["part"] == "router" and part.get("turn_s", 0) > 0]
    longest = max(turns, key=lambda part: part["turn_s"], default=None)
    measured_s = [part["turn_cpu_s"] for part in turns if "turn_cpu_s" in part]
    return {
        "lag": {
            PARTS[part]: None
            if found is None
            else {
                "lag_s": round(found["lag_s"], 3),
                "lag_wall_s": round(found["lag_wall_s"], 6),
                "at_s": round(found["lag_at_s"], 3),
                "node": found.get("node"),
            }
            for part, found in latest.items()
        },
        "lag_bound": {"lag_s": report["bound_s"], "lag_wall_s": report["bound_wall_s"]},
        "longest_turn": None
        if longest is None
        else {
            "node": longest.get("node"),
            "turn_s": round(longest["turn_s"], 6),
            "cpu_s": round(max(measured_s), 6) if measured_s else None,
            "of": longest.get("turn_of", ""),
            "at_s": round(longest.get("turn_at_s", 0.0), 3),
        },
        "sufficient_time_scale": _sufficient(report, clock),
        "answer_delay": report["answers"],
    }


def late(summary: Mapping[str, Any], wrong: Collection[str] = ()) -> list[str]:
    """The reasons to call a run invalid, from the keys of its summary; none: nothing was late.

    Args:
        wrong: the keys that would make the verdict fail.
    """
    lag, bound = summary.get("lag") or {}, summary.get("lag_bound") or {}
    reasons = []
    for name, found in lag.items():
        if found is None or not any(found[each] > bound[each] for each in ("lag_s", "lag_wall_s")):
            continue
        who = name if found["node"] is None else f"routers (first of all that of node {found['node']})"
        reasons.append(
            f"{who}: {found['lag_s']:.3g} s of experiment time late at {found['at_s']:.3g} s, "
            f"at most {found['lag_wall_s']:.3g} s of wall time; "
            f"the bound is {bound['lag_s']:g} s, and {bound['lag_wall_s']:g} s of wall time"
        )
    delay_s = (summary.get("delivery_delay") or {}).get("max_s") or 0.0
    window_s = summary.get("in_flight_window_s") or math.inf
    # Behind several routers, each in time, a message may be late: the predicate of its receiver may have
    # changed. That explains no loop, nothing delivered twice, and no delivery that is missed alone.
    of_lateness = set(wrong) <= {"spurious_deliveries", "false_negatives_after_convergence"}
    if lag and of_lateness and "spurious_deliveries" in wrong and delay_s > window_s:
        reasons.append(
            f"messages: under way for up to {delay_s:.3g} s of wall time; "
            f"oracle.in_flight_window_s is {window_s:g} s: a smaller time_scale, or a larger window, would do"
        )
    if summary["capture_drops"]:
        reasons.append(f"captures: {summary['capture_drops']} frames dropped before they were read")
    if reasons:
        rate = summary.get("sufficient_time_scale")
        advice = 'time_scale = "auto" finds a rate, where links have no properties of their own'
        advice = advice if rate is None else f"a time scale of {rate:g} would have done; {advice}"
        reasons = ["the machine was too slow", *reasons, advice]
    if (error_s := summary.get("clock_error_s", 0.0)) > CLOCK_ERROR_MAX_S:
        reasons.append(f"clocks of machines may be {1e3 * error_s:.3g} ms apart; expected at most 1 ms")
    return reasons


def _latest(parts: Iterable[PartLag], name: str) -> PartLag | None:
    """The greatest lag of the parts of a name: of experiment time, with the greatest of wall time."""
    found: Sequence[PartLag] = [part for part in parts if part["part"] == name]
    if not found:
        return None
    latest = max(found, key=lambda part: part["lag_s"]).copy()
    latest["lag_wall_s"] = max(part["lag_wall_s"] for part in found)
    return latest


def _sufficient(report: LagReport, clock: Clock) -> float | None:
    """A rate at which the lag would have stayed below the bound, if lag grows no slower than the rate.

    None: the bound was kept.
    """
    over = [
        max(part["lag_s"] / report["bound_s"], part["lag_wall_s"] / report["bound_wall_s"])
        for part in report["parts"]
    ]
    worst = max(over, default=0.0)
    if worst <= 1:
        return None
    # Two digits: it is an estimate.
    return float(f"{max(clock.rates) / worst * _ROOM:.2g}")


#: Keys that must be 0 -> the reason that another value gives.
_MUST_BE_ZERO = {
    "false_negatives_after_convergence": "expected deliveries missed after convergence",
    "spurious_deliveries": "deliveries that nobody asked for",
    "duplicate_deliveries": "deliveries made more than once",
    "messages_unrecorded": "captured messages that no router recorded as sent by an application",
    "records_lost": "records of applications that routers could not write: evidence is missing",
    "frames_undecodable": "captured frames that do not decode",
    "frames_repeated": "MSG frames that crossed a link twice in one direction",
    "socket_drops": "frames dropped at the routers' sockets",
    "switch_drops": "frames that switches lost: their buffers were full, or upcalls failed",
    "router_send_drops": "frames that routers could not send",
}
#: Those of the keys above that say what became of messages, and not that evidence is missing or wrong.
MESSAGE_FAILURES = (
    *("false_negatives_after_convergence", "spurious_deliveries", "duplicate_deliveries", "frames_repeated"),
)


#: Without this file of an emulation a run is invalid: the machine may have been too slow.
_LAG = RunLayout(Path()).lag.name
#: The sides of a reconciliation, where they are not the source of its name and the captures.
_SIDES = {
    "applications": "records of applications and counters or captures",
    "captures": "capture files and their own counters",
    "tunnel": "the ends of links between machines",
}
#: Missing files, and contradictions, that reasons name; the summary has all.
_NAMED = 5
HOLDS, FAILS, INVALID = "holds", "fails", "invalid"


def verdict(
    summary: Mapping[str, Any],
    uncaptured: Sequence[str] = (),
    lost: Sequence[FaultRecord] = (),
    *,
    doubling: bool = False,
    expected: Collection[str] = (),
) -> tuple[str, list[str]]:
    """Whether the run shows that the network worked correctly, and every reason why it does not.

    A run whose parts were too late, or for which nobody knows, is invalid: it shows neither. Then the reasons
    are about the machine.

    Args:
        summary: the keys of summary.json that the accounting gives.
        uncaptured: captures that the run made and that are not listed: nothing was compared there.
        lost: the parts with which the run ended early: whatever the machine did, the run is no evidence.
        doubling: links doubled frames on purpose: a frame that crosses a link twice shows no loop.
        expected: keys of the summary that may be above 0 in this experiment, such as deliveries missed where
            routers delay their RAs.
    """
    ended = [f"the run ended at {loss['at_s']:.3g} s: {loss.get('why', loss['part'])}" for loss in lost]
    wrong = {key: meaning for key, meaning in _MUST_BE_ZERO.items() if summary[key] and key not in expected}
    if doubling:
        wrong.pop("frames_repeated", None)
    too_late = late(summary, wrong)
    if too_late and not lost:
        return INVALID, too_late
    missing = summary["evidence_missing"]
    if _LAG in missing and not lost:
        return INVALID, [f"nobody knows whether the machine was fast enough: {_LAG} is missing"]
    reasons = ended + [f"{summary[key]} {meaning}" for key, meaning in wrong.items()]
    reasons += [f"evidence is missing: {name}" for name in missing[:_NAMED]]
    if len(missing) > _NAMED:
        reasons.append(f"evidence is missing: {len(missing) - _NAMED} more files")
    contradictions = summary["contradictions"]
    reasons += [f"evidence contradicts itself: {text}" for text in contradictions[:_NAMED]]
    if len(contradictions) > _NAMED:
        reasons.append(f"evidence contradicts itself: {len(contradictions) - _NAMED} more times")
    if uncaptured:
        reasons.append(f"{len(uncaptured)} links without a capture; first: {uncaptured[0]}")
    reasons += attention_faults(summary["attention"])
    reasons += [f"capture cut short: {defect}" for defect in summary["capture_defects"]]
    reasons += [f"not authentic: {text}" for text in summary["frames_refused"]]
    for name, result in summary["reconciliation"].items():
        if result["differences"]:
            first, sides = result["differences"][0], _SIDES.get(name, f"{name} and the captures")
            reasons.append(
                f"{sides} differ in {len(result['differences'])} numbers; "
                f"first: {first['where']}: expected {first['expected']}, found {first['found']}"
            )
    # A session that its user ends may end at any point of the workload.
    planned = not summary["held"]
    if planned and summary["deliveries_expected"] and not summary["deliveries_decided"]:
        reasons.append(
            f"none of {summary['deliveries_expected']} expected deliveries is decided: each message was sent "
            "before convergence, or within the oracle's window of a change"
        )
    for change in summary["recovery_s"]:
        if change["committed_s"] is None:
            reasons.append(
                f"the network never recovered from {', '.join(change['events'])}, at {change['at_s']:g} s: "
                "no epoch of new trees reached every router"
            )
    if planned and summary["messages_planned"] and not summary["messages_sent"]:
        reasons.append(f"none of {summary['messages_planned']} messages was sent")
    return (FAILS if reasons else HOLDS), reasons
