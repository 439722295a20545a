"""A run whose parts were late is invalid, and says what was late, by how much, and what would have done."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from captures.accounting.lag import lag_keys, late
from captures.rundir import RunLayout
from captures.rundir.clock import Clock
from captures.rundir.files import RunFolderError
from captures.rundir.measures import Answers, LagReport, PartLag, read_lag, write_lag

CLOCK = Clock.steady(0, 60.0)


def part(name: str, lag_s: float, wall_s: float, at_s: float = 0.0, **fields: Any) -> PartLag:
    made: Any = {"part": name, "lag_s": lag_s, "lag_wall_s": wall_s, "lag_at_s": at_s, **fields}
    return cast("PartLag", made)


def report(*parts: PartLag) -> LagReport:
    answers = Answers(median_s=0.001, p99_s=0.5, max_s=2.5)
    return LagReport(from_s=30.0, bound_s=30.0, bound_wall_s=1.0, parts=list(parts), answers=answers)


def summary(*parts: PartLag, capture_drops: int = 0) -> dict[str, Any]:
    return {**lag_keys(report(*parts), CLOCK), "capture_drops": capture_drops}


def router(node: int, lag_s: float, wall_s: float, turn_s: float = 0.01) -> PartLag:
    turn = {"turn_s": turn_s, "turn_of": "RA", "turn_at_s": 5.0, "turn_cpu_s": 0.1 / node}
    return part("router", lag_s, wall_s, at_s=12.0, node=node, **turn)


def test_keys_name_the_latest_of_each_part_and_the_longest_turn() -> None:
    controller = part("controller", 0.0, 0.0, turn_s=3.0, turn_of="", turn_at_s=0.0, turn_cpu_s=2.0)
    parts = (router(1, 3.0, 0.05, 0.2), router(2, 2.0, 0.9), part("switches", 1.0, 0.1), controller)
    keys = lag_keys(report(*parts), CLOCK)
    assert keys == {
        "lag": {
            "routers": {"lag_s": 3.0, "lag_wall_s": 0.9, "at_s": 12.0, "node": 1},
            "workload": None,
            "switches": {"lag_s": 1.0, "lag_wall_s": 0.1, "at_s": 0.0, "node": None},
            "captures": None,
        },
        "lag_bound": {"lag_s": 30.0, "lag_wall_s": 1.0},
        "longest_turn": {"node": 1, "turn_s": 0.2, "cpu_s": 0.1, "of": "RA", "at_s": 5.0},
        "sufficient_time_scale": None,
        "answer_delay": {"median_s": 0.001, "p99_s": 0.5, "max_s": 2.5},
    }


def test_a_simulation_measures_nothing_and_is_never_late() -> None:
    keys = lag_keys(None, CLOCK)
    assert set(keys.values()) == {None}
    assert late({**keys, "capture_drops": 0}) == []


def test_a_run_within_the_bound_is_not_late() -> None:
    assert late(summary(router(1, 30.0, 1.0), part("workload", 29.0, 0.5))) == []


def test_reasons_say_what_was_late_by_how_much_and_which_rate_would_have_done() -> None:
    # Eight seconds at 60: of experiment time 16 bounds, of wall time 8.
    assert late(summary(router(1, 2.0, 0.1), router(7, 480.0, 8.0), part("workload", 5.0, 0.1))) == [
        "routers (first of all that of node 7): 480 s of experiment time late at 12 s, at most 8 s of wall "
        "time; the bound is 30 s, and 1 s of wall time",
        'a time scale of 3 would have done; time_scale = "auto" finds a rate, '
        "where links have no properties of their own",
    ]


def test_a_lag_of_wall_time_alone_makes_a_run_invalid() -> None:
    (reason, _) = late(summary(part("switches", 3.0, 1.5, at_s=77.0)))
    assert reason == (
        "switches: 3 s of experiment time late at 77 s, at most 1.5 s of wall time; "
        "the bound is 30 s, and 1 s of wall time"
    )


def test_a_capture_that_lost_frames_makes_a_run_invalid() -> None:
    assert late(summary(router(1, 1.0, 0.01), capture_drops=3)) == [
        "captures: 3 frames dropped before they were read",
        'time_scale = "auto" finds a rate, where links have no properties of their own',
    ]


def test_the_report_is_read_as_it_was_written(tmp_path: Path) -> None:
    run = RunLayout(tmp_path)
    assert read_lag(run) is None
    made = report(router(1, 1.0, 0.1), part("workload", 1.0, 0.1))
    write_lag(run, made)
    assert read_lag(run) == made


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ([{"part": "router", "lag_s": 1, "lag_wall_s": 1, "lag_at_s": 0}], "parts: 0: no field 'node'"),
        ([3], "parts: 0: 3; expected an object"),
    ],
)
def test_a_malformed_report_is_refused(parts: list[Any], problem: str, tmp_path: Path) -> None:
    run = RunLayout(tmp_path)
    head = {"from_s": 0, "bound_s": 1, "bound_wall_s": 1, "answers": None}
    run.lag.write_text(json.dumps({**head, "parts": parts}))
    with pytest.raises(RunFolderError, match=problem):
        read_lag(run)
