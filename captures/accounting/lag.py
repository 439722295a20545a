"""How late the parts of a run were: keys of the summary, and the reasons to call a run invalid.

A run is invalid where a part was later than the bound: what it did and did not deliver then says more of the
machine than of the network.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from captures.rundir.clock import Clock
from captures.rundir.measures import LagReport, PartLag

#: Parts in the order of the summary -> their name in reasons.
PARTS = {"router": "routers", "workload": "workload", "switches": "switches", "captures": "captures"}
#: A rate that is suggested leaves this much room below the bound.
_ROOM = 0.8


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


def late(summary: Mapping[str, Any]) -> list[str]:
    """The reasons to call a run invalid, from the keys of its summary; none: the machine kept up."""
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
    if summary["capture_drops"]:
        reasons.append(f"captures: {summary['capture_drops']} frames dropped before they were read")
    if reasons:
        rate = summary.get("sufficient_time_scale")
        advice = 'time_scale = "auto" finds a rate, where links have no properties of their own'
        reasons.append(advice if rate is None else f"a time scale of {rate:g} would have done; {advice}")
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
