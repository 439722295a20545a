"""The programs in examples/ on one emulated network, and the accounting of all that they did."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable

import pytest

from tests.support.applications import application_events
from tests.support.command import Held
from tests.support.paths import ROOT

pytestmark = pytest.mark.emulation

#: Example -> what it prints. The applications' order of arrival is not fixed; what they agree on is.
EXAMPLES = {
    "sensors.py": [
        "5 readings",
        'quantity = "temperature" and celsius > 23.0: [24.0, 31.5]',
        'quantity = "temperature" and room = "lab": [18.5, 24.0]',
    ],
    "monitoring.py": [
        "severity above 6: [('agent-0', 7), ('agent-0', 9), ('agent-1', 7), ('agent-1', 9)]",
        "severity above 8: [('agent-0', 9), ('agent-1', 9)]",
    ],
}
#: Application of the auction -> its subscriptions, messages and deliveries: 7 prices of the seller, those of
#: which within its limit a bidder gets, and 11 bids.
AUCTION = {"seller": (1, 7, 11), "bidder-0": (1, 2, 4), "bidder-1": (1, 4, 7), "bidder-2": (1, 5, 5)}
#: Keys that count deliveries that are missing, doubtful or too many.
_FAULTS = ("false_negatives", "deliveries_undecided", "spurious_deliveries", "duplicate_deliveries")


def _run(name: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, f"examples/{name}"],
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.splitlines()


def test_the_examples_work_and_are_accounted_for(held: Callable[..., Held]) -> None:
    run = held("ring,5")
    for name, expected in EXAMPLES.items():
        assert _run(name) == expected
    # Who leads at which price depends on who is faster; the bidder with the greatest limit wins.
    *bids, sold = _run("auction.py")
    assert sold.startswith("sold to bidder-1 for 2")
    assert all(line.startswith("bidder-") for line in bids)

    summary = run.end()
    assert summary["messages_sent"] >= 5 + 2 * 2 * 6 + len(bids)
    assert summary["deliveries_decided"] > 0


def test_the_auction_is_accounted_for_with_and_without_the_log_of_the_library(
    held: Callable[..., Held],
) -> None:
    """Without keys the routers record requests and deliveries; with keys the library does, by itself."""
    accounts = []
    for mode in ("off", "bloom"):
        run = held("ring,5", "--set", f"privacy.mode={mode}")
        printed = _run("auction.py")
        summary = run.end()
        made = Counter(
            (event["app"], event["event"])
            for event in application_events(run.folder.path)
            if event["event"] in ("subscribe", "send_message", "deliver")
        )
        logs = [path.read_text() for path in run.folder.applications_folder.glob("member-*.jsonl")]
        assert sum(log.count('"deliver"') for log in logs) == (summary["deliveries_made"] if logs else 0)
        assert bool(logs) == (mode == "bloom")
        assert summary["reconciliation"]["applications"]["differences"] == []
        keys = ("messages_sent", "deliveries_expected", "deliveries_made", *_FAULTS)
        accounts.append((printed, made, {key: summary[key] for key in keys}))
    without, with_log = accounts
    assert without == with_log
    _, made, counted = without
    assert counted["deliveries_expected"] == counted["deliveries_made"] > 0
    assert {counted[key] for key in _FAULTS} == {0}
    events = ("subscribe", "send_message", "deliver")
    assert {app: tuple(made[app, event] for event in events) for app, _ in made} == AUCTION
    assert counted["messages_sent"] == sum(messages for _, messages, _ in AUCTION.values())
    assert counted["deliveries_made"] == sum(deliveries for _, _, deliveries in AUCTION.values())
