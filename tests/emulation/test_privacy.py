"""A private emulation: routers deliver what members keep, no frame has a name or a value, and tools work."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from captures.rundir.layout import RunLayout
from tests.support.applications import application_events
from tests.support.command import Cbcb
from tests.support.plaintext import captured_bytes, plain_forms
from tests.support.polling import poll

pytestmark = pytest.mark.emulation


def test_a_private_run_with_members_from_outside(cbcb: Callable[..., Cbcb]) -> None:
    chosen = ("--set", "privacy.mode=bloom", "--set", "duration_s=120")
    running = cbcb("run", "ring5", *chosen)
    run = RunLayout(Path(running.state()["run_dir"]))
    poll(lambda: True if _log_has(run, '"committed"') else None, 60, "the emulation plays")

    # Members that are no part of the workload, with the keys of the run.
    key = ("--key-file", str(run.keys))
    wanted = 'product = "extension lead" and amount > 123456'
    subscriber = cbcb("sub", "3", wanted, "--count", "1", *key, "--timeout-s", "60")
    poll(
        lambda: True if any(e["app"].startswith("sub-") for e in application_events(run.path)) else None,
        30,
        "the predicate is set",
    )

    def received() -> bool | None:
        status, printed = cbcb("pub", "0", 'product = "extension lead", amount = 123457', *key).wait()
        assert status == 0, printed
        return True if subscriber.process.poll() is not None else None

    poll(received, 60, "the message arrives")
    status, printed = subscriber.wait()
    assert status == 0, printed
    assert 'product = "extension lead"' in printed.splitlines()[-1]

    status, printed = running.wait()
    assert status == 0, printed
    summary = json.loads(run.summary.read_text())
    assert summary["verdict"] == "holds"
    # A message that came when the subscriber had left is expected and not decided.
    assert summary["false_negatives_after_convergence"] == 0 < summary["deliveries_made"]
    assert summary["reconciliation"]["routers"]["differences"] == []
    events = application_events(run.path)
    causes = {event["cause"] for event in events if event["event"] == "discard"}
    assert causes <= {"operator", "hash", "stale"}
    assert summary["private"]["discarded"].keys() == causes
    assert summary["private"]["kept"] == summary["deliveries_made"]
    exact = plain_forms(events)
    assert {b"extension lead", b"123457"} <= exact
    captured = captured_bytes(run)
    assert not [form for form in exact if form in captured]

    # What the other commands print where there is nothing to read.
    folder = str(run.path)
    status, printed = cbcb("replay", folder).wait()
    assert status == 0, printed
    status, printed = cbcb("trace", folder, "0:1").wait()
    assert status == 0, printed
    assert "encoded" in printed
    status, printed = cbcb(
        "query", folder, "select count(*) from private_deliveries where cause is null"
    ).wait()
    assert status == 0, printed
    assert str(summary["private"]["kept"]) in printed
    status, printed = cbcb("query", folder, "select distinct predicate from routing_tables").wait()
    assert status == 0, printed
    assert "encoded" in printed
    assert "Private matching" in run.report.read_text()
    status, printed = cbcb("attack", folder, "--json").wait()
    assert status == 0, printed
    rows = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    assert {row["attack"] for row in rows} == {"A1", "A2", "A3", "A4", "A5"}
    whole = {row["attack"]: row for row in rows}
    assert 0 < whole["A1"]["messages"] <= summary["messages_sent"]
    assert whole["A5"]["share"] > whole["A5"]["baseline"]


def _log_has(run: RunLayout, text: str) -> bool:
    return run.controller_log.exists() and text in run.controller_log.read_text()
