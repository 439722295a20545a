"""The keys of summary.json, their units and meaning, and the verdict on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_FRAMES = "Ethernet frames, each fragment one"
#: Key -> (unit, meaning). docs/summary.md is made from it (`document`).
SUMMARY_KEYS: dict[str, tuple[str, str]] = {
    "experiment": ("text", "name of the experiment"),
    "routers": ("count", "routers (nodes) of the topology"),
    "links": ("count", "links between routers"),
    "duration_s": ("experiment seconds", "length of the experiment"),
    "time_scale": ("1", "experiment seconds per wall second"),
    "datapath": ("text", "switch datapath: `kernel` or `user`; `simulated` of a simulation"),
    "bring_up_s": ("wall seconds", "from the start of the run until every router could originate"),
    "run_s": ("wall seconds", "from the first predicate set until the network was quiet again"),
    "teardown_s": ("wall seconds", "to take the emulated network down"),
    "workload_lateness_max_s": ("wall seconds", "by which the latest request was sent after its time"),
    "memory_per_router_bytes": (
        "bytes",
        "mean proportional set size of the router processes when the workload ends: shared pages count once",
    ),
    "accounting_s": ("wall seconds", "for the accounting, the start of Spark included"),
    "messages_sent": ("messages", "messages that applications sent and their routers took"),
    "messages_planned": ("messages", "messages that the workload asked for"),
    "deliveries_expected": (
        "deliveries",
        "pairs of message and application whose predicate, in force when the message was sent, selects it "
        "(the paper's instantaneous oracle), decided or not",
    ),
    "deliveries_made": ("deliveries", "distinct pairs of message and application that were delivered"),
    "deliveries_undecided": (
        "deliveries",
        "pairs that the oracle leaves open: a predicate change or link event lay too close to the sending",
    ),
    "deliveries_decided": (
        "deliveries",
        "expected, decided, and sent at or after convergence: what the verdict on missed deliveries rests on",
    ),
    "false_negatives": ("deliveries", "expected and not delivered, decided or not (paper, figure 11)"),
    "false_negatives_after_convergence": (
        "deliveries",
        "expected, decided, sent at or after convergence, and not delivered",
    ),
    "convergence_s": (
        "wall seconds",
        "from the request of the first predicate to the last frame, in any capture, of the first wave of "
        "RAs; the wave holds the RA with which each node answered its opening predicate (the workload's "
        "earliest). Later RAs, as after a link event, do not count. Null if no such RA was captured; then "
        "messages count as sent after convergence from the last confirmation of an opening predicate on",
    ),
    "epochs": ("count", "sets of broadcast trees that every router of the network came to use"),
    "recovery_s": (
        "list of objects",
        "one for each change of the network after its set-up: links, nodes or routers that failed or "
        "returned, as the controller saw them; those that one epoch answers are one change. `events`; "
        "`at_s`, experiment seconds; `epoch`, which answered it; `committed_s`, wall seconds from the first "
        "event until every router had the new trees; `advertised_s`, wall seconds to the last frame, in any "
        "capture, of the RAs that the epoch called for (of each node that had advertised in an earlier "
        "epoch, its first in this one). Null: it did not come to that",
    ),
    "spurious_deliveries": ("deliveries", "distinct pairs delivered, decided and not expected"),
    "duplicate_deliveries": ("deliveries", "deliveries of a pair beyond its first"),
    "delivery_delay": (
        "object, wall seconds",
        "from an application's request to send until the first delivery to an application, over the distinct "
        "pairs: `median_s`, `p90_s`, `p99_s`, `max_s`, `mean_s`; null without a delivery",
    ),
    "stretch": (
        "object, ratios",
        "path of a message to a router over the shortest one in the whole topology, over the routers that "
        "each message reached: `stretch_hops_mean`, `stretch_hops_max` in hops, `stretch_cost_mean`, "
        "`stretch_cost_max` in cost; null where no message crossed a link",
    ),
    "false_positives": (
        "messages",
        "messages that a router took, from a neighbour or its own applications, and neither forwarded to a "
        "neighbour nor delivered to an application, over all routers (paper, section 4.2, figure 12)",
    ),
    "messages_received_by_routers": (
        "messages",
        "messages that routers took, from neighbours and from their own applications: the whole of which "
        "false_positives is a part; a message counts once at each router",
    ),
    "false_positives_from_network": ("messages", "false positives among messages from neighbours"),
    "messages_received_from_network": ("messages", "messages that routers took from neighbours"),
    "control_share": (
        "fraction",
        "RA, SR and UR frames / MSG, RA, SR and UR frames, on links between routers; null without any",
    ),
    "frames_by_type": ("frames", f"{_FRAMES}, on links between routers: each transmission once"),
    "bytes_by_type": ("bytes", "bytes of these frames, Ethernet header included"),
    "frames_by_type_host_links": (
        "frames",
        f"{_FRAMES}, on the links between switches and their routers, the controller's frames included",
    ),
    "bytes_by_type_host_links": ("bytes", "bytes of these frames, Ethernet header included"),
    "frames_captured": ("frames", f"{_FRAMES}, in all captures"),
    "frames_undecodable": ("frames", "captured frames that do not decode"),
    "frames_repeated": (
        "frames",
        "MSG frames that had crossed the same link in the same direction before: evidence of a loop",
    ),
    "links_captured": ("links", "links between routers that were captured: frames on others are in no total"),
    "host_links_captured": (
        "links",
        "links between switches and their routers that were captured; where some were not, false positives "
        "are the routers' own counts",
    ),
    "capture_drops": ("frames", "frames that the kernel dropped before tcpdump read them"),
    "capture_defects": ("list of texts", "captures that end inside a record, and where"),
    "socket_drops": ("frames", "frames that the kernel dropped at the routers' sockets"),
    "router_send_drops": (
        "frames",
        "frames that routers gave up: too large to encode, or their send queue was full",
    ),
    "reconciliation": (
        "object",
        "`tshark`, `routers`, `ovs`: each with `expected` (frames by that source), `found` (frames by Spark) "
        "and `differences`, a list of `where`, `expected`, `found`",
    ),
    "verdict": ("text", "`holds` or `fails`"),
    "verdict_reasons": ("list of texts", "why it fails; empty if it holds"),
}

#: Keys that must be 0 -> what it means when they are not.
_MUST_BE_ZERO = {
    "false_negatives_after_convergence": "expected deliveries missed after convergence",
    "spurious_deliveries": "deliveries that nobody asked for",
    "duplicate_deliveries": "deliveries made more than once",
    "capture_drops": "frames dropped by the kernel before they were captured",
    "frames_undecodable": "captured frames that do not decode",
    "frames_repeated": "MSG frames that crossed a link twice in one direction",
    "socket_drops": "frames dropped at the routers' sockets",
    "router_send_drops": "frames that routers could not send",
}


def verdict(summary: Mapping[str, Any], uncaptured: Sequence[str] = ()) -> tuple[bool, list[str]]:
    """Whether the run is evidence that the network did what it should, and every reason why not.

    Args:
        uncaptured: links that should have a capture and have none: nothing was held against anything there.
    """
    reasons = [f"{summary[key]} {meaning}" for key, meaning in _MUST_BE_ZERO.items() if summary[key]]
    if uncaptured:
        reasons.append(f"{len(uncaptured)} links without a capture; first: {uncaptured[0]}")
    reasons += [f"capture cut short: {defect}" for defect in summary["capture_defects"]]
    for name, result in summary["reconciliation"].items():
        if result["differences"]:
            first = result["differences"][0]
            reasons.append(
                f"{name} and the captures differ in {len(result['differences'])} numbers; "
                f"first: {first['where']}: expected {first['expected']}, found {first['found']}"
            )
    if summary["deliveries_expected"] and not summary["deliveries_decided"]:
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
    if summary["messages_planned"] and not summary["messages_sent"]:
        reasons.append(f"none of {summary['messages_planned']} messages was sent")
    return not reasons, reasons


def document() -> str:
    """docs/summary.md."""
    lines = ["# Keys of summary.json", "", "| key | unit | meaning |", "|---|---|---|"]
    lines += [f"| `{key}` | {unit} | {meaning} |" for key, (unit, meaning) in SUMMARY_KEYS.items()]
    return "\n".join(lines) + "\n"
