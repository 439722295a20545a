"""The summary of a run from the numbers of an engine: evidence of other sources, and the verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from captures.accounting import reconcile
from captures.accounting.contradictions import Suspicious, contradictions
from captures.accounting.inputs import Inputs
from captures.accounting.recorded import recorded_and_counted, under_way
from captures.accounting.traffic import (
    attention_keys,
    frames_by_counters,
    frames_by_type,
    processed_by_counters,
)
from captures.accounting.verdict import lag_keys, verdict
from captures.rundir.clock import Clock
from captures.rundir.controller import Rejection
from captures.rundir.epochs import Change
from captures.rundir.faults import killed_routers, lost_parts
from captures.rundir.inputs import clock_error_s
from captures.rundir.measures import DROPS, SwitchDrops
from captures.rundir.summary import SUMMARY_KEYS
from router.wire.header import HOST_PORT

#: Rows of a text, by its name.
Answers = Mapping[str, Sequence[Mapping[str, Any]]]
#: The texts whose rows the summary needs.
ANSWERS = (
    *("capture_totals", "outcome_totals", "processed_totals", "delivery_delay", "stretch", "frames_repeated"),
    *("message_crossings", "excess_crossings", "private_crossings", "state", "convergence"),
    *("advertised_again", "suspicious"),
)
#: Messages that no router recorded and that differences name.
_NAMED = 5
#: The causes of discarding whose share is a key.
_CAUSES = ("operator", "hash")


#: Reason of a receiver -> the key that has its frames. Frames of all other reasons are not authentic.
_KEYS: dict[str, str] = {
    # Of guard (`router.security.guard.Refusal`) and core.
    "replayed": "frames_replayed",
    "issuer_replayed": "frames_replayed",
    # Of the controller.
    **dict.fromkeys(Rejection, "frames_rejected"),
}


def conclusion(
    engine: str, inputs: Inputs, answers: Answers, tshark: Mapping[str, int] | str
) -> dict[str, Any]:
    """Returns the keys of summary.json but those of the runner and `accounting_s`, in the order of the file.

    Args:
        engine: that has counted: `spark` or `duckdb`.
        answers: the rows of the texts `ANSWERS`.
        tshark: capture -> frames that tshark's reader finds; or why it reads none.
    """
    totals = [reconcile.Total(**row) for row in answers["capture_totals"]]
    messages = [Suspicious(**row) for row in answers["suspicious"]]
    counted = _counted(inputs, answers, totals)
    links = inputs.captured_links
    routers = {node: each for node, each in inputs.router_counters.items() if node in inputs.captured_nodes}
    # A router that was killed left no counters of what it did before.
    killed = {node for node, _ in killed_routers(inputs.faults)}
    counted_routers = {node: each for node, each in routers.items() if node not in killed}
    by_tshark = {} if isinstance(tshark, str) else {"tshark": reconcile.of_files("tshark", tshark, totals)}
    # The tunnel has carried what a capture at its end has lost.
    incomplete = {each.identity.link for each in inputs.captures if each.dropped_by_kernel}
    compared = [link for link in inputs.cut if link.index not in incomplete]
    of_cut = (totals, compared, inputs.disturbed, inputs.ip.at_ports, inputs.ip.lost)
    by_tunnels = {"tunnel": reconcile.reconcile_tunnels(*of_cut)} if inputs.cut else {}
    by_routers = reconcile.reconcile_routers(
        [total for total in totals if total.node not in killed],
        counted_routers,
        split=inputs.message_frames != "one",
    )
    several = inputs.doubling or inputs.message_frames == "copies"
    if inputs.all_hosts_captured and not (killed or several or inputs.private):
        by_routers["differences"] += reconcile.of_all_routers(
            counted, inputs.router_counters.values(), sum(under_way(inputs).values())
        )
    unrecorded = [each for each in messages if each.unrecorded]
    summary = {
        **counted,
        **log_keys(inputs),
        **lag_keys(inputs.lag, inputs.clock),
        "clock_error_s": clock_error_s(inputs.manifest),
        "lasted_s": None if inputs.last_s is None else round(inputs.last_s, 3),
        "in_flight_window_s": inputs.experiment.get("oracle", {}).get("in_flight_window_s"),
        "links_captured": len(links),
        "host_links_captured": len(routers),
        "ip_frames": inputs.ip.on_links,
        "attention": attention_keys(inputs, counted["frames_by_type"]),
        "messages_unrecorded": unrecorded[0].alike if unrecorded else 0,
        "contradictions": contradictions(inputs, messages, totals),
        "evidence_missing": inputs.evidence_missing,
        "capture_defects": [f"{name}: {defect}" for name, defect in inputs.damaged.items()],
        "reconciliation": {
            **by_tshark,
            "captures": reconcile.reconcile_captures(totals, inputs.captures),
            **by_tunnels,
            "routers": by_routers,
            "ovs": reconcile.reconcile_ovs(
                *(totals, inputs.ip.left_out(_captured_ports(inputs)), links, inputs.lossy_links),
                *(inputs.ip.lost, inputs.cut),
                calm=inputs.calm,
            ),
            "applications": reconcile.reconcile_applications(
                *recorded_and_counted(inputs), [(each.name, each.frames) for each in unrecorded[:_NAMED]]
            ),
        },
        "rests_on": {
            "engine": engine,
            "frames": _evidence(len(links), len(inputs.topology.links)),
            "no_tshark": tshark if isinstance(tshark, str) else None,
        },
    }
    if inputs.topology.links and not links:
        summary |= frames_by_counters(inputs.router_counters.values())
    summary["verdict"], summary["verdict_reasons"] = judged(inputs, summary)
    # In the order of docs/reference/summary.md, which has every key.
    order = list(SUMMARY_KEYS)
    return dict(sorted(summary.items(), key=lambda item: order.index(item[0])))


def _captured_ports(inputs: Inputs) -> dict[int, dict[int, dict[str, int]]]:
    """Returns the counters of the switch ports that have a capture."""
    ports = {(node, HOST_PORT) for node in inputs.captured_nodes}
    for link in inputs.captured_links:
        ports |= {(link.u, link.u_port), (link.v, link.v_port)}
    return {
        node: {port: counters for port, counters in own.items() if (node, port) in ports}
        for node, own in inputs.ovs_counters.items()
    }


def _counted(inputs: Inputs, answers: Answers, totals: Sequence[reconcile.Total]) -> dict[str, Any]:
    """Returns the keys that are counted in frames and deliveries."""
    (convergence,), advertised = answers["convergence"], answers["advertised_again"]
    return {
        **frames_by_type(totals),
        **answers["outcome_totals"][0],
        **(
            answers["processed_totals"][0]
            if inputs.all_hosts_captured
            else processed_by_counters(inputs.router_counters.values())
        ),
        **answers["frames_repeated"][0],
        **answers["excess_crossings"][0],
        **{name: answers[name][0] for name in ("delivery_delay", "stretch", "message_crossings", "state")},
        "convergence_s": convergence["convergence_s"],
        "epochs": inputs.epochs.committed,
        "recovery_s": recovery(
            inputs.epochs.changes, {row["epoch"]: row["last_ns"] for row in advertised}, inputs.clock
        ),
        "private": private_keys(inputs, answers["private_crossings"][0]) if inputs.private else None,
    }


def judged(
    inputs: Inputs, summary: Mapping[str, Any], expected: Collection[str] = ()
) -> tuple[str, list[str]]:
    """Returns the verdict on a run, and its reasons.

    Args:
        summary: the keys of summary.json that the accounting gives.
        expected: keys that may be above 0 (`captures.accounting.verdict.verdict`).
    """
    lost = lost_parts(inputs.faults)
    return verdict(summary, inputs.uncaptured, lost, doubling=inputs.doubling, expected=expected)


def _evidence(captured: int, links: int) -> str:
    if captured == links:
        return "captures"
    return f"captures of {captured} of {links} links" if captured else "counters of routers"


def recovery(
    changes: Iterable[Change], advertised_ns: Mapping[int, int], clock: Clock
) -> list[dict[str, Any]]:
    """The key recovery_s of summary.json.

    Args:
        advertised_ns: epoch -> `last_ns` of the text `advertised_again`.
    """

    def since(change: Change, end_ns: int | None) -> float | None:
        return None if end_ns is None else (end_ns - change.began_ns) / 1e9

    return [
        {
            "events": change.events,
            "at_s": clock.experiment_at(change.began_ns),
            "epoch": change.epoch,
            "committed_s": since(change, change.committed_ns),
            "advertised_s": since(change, None if change.epoch is None else advertised_ns.get(change.epoch)),
        }
        for change in changes
    ]


def log_keys(inputs: Inputs) -> dict[str, Any]:
    """Returns the keys that come from logs and counters alone."""
    counters = inputs.router_counters.values()
    refused = {f"router {node}": each.get("refused", {}) for node, each in inputs.router_counters.items()}
    refused["the controller"] = _refused_by_controller(inputs)
    dropped = DROPS.read(inputs.run)
    return {
        "time_scale": inputs.time_scale,
        "messages_sent": inputs.log.sent.num_rows,
        "held": inputs.held,
        "messages_planned": sum(line["action"] == "send_message" for line in inputs.workload),
        "capture_drops": sum(capture.dropped_by_kernel for capture in inputs.captures),
        "records_lost": sum(counter.get("records_lost", 0) for counter in counters),
        "socket_drops": sum(counter.get("socket_drops", 0) for counter in counters),
        "switch_drops": sum(
            drops.get("no_room", 0) + drops.get("lost_upcalls", 0) for drops in dropped.values()
        ),
        "router_send_drops": sum(
            counter.get("dropped", {}).get(reason, 0)
            for counter in counters
            for reason in reconcile.SEND_DROPS
        ),
        **_refused(refused),
        "frames_dropped_by_switches": _dropped_by_rules(dropped),
    }


def _refused_by_controller(inputs: Inputs) -> dict[str, Counter[str]]:
    """The counts of all controllers of a run, one after the other; one that was killed has left none."""
    refused: dict[str, Counter[str]] = {}
    for event in inputs.controller:
        if event["event"] == "counters":
            for sender, reasons in event.get("refused", {}).items():
                refused.setdefault(sender, Counter()).update(reasons)
    return refused


def _refused(counts: Mapping[str, Mapping[str, Mapping[str, int]]]) -> dict[str, list[str]]:
    """A text for each receiver, sender and reason, in the key of the reason."""
    texts: dict[str, list[str]] = {"frames_refused": [], "frames_replayed": [], "frames_rejected": []}
    for receiver, senders in counts.items():
        for sender, reasons in senders.items():
            for reason, frames in reasons.items():
                text = f"{receiver} refused {frames} frames in the name of {_named(sender)}: {reason}"
                texts[_KEYS.get(reason, "frames_refused")].append(text)
    return texts


def _dropped_by_rules(dropped: Mapping[int, SwitchDrops]) -> list[str]:
    """A text for each switch and reason of frames that its rules dropped."""
    meanings = {"controller_source": "with the address of the controller", "no_rule": "that no rule forwards"}
    return [
        f"the switch of node {node} dropped {count} frames {meaning}"
        for node, drops in sorted(dropped.items())
        for reason, meaning in meanings.items()
        if (count := drops.get(reason, 0))
    ]


def _named(sender: str) -> str:
    return f"node {sender}" if sender.isdecimal() else sender


def private_keys(inputs: Inputs, crossings: Mapping[str, int]) -> dict[str, Any]:
    """Returns the key `private` of summary.json for a private run: the precision of private matching.

    A router delivers what matches the encoding. The member opens a message, evaluates its exact predicate,
    and discards the rest by cause (`router.privacy.member.Discard`). A message crosses a link for a cause if
    the link leads to a member that discarded the message for it, on the broadcast tree of the source, and to
    none that kept it.

    Args:
        crossings: the row of the text `private_crossings`.
    """
    kept, causes = inputs.log.deliveries.num_rows, Counter(inputs.log.discarded["discard_cause"].to_pylist())
    delivered = kept + causes.total()
    # A simulation may keep no capture of a link: what crossed links is not known then.
    known = bool(inputs.captured_links) or not inputs.topology.links
    return {
        "delivered": delivered,
        "kept": kept,
        "discarded": dict(sorted(causes.items())),
        "precision": kept / delivered if delivered else None,
        **{f"{cause}_share": causes[cause] / delivered if delivered else None for cause in _CAUSES},
        "crossings": dict(crossings) if known else None,
        "unwanted_crossings": sum(crossings.values()) - crossings["kept"] if known else None,
    }
