"""A private emulation: routers deliver what members keep, and no frame has a name or a value."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from captures.rundir.layout import RunLayout
from tests.support.applications import application_events
from tests.support.command import PRIVATE_RING5, Cbcb, committed, elsewhere
from tests.support.plaintext import captured_bytes, plain_forms
from tests.support.polling import TIMEOUT, poll

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
    status, printed = cbcb("replay", str(copied)).wait()
    assert status == 0, printed


def test_members_from_outside_publish_and_subscribe_with_the_keys_of_the_run(
    cbcb: Callable[..., Cbcb], tmp_path: Path
) -> None:
    experiment = tmp_path / "private.toml"
    experiment.write_text(
        'duration_s = 1\n[topology]\ngenerator = "line"\nnodes = 3\n[privacy]\nmode = "bloom"\n'
        "[workload]\nmessages_per_minute = 1\n[oracle]\nin_flight_window_s = 0.05\n"
    )
    running = cbcb("run", str(experiment), "--hold", "--engine", "duckdb")
    state = running.state()
    run = RunLayout(Path(state["run_dir"]))
    poll(lambda: committed(run.path), 300, "the emulation plays")
    key = ("--run", state["tag"], "--key-file", str(run.keys))
    wanted = 'product = "extension lead" and amount > 123456'
    subscriber = cbcb("sub", "2", wanted, "--count", "1", "--app", "outside", *key, "--timeout-s", "200")
    doomed = cbcb("sub", "1", wanted, "--app", "doomed", *key)

    def recorded(app: str, event: str) -> int | None:
        times = [
            each["t_ns"]
            for each in application_events(run.path)
            if (each["app"], each["event"]) == (app, event)
        ]
        return times[0] if times else None

    for app in ("outside", "doomed"):
        poll(partial(recorded, app, "subscribe"), 300, "the subscription is recorded while the member runs")
    # It records nothing of its end, and gets none of the messages below.
    doomed.kill()
    doomed.wait()
    left_ns = poll(lambda: recorded("doomed", "disconnect"), TIMEOUT, "the router notices")
    # Longer than the oracle's window.
    poll(lambda: True if time.time_ns() > left_ns + 200_000_000 else None, TIMEOUT, "a while passes")

    def received() -> bool | None:
        # The advertisement travels while we publish.
        status, printed = cbcb("pub", "0", 'product = "extension lead", amount = 123457', *key).wait()
        assert status == 0, printed
        return True if subscriber.process.poll() is not None else None

    poll(received, 120, "the message arrives")
    status, printed = subscriber.wait()
    assert status == 0, printed
    assert 'product = "extension lead"' in printed.splitlines()[-1]

    running.interrupt()
    status, printed = running.wait()
    assert status == 0, printed
    summary = json.loads(run.summary.read_text())
    assert summary["verdict"] == "holds"
    assert summary["private"]["kept"] == summary["deliveries_made"] >= 1
    judged = [json.loads(line) for line in run.oracle.read_text().splitlines()]
    assert {line["app"] for line in judged if line["sent_ns"] > left_ns} == {"outside"}
    events = application_events(run.path)
    exact = plain_forms(events)
    assert {b"extension lead", b"123457"} <= exact
    captured = captured_bytes(run)
    assert not [form for form in exact if form in captured]
