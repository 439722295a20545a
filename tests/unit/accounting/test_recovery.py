"""Recovery times: from the controller's log and the captured advertisements to summary.json."""

from __future__ import annotations

from captures.accounting.conclusion import recovery
from captures.rundir.clock import Clock
from captures.rundir.epochs import Change
from tests.support.texts import answer, frames_of, rows_of


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
