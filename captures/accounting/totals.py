"""The keys of summary.json that come from logs and counters alone."""

from __future__ import annotations

from typing import Any

from captures.accounting.inputs import Inputs


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
    }
