"""The log of the experiment clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from captures.rundir import RunLayout
from captures.rundir.clock import Clock, ClockPiece, append_piece, read_clock, write_clock
from captures.rundir.files import RunFolderError
from router.clock import NS, Piece


def piece(t_s: float, experiment_s: float, rate: float) -> ClockPiece:
    return ClockPiece(
        t_ns=round(t_s * NS), monotonic_ns=round(t_s * NS) - 7, experiment_s=experiment_s, rate=rate
    )


@pytest.fixture
def run(tmp_path: Path) -> RunLayout:
    """Two seconds of bring-up, ten seconds at 60, then half as fast; a piece for 20 s was superseded."""
    run = RunLayout(tmp_path)
    write_clock(run, [piece(100, -2.0, 1.0), piece(102, 0.0, 60.0), piece(120, 1080.0, 90.0)])
    append_piece(run, piece(112, 600.0, 30.0))
    return run


def test_wall_times_and_experiment_seconds_are_each_others_inverse(run: RunLayout) -> None:
    clock = read_clock(run)
    table = {99: -3.0, 101: -1.0, 102: 0.0, 103: 60.0, 112: 600.0, 113: 630.0, 132: 1200.0}
    assert {t_s: clock.experiment_s(t_s * NS) for t_s in table} == table
    assert {clock.wall_ns(at_s) // NS: at_s for at_s in table.values()} == table
    assert clock.start_ns == 102 * NS


def test_rates_are_those_of_the_workload(run: RunLayout) -> None:
    clock = read_clock(run)
    assert clock.rates == (60.0, 30.0)
    assert clock.mean_rate(1200.0) == 40.0
    assert [clock.mean_rate(at_s) for at_s in (-7.0, 0.0, 600.0)] == [60.0, 60.0, 60.0]
    assert Clock([Piece(0, -3.0, 1.0), Piece(3 * NS, 0.0, 7.3)]).mean_rate(55.0) == 7.3


def test_a_clock_of_one_piece_is_the_rule_of_three() -> None:
    clock = Clock.steady(10 * NS, 20.0)
    assert [clock.experiment_s(t_s * NS) for t_s in (9, 10, 11)] == [-20.0, 0.0, 20.0]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "missing"),
        ("", "no piece; expected at least one"),
        ('{"t_ns": 1}', "1: no field 'monotonic_ns'"),
        (
            '{"t_ns": 1, "monotonic_ns": 1, "experiment_s": 0, "rate": 0}',
            "1: rate: 0; expected a number above 0",
        ),
    ],
)
def test_a_log_that_is_none_is_refused(content: str | None, problem: str, tmp_path: Path) -> None:
    run = RunLayout(tmp_path)
    if content is not None:
        run.clock.write_text(content)
    with pytest.raises(RunFolderError, match=f"clock.jsonl.*{problem}"):
        read_clock(run)
