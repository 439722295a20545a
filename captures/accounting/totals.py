"""The keys of summary.json that come from logs and counters alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from captures.accounting.inputs import Inputs

#: Reasons for which routers refuse authentic frames (`router.security.guard.Refusal`).
_REPLAYS = frozenset({"replayed"})


def log_keys(inputs: Inputs) -> dict[str, Any]:
    """Returns the keys that come from logs and counters alone."""
    counters = inputs.router_counters.values()
    return {
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
        "frames_refused": _refused(inputs.router_counters, replays=False),
        "frames_replayed": _refused(inputs.router_counters, replays=True),
    }


def _refused(counters: Mapping[int, Mapping[str, Any]], replays: bool) -> list[str]:
    """A text for each router, sender and reason of frames that were not authentic, or of those that were and
    came before: links that duplicate frames make them, too."""
    return [
        f"router {node} refused {frames} frames in the name of {_named(sender)}: {reason}"
        for node, counter in sorted(counters.items())
        for sender, reasons in counter.get("refused", {}).items()
        for reason, frames in reasons.items()
        if (reason in _REPLAYS) == replays
    ]


def _named(sender: str) -> str:
    return f"node {sender}" if sender.isdecimal() else sender
