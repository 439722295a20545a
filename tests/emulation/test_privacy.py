"""A private emulation: routers deliver what members keep, and no frame has a name or a value."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from captures.rundir.layout import RunLayout
from tests.support.applications import application_events
from tests.support.command import Cbcb
from tests.support.plaintext import captured_bytes, plain_forms

pytestmark = pytest.mark.emulation


def test_the_verdict_holds_and_captures_have_no_plaintext(cbcb: Callable[..., Cbcb], tmp_path: Path) -> None:
    chosen = ("--set", "privacy.mode=bloom", "--set", "duration_s=120")
    status, printed = cbcb("run", "ring5", *chosen).wait()
    assert status == 0, printed
    (manifest,) = tmp_path.glob("*/manifest.json")
    run = RunLayout(manifest.parent)
    summary = json.loads(run.summary.read_text())
    assert summary["verdict"] == "holds"
    assert summary["deliveries_expected"] == summary["deliveries_made"] > 0
    assert summary["reconciliation"]["routers"]["differences"] == []
    events = application_events(manifest.parent)
    causes = {event["cause"] for event in events if event["event"] == "discard"}
    assert causes <= {"operator", "hash", "stale"}
    exact = plain_forms(events)
    captured = captured_bytes(run)
    assert exact
    assert not [form for form in exact if form in captured]
    # The recordings repeat what the routers did.
    status, printed = cbcb("replay", str(manifest.parent)).wait()
    assert status == 0, printed
