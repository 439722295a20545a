"""`cbcb pub` and `cbcb sub` against a running emulation, accounted for like any other application."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.applications import application_events
from tests.support.command import Cbcb, Held, output_of
from tests.support.polling import TIMEOUT, poll

pytestmark = pytest.mark.emulation


def test_a_published_message_reaches_the_subscriber(
    cbcb: Callable[..., Cbcb], held: Callable[..., Held]
) -> None:
    run = held("ring,5")
    timeout = ("--timeout-s", "200")
    run_dir = run.folder.path

    subscriber = cbcb("sub", "3", 'dest = "ORD" and price < 400', 'gate = "B7"', "--count", "2", *timeout)
    doomed = cbcb("sub", "1", 'dest = "ORD"', "--app", "doomed", *timeout)

    def subscribed() -> bool | None:
        return True if [e["event"] for e in application_events(run_dir)].count("subscribe") == 3 else None

    poll(subscribed, TIMEOUT, "the predicates are set")

    def delivered() -> str | None:
        # The advertisement travels while we publish: publish until two messages have arrived.
        output_of("pub", "r0", 'dest = "ORD", price = 300')
        return "yes" if subscriber.process.poll() is not None else None

    poll(delivered, 120, "the messages arrive")
    printed = subscriber.ends()
    first, *_, last = printed.splitlines()
    assert first.startswith("cbcb: run ")
    assert last.startswith("0:")
    assert 'dest = "ORD"' in printed

    # It can tell nobody that it no longer wants anything.
    doomed.kill()
    doomed.wait()

    def left() -> list[dict[str, Any]]:
        return [e for e in application_events(run_dir) if (e["app"], e["event"]) == ("doomed", "disconnect")]

    poll(lambda: left() or None, TIMEOUT, "the router notices")
    left_ns = time.time_ns()

    def later() -> bool | None:
        # Longer than the oracle's window.
        return True if time.time_ns() > left_ns + 200_000_000 else None

    poll(later, TIMEOUT, "a while passes")
    for _ in range(3):
        output_of("pub", "0", 'dest = "ORD", price = 500')

    summary = run.end()
    assert summary["messages_sent"] >= 5
    assert summary["deliveries_made"] >= 2
    assert [line["node"] for line in left()] == [1]
    judged = [json.loads(line) for line in run.folder.oracle.read_text().splitlines()]
    assert not [line for line in judged if line["app"] == "doomed" and line["sent_ns"] > left_ns]
    assert "Replay: 5 routers" in output_of("replay", str(run_dir))


def test_no_emulation_is_said_clearly(cbcb: Callable[..., Cbcb]) -> None:
    status, output = cbcb("pub", "0", "a = 1", "--run", "zzz").wait()
    assert status == 2
    assert output.strip() == "cbcb: no live run zzz"
