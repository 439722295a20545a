"""The logs of the controller and of the clock: epochs, the changes that they answer, recovery, rates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from captures.accounting.conclusion import recovery
from captures.accounting.texts import double
from captures.rundir import RunLayout
from captures.rundir.clock import CLOCK, Clock, ClockPiece, read_clock
from captures.rundir.epochs import Change, epochs
from router.clock import NS, Piece
from tests.support.texts import answer, frames_of, rows_of

STARTED: dict[str, Any] = {"event": "epoch_started", "down_links": [], "down_nodes": []}
LINK_DOWN = {"event": "link_down", "link": 7, "u": 0, "v": 1}
NODE_DOWN = {"event": "node_down", "node": 4}


def committed(epoch: int) -> dict[str, Any]:
    return {"event": "committed", "epoch": epoch}


def log(*events: dict[str, Any]) -> list[dict[str, Any]]:
    """The events, one a nanosecond, after the set-up in nanoseconds 0 and 1."""
    return [{"t_ns": at, **event} for at, event in enumerate([STARTED, committed(1), *events])]


def test_an_epoch_answers_what_came_before_it() -> None:
    found = epochs(log(LINK_DOWN, NODE_DOWN, STARTED, committed(2), STARTED, committed(3), NODE_DOWN))
    assert found.committed == 3
    assert found.changes == [
        Change(["link_down 0-1", "node_down 4"], 2, 2, 5),
        Change([], 6, 3, 7),
        Change(["node_down 4"], 8),
    ]
    assert not found.settled


def test_what_comes_during_an_epoch_waits_for_the_next() -> None:
    events = log(LINK_DOWN, STARTED, NODE_DOWN, committed(2), STARTED, committed(3))
    assert not epochs(events[:-2]).settled
    assert epochs(events).changes == [Change(["link_down 0-1", "node_down 4"], 2, 3, 7)]
    assert epochs(events).settled


def test_set_up_is_no_change_but_a_restart_is() -> None:
    first = {"event": "hello", "node": 3, "restarted": False}
    again = {"event": "hello", "node": 3, "restarted": True}
    assert epochs([{"t_ns": 0, **LINK_DOWN}, *log(first)]).changes == []
    assert epochs(log(again, STARTED, committed(2))).changes == [Change(["restart 3"], 2, 2, 4)]
    assert not epochs([{"t_ns": 0, **STARTED}]).settled


def test_what_comes_during_the_set_up_is_answered_after_it() -> None:
    events = [{"t_ns": at, **event} for at, event in enumerate([STARTED, LINK_DOWN, committed(1)])]
    found = epochs(events)
    assert not found.settled
    assert found.changes == [Change(["link_down 0-1"], 2)]
    found = epochs([*events, {"t_ns": 3, **STARTED}, {"t_ns": 4, **committed(2)}])
    assert found.settled
    assert found.changes == [Change(["link_down 0-1"], 2, 2, 4)]


def test_an_epoch_without_routers_ends_no_outage() -> None:
    """Open vSwitch restarts: every switch goes, an epoch of nobody is committed, the switches come back."""
    gone = [{"event": "switch_disconnected", "node": node} for node in (0, 1)]
    back = [{"event": "switch_connected", "node": node} for node in (0, 1)]
    nobody = {"event": "committed", "epoch": 2, "routers": 0}
    outage = log(*gone, STARTED, nobody, *back, STARTED, {**committed(3), "routers": 2})
    assert not epochs(outage[:6]).settled
    words = ["switch_disconnected 0", "switch_disconnected 1", "switch_connected 0", "switch_connected 1"]
    assert epochs(outage).changes == [Change(words, 2, 3, 9)]
    assert epochs(outage).settled


def test_what_is_up_is_followed() -> None:
    says_more = {**STARTED, "down_links": [2], "down_nodes": [4, 5]}
    back = {"event": "node_up", "node": 4}
    link_back = {"event": "link_up", "link": 7, "u": 0, "v": 1}
    states = []
    for length in range(3, 8):
        found = epochs(log(LINK_DOWN, NODE_DOWN, link_back, says_more, back)[:length])
        states.append((found.down_links, found.down_nodes))
    assert states == [({7}, set()), ({7}, {4}), (set(), {4}), ({2}, {4, 5}), ({2}, {5})]


def test_the_advertisements_that_an_epoch_called_for() -> None:
    # (issuer, epoch, seq, time): node 1 advertises in epochs 1, 2 and twice in 3; node 2 in 3 only.
    sightings = [(1, 1, 1, 10), (1, 2, 2, 20), (1, 2, 2, 25), (1, 3, 3, 30), (1, 3, 4, 39), (2, 3, 1, 35)]
    frames = frames_of(
        *(
            {"type": "RA", "issuer": issuer, "epoch": epoch, "seq": seq, "time_ns": at}
            for issuer, epoch, seq, at in sightings
        )
    )
    assert rows_of(answer("advertised_again", {"captured": frames})) == [(2, 25), (3, 30)]


def test_recovery_in_wall_seconds_at_experiment_seconds() -> None:
    second = 10**9
    changes = [
        Change(["node_down 4"], 12 * second, 2, 13 * second),
        Change(["node_up 4"], 14 * second, 3, 16 * second),
        Change(["node_down 1"], 17 * second),
    ]
    made = recovery(changes, {2: 15 * second}, Clock.steady(10 * second, 20.0))
    assert made == [
        {"events": ["node_down 4"], "at_s": 40.0, "epoch": 2, "committed_s": 1.0, "advertised_s": 3.0},
        {"events": ["node_up 4"], "at_s": 80.0, "epoch": 3, "committed_s": 2.0, "advertised_s": None},
        {"events": ["node_down 1"], "at_s": 140.0, "epoch": None, "committed_s": None, "advertised_s": None},
    ]


def piece(t_s: float, experiment_s: float, rate: float) -> ClockPiece:
    return ClockPiece(
        t_ns=round(t_s * NS), monotonic_ns=round(t_s * NS) - 7, experiment_s=experiment_s, rate=rate
    )


@pytest.fixture
def run(tmp_path: Path) -> RunLayout:
    """Two seconds of bring-up, ten seconds at 60, then half as fast; a piece for 20 s was superseded."""
    run = RunLayout(tmp_path)
    CLOCK.write(run, [piece(100, -2.0, 1.0), piece(102, 0.0, 60.0), piece(120, 1080.0, 90.0)])
    CLOCK.append(run, piece(112, 600.0, 30.0))
    return run


def test_wall_times_and_experiment_seconds_are_each_others_inverse(run: RunLayout) -> None:
    clock = read_clock(run)
    table = {99: -3.0, 101: -1.0, 102: 0.0, 103: 60.0, 112: 600.0, 113: 630.0, 132: 1200.0}
    assert {t_s: clock.experiment_at(t_s * NS) for t_s in table} == table
    assert {clock.time_of(at_s) // NS: at_s for at_s in table.values()} == table
    assert clock.start_ns == 102 * NS


def test_rates_are_those_of_the_workload(run: RunLayout) -> None:
    clock = read_clock(run)
    assert clock.rates == (60.0, 30.0)
    assert clock.mean_rate(1200.0) == 40.0
    assert [clock.mean_rate(at_s) for at_s in (-7.0, 0.0, 600.0)] == [60.0, 60.0, 60.0]
    assert Clock([Piece(0, -3.0, 1.0), Piece(3 * NS, 0.0, 7.3)]).mean_rate(55.0) == 7.3


def test_a_number_is_read_as_it_is() -> None:
    numbers = [0.1, 1 / 3, 0.12345678901234568, 1e-300, -2.5, 1.7976931348623157e308, 0.0]
    with duckdb.connect() as database:
        assert database.execute("select " + ", ".join(map(double, numbers))).fetchone() == tuple(numbers)
