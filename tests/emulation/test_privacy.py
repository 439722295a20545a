"""A private emulation: routers deliver what members keep, and no frame has a name or a value."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from captures.rundir import RunLayout
from tests.support.applications import application_events
from tests.support.command import PRIVATE_RING5, Cbcb, Held, elsewhere, output_of
from tests.support.plaintext import captured_bytes, plain_forms
from tests.support.polling import poll

pytestmark = pytest.mark.emulation


def test_the_verdict_holds_and_captures_have_no_plaintext(
    cbcb: Callable[..., Cbcb], emulated: Callable[..., Path], tmp_path: Path
) -> None:
    run = RunLayout(emulated(*PRIVATE_RING5))
    summary = json.loads(run.summary.read_text())
    assert summary["verdict"] == "holds"
    assert summary["deliveries_expected"] == summary["deliveries_made"] > 0
    assert summary["reconciliation"]["routers"]["differences"] == []
    events = application_events(run.path)
    causes = {event["cause"] for event in events if event["event"] == "discard"}
    assert causes <= {"operator", "hash", "stale"}
    exact = plain_forms(events)
    captured = captured_bytes(run)
    assert exact
    assert not [form for form in exact if form in captured]
    # The recordings repeat what the routers did, where there are no private keys.
    copied = elsewhere(cbcb, run, tmp_path)
    assert not list(copied.rglob("*keys.json")) + list(copied.rglob("*.key"))
    output_of("replay", str(copied))


def test_members_from_outside_publish_and_subscribe_with_the_keys_of_the_run(
    cbcb: Callable[..., Cbcb], held: Callable[..., Held]
) -> None:
    running = held("line,3", more='[privacy]\nmode = "bloom"\n[workload]\nmessages_per_minute = 1\n')
    run = running.folder
    key = ("--run", running.tag, "--key-file", str(run.keys))
    wanted = 'product = "extension lead" and amount > 123456'
    subscriber = cbcb("sub", "2", wanted, "--count", "1", "--app", "outside", *key, "--timeout-s", "200")

    def subscribed() -> bool | None:
        events = application_events(run.path)
        return any((each["app"], each["event"]) == ("outside", "subscribe") for each in events) or None

    poll(subscribed, 300, "the subscription is recorded while the member runs")

    def received() -> bool | None:
        # The advertisement travels while we publish.
        output_of("pub", "0", 'product = "extension lead", amount = 123457', *key)
        return True if subscriber.process.poll() is not None else None

    poll(received, 120, "the message arrives")
    printed = subscriber.ends()
    assert 'product = "extension lead"' in printed.splitlines()[-1]

    summary = running.end()
    assert summary["private"]["kept"] == summary["deliveries_made"] >= 1
    exact = plain_forms(application_events(run.path))
    assert {b"extension lead", b"123457"} <= exact
    captured = captured_bytes(run)
    assert not [form for form in exact if form in captured]
