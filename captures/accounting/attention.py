"""Bandwidth that the attention-limited service saved, its control traffic and its starvation (section 5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from captures.accounting.inputs import Inputs
from captures.rundir.oracle import Judgement

#: Outcomes of the rounds that say something of the quality of the service.
_DECIDED = ("satisfied", "starved", "short")
#: Answers of the oracle that the key has as they are.
_COPIED = (
    *("cbr_crossings", "cbr_control", "registrations", "publications", "deliveries", "deliveries_from"),
    *("outcomes", "violations", "examples", "starved_decided", "undecided"),
)


def attention_keys(inputs: Inputs, frames: Mapping[str, int]) -> dict[str, Any] | None:
    """Returns the key `attention` of summary.json; None: the run has another service.

    Args:
        frames: `frames_by_type` of links between routers. Where not every link was captured, the counts of
            frames that routers received take its place.
    """
    judged = inputs.judgement
    if judged is None:
        return None
    if len({each.identity.link for each in inputs.captures if each.identity.kind == "link"}) < len(
        inputs.links
    ):
        frames = received(inputs.router_counters)
    return service_keys(judged, frames, overload(inputs.router_counters))


def service_keys(judged: Judgement, frames: Mapping[str, int], overload: int) -> dict[str, Any]:
    """Returns the key `attention` of summary.json.

    Args:
        judged: the oracle's answers about the run.
        frames: frames that crossed links, by type.
        overload: publications that came to a home in excess.
    """
    publications, flushes, subs, notifications = (
        frames.get(kind, 0) for kind in ("PUB", "FLUSH", "SUB", "OVERLOAD")
    )
    control, cbr = subs + notifications, judged["cbr_crossings"]
    outcomes, answers = judged["outcomes"], dict(judged)
    decided = sum(outcomes[each] for each in _DECIDED)
    return {
        "saved_bandwidth": _share(cbr - publications, cbr),
        "saved_with_flushes": _share(cbr - publications - flushes, cbr),
        "control_overhead": _share(control, judged["cbr_control"]),
        "starvation": _share(outcomes["starved"], decided),
        "satisfied": _share(outcomes["satisfied"], decided),
        "publication_crossings": publications,
        "control_crossings": control,
        "notification_crossings": notifications,
        "flush_crossings": flushes,
        "overload": overload,
        **{key: answers[key] for key in _COPIED},
    }


def attention_faults(found: Mapping[str, Any] | None) -> list[str]:
    """Returns the reasons for which a run of the service fails.

    Args:
        found: the key `attention` of summary.json.
    """
    if found is None:
        return []
    reasons = [
        f"{count} deliveries to subscriptions break the rule `{rule}`"
        for rule, count in found["violations"].items()
        if count
    ]
    if reasons:
        reasons[-1] += f"; first: {found['examples'][0]}"
    if found["starved_decided"] and found["undecided"] is None:
        reasons.append(
            f"{found['starved_decided']} subscriptions starved although no frame was dropped, no cache was "
            "full and the trees were stable"
        )
    return reasons


def overload(router_counters: Mapping[int, Mapping[str, Any]]) -> int:
    """Returns the publications that came to a home after its subscriptions were satisfied, or over."""
    return sum(counters.get("publications_overload", 0) for counters in router_counters.values())


def received(router_counters: Mapping[int, Mapping[str, Any]]) -> dict[str, int]:
    """Returns the frames that routers received, by type."""
    totals: Counter[str] = Counter()
    for counters in router_counters.values():
        totals.update(counters["frames_received"])
    return totals


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
