"""`cbcb pub` and `cbcb sub` against a running emulation, accounted for like any other application."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.emulation.conftest import Cbcb, poll

pytestmark = pytest.mark.emulation


def test_a_published_message_reaches_the_subscriber(cbcb: Callable[..., Cbcb], tmp_path: Path) -> None:
    experiment = tmp_path / "quiet.toml"
    experiment.write_text(
        'duration_s = 1\n[topology]\ngenerator = "ring"\nnodes = 5\n[oracle]\nin_flight_window_s = 0.05\n'
    )
    run = cbcb("run", str(experiment), "--hold")
    state = run.state()
    log = Path(state["run_dir"]) / "logs" / "applications.jsonl"
    poll(lambda: log.exists() or None, 60, "the emulation plays")

    subscriber = cbcb("sub", "3", 'dest = "ORD" and price < 400', "--count", "2", "--timeout-s", "30")

    def subscribed() -> bool | None:
        return True if any('"set_predicate"' in line for line in log.read_text().splitlines()) else None

    poll(subscribed, 30, "the predicate is set")

    def delivered() -> str | None:
        # The advertisement travels while we publish: publish until two messages have arrived.
        status, printed = cbcb("pub", "r0", 'dest = "ORD", price = 300').wait()
        assert status == 0, printed
        return "yes" if subscriber.process.poll() is not None else None

    poll(delivered, 30, "the messages arrive")
    status, printed = subscriber.wait()
    assert status == 0, printed
    assert printed.startswith("0/")
    assert 'dest = "ORD"' in printed

    run.interrupt()
    status, output = run.wait()
    assert status == 0, output
    summary = json.loads(next(tmp_path.glob("*-quiet/summary.json")).read_text())
    assert summary["messages_sent"] >= 2
    assert summary["deliveries_made"] >= 2


def test_no_emulation_is_said_clearly(cbcb: Callable[..., Cbcb]) -> None:
    status, output = cbcb("pub", "0", "a = 1", "--run", "zzz").wait()
    assert status == 2
    assert output.strip() == "cbcb: no live run zzz"
