"""The keys of summary.json that come from logs and counters alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from captures.accounting.inputs import Inputs
from captures.rundir.controller import read_controller
from captures.rundir.layout import RunLayout

#: Reasons for which routers refuse authentic frames, of guard (`router.security.guard.Refusal`) and core.
_REPLAYS = frozenset({"replayed", "issuer_replayed"})


def log_keys(inputs: Inputs) -> dict[str, Any]:
    """Returns the keys that come from logs and counters alone."""
    counters = inputs.router_counters.values()
    refused = {f"router {node}": each.get("refused", {}) for node, each in inputs.router_counters.items()}
    refused["the controller"] = _refused_by_controller(inputs.run)
    return {
        "time_scale": inputs.time_scale,
        "messages_sent": inputs.log.sent.num_rows,
        "held": inputs.held,
        "messages_planned": sum(line["action"] == "send_message" for line in inputs.workload),
        "capture_drops": sum(capture.dropped_by_kernel for capture in inputs.captures),
        "records_lost": sum(counter.get("records_lost", 0) for counter in counters),
        "socket_drops": sum(counter.get("socket_drops", 0) for counter in counters),
        "router_send_drops": sum(
            counter.get("dropped", {}).get(reason, 0)
            for counter in counters
            for reason in ("unencodable", "send_queue_full")
        ),
        "frames_refused": _refused(refused, replays=False),
        "frames_replayed": _refused(refused, replays=True),
    }


def _refused_by_controller(run: RunLayout) -> Mapping[str, Mapping[str, int]]:
    refused: Mapping[str, Mapping[str, int]] = {}
    for _, event in read_controller(run):
        if event["event"] == "counters":
            refused = event.get("refused", refused)
    return refused


def _refused(counts: Mapping[str, Mapping[str, Mapping[str, int]]], replays: bool) -> list[str]:
    """A text for each receiver, sender and reason of frames that were not authentic, or of those that were
    and came before: links that duplicate frames make them, too."""
    return [
        f"{receiver} refused {frames} frames in the name of {_named(sender)}: {reason}"
        for receiver, senders in counts.items()
        for sender, reasons in senders.items()
        for reason, frames in reasons.items()
        if (reason in _REPLAYS) == replays
    ]


def _named(sender: str) -> str:
    return f"node {sender}" if sender.isdecimal() else sender
