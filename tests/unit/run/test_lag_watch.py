"""The rate of a governed clock while the opening predicates spread."""

from __future__ import annotations

from pathlib import Path

import pytest

from captures.rundir import RunLayout
from testbed.emulation.run.governor import EmulationClock, Governor, Limits
from testbed.emulation.run.lag_watch import LagWatch
from tests.support.polling import wait_for

LOW, FIRST = 0.05, 4.0
LIMITS = Limits(LOW, 100.0, 30.0, 1.0)


@pytest.mark.parametrize(("late_s", "rates"), [(2.0, [1.0, 1.0, LOW, FIRST]), (0.5, [1.0, 1.0, FIRST])])
def test_opening_predicates_that_fall_behind_slow_the_clock_until_they_have_spread(
    late_s: float, rates: list[float], tmp_path: Path
) -> None:
    clock = EmulationClock(RunLayout(tmp_path), tmp_path / "page", [0])
    clock.begin(1.0)
    wait_for(lambda: None if clock.now_s > 0 else "second 0 has not come")
    with LagWatch(clock, [], LIMITS, Governor(LIMITS, FIRST)) as watch:
        for _ in range(2):
            clock.routers[0].late(late_s, clock.clock)
            wait_for(lambda: "nobody has looked" if clock.routers[0].recent else None)
        watch.opened()

        def begun() -> str | None:
            found = FIRST in [piece.rate for piece in clock.page.pieces()]
            return None if found else "the workload's rate is not announced"

        wait_for(begun)
    assert [piece.rate for piece in clock.page.pieces()][: len(rates)] == rates
    clock.close()


def test_the_lag_of_a_part_that_is_away_on_purpose_does_not_count(tmp_path: Path) -> None:
    clock = EmulationClock(RunLayout(tmp_path), tmp_path / "page", [0])
    clock.begin(1.0)
    meter = clock.routers[0]
    with LagWatch(clock, [], LIMITS) as watch:
        watch.opened()
        wait_for(lambda: None if watch.report([])["from_s"] else "lag does not count yet")
        meter.late(0.25, clock.clock)
        watch.excuse()
        meter.late(7.0, clock.clock)
        watch.over()
        wait_for(lambda: None if meter.measured().lag_wall_s < 7 else "the lag of the fault is there")
        assert meter.measured().lag_wall_s == 0.25
        # From then on it counts again.
        meter.late(0.5, clock.clock)
        assert watch.report([])["parts"][0]["lag_wall_s"] == 0.5
        watch.excuse()
        meter.late(9.0, clock.clock)
    assert watch.report([])["parts"][0]["lag_wall_s"] == 0.5
    clock.close()
