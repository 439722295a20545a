"""Keys of the summary about frames on links: by captures, or of links without any by the counters of routers.

A simulation of a large network may keep the captures of links between routers only, or none.

The key `attention` says what bandwidth the service saved, its control traffic and its starvation (section 5).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from captures.accounting.inputs import Inputs
from captures.accounting.reconcile import Total
from captures.frames.columns import TYPES, type_of
from captures.rundir.oracle import Judgement

CONTROL_TYPES = ("RA", "SR", "UR")
_COUNTERS = ("messages_received", "messages_sent", "messages_unmatched", "messages_unwanted")

#: Frames that come from the controller, not from a neighbour.
_OF_THE_CONTROLLER = ("TABLE", "COMMIT")


def frames_by_type(totals: Iterable[Total]) -> dict[str, Any]:
    """Frames and bytes by type, on links and on host links; the share of control frames on links."""
    places = {"link": "", "host": "_host_links"}
    by = {
        f"{what}_by_type{where}": Counter[str]() for what in ("frames", "bytes") for where in places.values()
    }
    captured = undecodable = 0
    for row in totals:
        if (where := places.get(row.kind)) is not None:
            by[f"frames_by_type{where}"][row.type] += row.frames
            by[f"bytes_by_type{where}"][row.type] += row.bytes
        captured += row.frames
        undecodable += row.undecodable
    return {
        **{key: every_type(counts, key.endswith("host_links")) for key, counts in by.items()},
        "frames_captured": captured,
        "frames_undecodable": undecodable,
        "control_share": control_share(by["frames_by_type"]),
    }


def control_share(on_links: Mapping[str, int]) -> float | None:
    """Returns the share of control frames among frames on links, by their types; None: no frame."""
    control = sum(on_links.get(kind, 0) for kind in CONTROL_TYPES)
    protocol = control + on_links.get("MSG", 0)
    return control / protocol if protocol else None


def every_type(counts: Mapping[str, int], host_links: bool) -> dict[str, int]:
    """Returns counts by type, 0 for types without frames.

    Frames of the controller cross host links alone.
    """
    usual = TYPES.values() if host_links else ["MSG", *CONTROL_TYPES]
    return {kind: counts.get(kind, 0) for kind in sorted({*usual, *(k for k, n in counts.items() if n)})}


def processed_by_counters(routers: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """False positives, and the messages of which they are a part, from the routers' own counters.

    Where all host links were captured, their captures give the same numbers.
    """

    total: Counter[str] = Counter()
    for counters in routers:
        total.update({name: int(counters.get(name, 0)) for name in _COUNTERS})
    return {
        "false_positives": total["messages_unwanted"] + total["messages_unmatched"],
        "messages_received_by_routers": total["messages_received"] + total["messages_sent"],
        "false_positives_from_network": total["messages_unwanted"],
        "messages_received_from_network": total["messages_received"],
    }


def frames_by_counters(routers: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the keys about frames on links where no link was captured: the frames from neighbours.

    A frame that a link lost is in no counter. The counters have no bytes by type.
    """
    frames: Counter[str] = Counter()
    for counters in routers:
        for kind, count in counters["frames_received"].items():
            if kind not in _OF_THE_CONTROLLER:
                frames[type_of(kind)] += count
    return {
        "frames_by_type": every_type(frames, host_links=False),
        "bytes_by_type": {},
        "control_share": control_share(frames),
    }


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
    if len(inputs.captured_links) < len(inputs.topology.links):
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
