"""The summary of a run from the numbers of an engine: evidence of other sources, and the verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from captures.accounting.attention import attention_keys
from captures.accounting.inputs import Inputs
from captures.accounting.lag import lag_keys
from captures.accounting.reconcile import (
    Total,
    reconcile_applications,
    reconcile_ovs,
    reconcile_routers,
    reconcile_tshark,
)
from captures.accounting.summary import SUMMARY_KEYS
from captures.accounting.totals import log_keys
from captures.accounting.uncaptured import captured_only, frames_by_counters
from captures.accounting.verdict import verdict
from captures.rundir.faults import killed_routers, lost_parts


def conclusion(
    inputs: Inputs,
    engine: str,
    totals: Sequence[Total],
    counted: Mapping[str, Any],
    unrecorded: Sequence[tuple[str, int]],
    damaged: Mapping[str, str],
    tshark: Mapping[str, int] | str,
) -> dict[str, Any]:
    """Returns the keys of summary.json but those of the runner and `accounting_s`, in the order of the file.

    Args:
        engine: that has counted: `spark` or `duckdb`.
        totals: of the captures.
        counted: the keys that the engine has made.
        unrecorded: captured messages that no router recorded, the first few: ISSUER/SEQ, captured frames.
        damaged: capture -> how its file ends inside a record.
        tshark: capture -> frames that tshark reads; or why it reads none.
    """
    routers, ports, links = captured_only(
        inputs.captures, inputs.router_counters, inputs.ovs_counters, inputs.links
    )
    # A router that was killed left no counters of what it did before.
    killed = {node for node, _ in killed_routers(inputs.faults)}
    counted_routers = {node: each for node, each in routers.items() if node not in killed}
    senders = {node: each for node, each in inputs.router_counters.items() if node not in killed}
    sent = Counter(node for node in inputs.log.sent["source"].to_pylist() if node not in killed)
    by_tshark = {}
    if not isinstance(tshark, str):
        by_tshark = {"tshark": reconcile_tshark(totals, tshark, inputs.captures)}
    summary = {
        **counted,
        **log_keys(inputs),
        **lag_keys(inputs.lag, inputs.clock),
        "links_captured": len(links),
        "host_links_captured": len(routers),
        "ip_frames": inputs.ip.on_links,
        "attention": attention_keys(inputs, counted["frames_by_type"]),
        "evidence_missing": inputs.evidence_missing,
        "capture_defects": [f"{name}: {defect}" for name, defect in damaged.items()],
        "reconciliation": {
            **by_tshark,
            "routers": reconcile_routers(
                [total for total in totals if total.node not in killed], counted_routers
            ),
            "ovs": reconcile_ovs(
                totals, inputs.ip.left_out(ports), links, inputs.lossy_links, inputs.ip.lost
            ),
            "applications": reconcile_applications(sent, senders, unrecorded),
        },
        "rests_on": {
            "engine": engine,
            "frames": _evidence(len(links), len(inputs.links)),
            "no_tshark": tshark if isinstance(tshark, str) else None,
        },
    }
    if inputs.links and not links:
        summary |= frames_by_counters(inputs.router_counters.values())
    summary["verdict"], summary["verdict_reasons"] = judged(inputs, summary)
    # In the order of docs/summary.md, which has every key.
    order = list(SUMMARY_KEYS)
    return dict(sorted(summary.items(), key=lambda item: order.index(item[0])))


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
