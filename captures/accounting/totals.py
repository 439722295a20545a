"""The keys of summary.json that come from logs and counters alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from captures.accounting.inputs import Inputs
from captures.accounting.reconcile import SEND_DROPS
from captures.rundir.controller import Rejection
from captures.rundir.counters import SwitchDrops, read_switch_drops

#: Reason of a receiver -> the key that has its frames. Frames of all other reasons are not authentic.
_KEYS: dict[str, str] = {
    # Of guard (`router.security.guard.Refusal`) and core.
    "replayed": "frames_replayed",
    "issuer_replayed": "frames_replayed",
    # Of the controller.
    **dict.fromkeys(Rejection, "frames_rejected"),
}


def log_keys(inputs: Inputs) -> dict[str, Any]:
    """Returns the keys that come from logs and counters alone."""
    counters = inputs.router_counters.values()
    refused = {f"router {node}": each.get("refused", {}) for node, each in inputs.router_counters.items()}
    refused["the controller"] = _refused_by_controller(inputs)
    dropped = read_switch_drops(inputs.run)
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
            counter.get("dropped", {}).get(reason, 0) for counter in counters for reason in SEND_DROPS
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
    meanings = {
        "controller_source": "with the address of the controller",
        "no_rule": "that no rule forwards",
    }
    return [
        f"the switch of node {node} dropped {count} frames {meaning}"
        for node, drops in sorted(dropped.items())
        for reason, meaning in meanings.items()
        if (count := drops.get(reason, 0))
    ]


def _named(sender: str) -> str:
    return f"node {sender}" if sender.isdecimal() else sender
