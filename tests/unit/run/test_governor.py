"""The governor against a model of a machine, and a governed clock while the opening predicates spread."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import pytest

from captures.rundir import RunLayout
from testbed.emulation.run.governor import SLOWEST, EmulationClock, Governor, Limits, Seen
from testbed.emulation.run.lag_meters import LagMeters
from testbed.emulation.run.lag_watch import LagWatch
from tests.support.polling import wait_for

PERIOD_S = 0.25
LIMITS = Limits(SLOWEST, 60.0, bound_s=30.0, bound_wall_s=1.0)


def seen(
    at_s: float, lag_wall_s: float, idle: float, rate: float, items: int = 1, next_s: float = 0.0
) -> Seen:
    """A look at an experiment that always has something to do."""
    return Seen(at_s, lag_wall_s, idle, rate, items, next_s)


@dataclass
class Machine:
    """Processors that serve a queue of work.

    Attributes:
        cost_s: CPU seconds of an experiment second.
        share: CPU seconds a wall second that the run gets; others burn the rest.
        burners: whether others leave nothing idle.
    """

    cost_s: float
    share: float = 2.0
    burners: bool = False
    waiting_s: float = 0.0
    at_s: float = 0.0

    def run(self, rate: float, rng: random.Random) -> Seen:
        """One period."""
        self.at_s += PERIOD_S
        work = rate * PERIOD_S * self.cost_s * rng.uniform(0.7, 1.3)
        served = self.share * PERIOD_S
        self.waiting_s = max(0.0, self.waiting_s + work - served)
        idle = 0.0 if self.burners else max(0.0, 1 - (work + self.waiting_s) / served)
        # A busy machine schedules late, before a queue stands.
        jitter = 0.002 + (0.03 * rng.random() if self.burners else 0.0)
        return seen(self.at_s, self.waiting_s / self.share + jitter, idle, rate)


def play(machine: Machine, governor: Governor, seconds: float, limits: Limits = LIMITS) -> list[float]:
    """Lets a governor drive a machine; returns the shares of the bound after the first two seconds."""
    rng = random.Random(1)
    shares = []
    for step in range(round(seconds / PERIOD_S)):
        look = machine.run(governor.rate, rng)
        if step * PERIOD_S > 2:
            shares.append(limits.share(look.lag_wall_s, governor.rate))
        governor.decide(look)
    return shares


def test_a_light_experiment_runs_at_the_greatest_rate() -> None:
    governor = Governor(LIMITS, 5.0)
    assert max(play(Machine(cost_s=0.001), governor, 20)) < 0.2
    assert governor.rate == 60.0


@pytest.mark.parametrize("first", [0.5, 10.0, 60.0])
@pytest.mark.parametrize("burners", [False, True])
def test_a_heavy_experiment_settles_where_the_machine_keeps_up(first: float, burners: bool) -> None:
    machine = Machine(cost_s=0.2, share=1.0 if burners else 2.0, burners=burners)
    capacity = machine.share / machine.cost_s
    governor = Governor(LIMITS, first)
    play(machine, governor, 20)
    shares = play(machine, governor, 60)
    assert max(shares) < 1
    assert 0.4 * capacity < governor.rate < 1.3 * capacity


def test_a_load_that_comes_later_slows_the_experiment_before_it_is_late() -> None:
    governor = Governor(LIMITS, 60.0)
    machine = Machine(cost_s=0.02)
    play(machine, governor, 20)
    assert governor.rate > 50
    machine.share, machine.burners = 0.9, True
    assert max(play(machine, governor, 60)) < 1
    assert 0.4 * 45 < governor.rate < 1.3 * 45
    machine.share, machine.burners = 2.0, False
    play(machine, governor, 20)
    assert governor.rate > 50


def test_the_rate_stays_within_its_range() -> None:
    governor = Governor(LIMITS, 1e9)
    assert governor.rate == 60.0
    for step in range(200):
        governor.decide(seen(step * PERIOD_S, 100.0, 0.0, governor.rate))
    assert governor.rate == SLOWEST


def test_small_changes_are_left_out() -> None:
    governor = Governor(Limits(1.0, 10.0, 30.0, 1.0), 9.8)
    assert governor.decide(seen(0.0, 0.0, 1.0, 9.8)) is None
    assert governor.rate == 9.8


def test_a_backlog_that_is_worked_off_causes_one_fall() -> None:
    governor = Governor(LIMITS, 40.0)
    # A second of backlog: while it is done, the lag falls by a quarter of a second each time.
    rates = [
        governor.decide(seen(step * PERIOD_S, 1.0 - step * PERIOD_S, 0.0, governor.rate)) for step in range(4)
    ]
    assert rates == [10.0, None, None, None]


def test_a_lag_that_grows_after_a_fall_causes_another() -> None:
    governor = Governor(LIMITS, 40.0)
    rates = [governor.decide(seen(step * PERIOD_S, 1.0 + step, 0.0, governor.rate)) for step in range(2)]
    assert rates == [10.0, 2.5]


def test_silence_passes_faster_and_proves_nothing_of_the_rate_of_work() -> None:
    governor = Governor(LIMITS, 3.0)
    next_s = 100.0
    rates = []
    for step in range(200):
        before = next_s
        next_s -= governor.rate * PERIOD_S
        items = int(next_s <= 0 < before)
        rates.append(governor.rate)
        if items:
            break
        governor.decide(seen(step * PERIOD_S, 0.0, 0.9, governor.rate, 0, next_s))
    assert max(rates) == 60.0
    assert rates[-1] == pytest.approx(3.0, rel=0.05)
    assert len(rates) * PERIOD_S < 6


def test_a_rate_that_was_announced_rises_no_more_before_it_was_seen_in_force() -> None:
    governor = Governor(LIMITS, 3.0)
    in_force = [3.0, 3.0, 3.0, 3.0, 6.0, 6.0]
    rates = [governor.decide(seen(step * PERIOD_S, 0.0, 0.9, rate)) for step, rate in enumerate(in_force)]
    assert rates == [None, 6.0, None, None, None, 12.0]


def test_a_fall_starts_from_the_rate_in_force() -> None:
    governor = Governor(LIMITS, 3.0)
    for step in range(2):
        governor.decide(seen(step * PERIOD_S, 0.0, 0.9, 3.0))
    assert governor.rate == 6.0
    assert governor.decide(seen(0.5, 0.5, 0.0, 3.0)) == 1.5


LOW, FIRST = 0.05, 4.0
SLOW_LIMITS = Limits(LOW, 100.0, 30.0, 1.0)


@pytest.mark.parametrize(("late_s", "rates"), [(2.0, [1.0, 1.0, LOW, FIRST]), (0.5, [1.0, 1.0, FIRST])])
def test_opening_predicates_that_fall_behind_slow_the_clock_until_they_have_spread(
    late_s: float, rates: list[float], tmp_path: Path
) -> None:
    clock = EmulationClock(RunLayout(tmp_path), tmp_path / "page", 1)
    clock.begin(1.0)
    wait_for(lambda: None if clock.now_s > 0 else "second 0 has not come")
    meters = [LagMeters(clock, {("router", 0): clock.routers[0]})]
    with LagWatch(clock, meters, SLOW_LIMITS, Governor(SLOW_LIMITS, FIRST)) as watch:
        for _ in range(2):
            clock.routers[0].late(late_s, clock.clock)
            wait_for(lambda: "nobody has looked" if clock.routers[0].recent else None)
        watch.opened()

        def begun() -> str | None:
            found = FIRST in [piece.rate for piece in clock.page.pieces()]
            return None if found else "the workload's rate is not announced"

        wait_for(begun)
    assert [piece.rate for piece in clock.page.pieces()][: len(rates)] == rates
    clock.page.close()


def test_the_lag_of_a_part_that_is_away_on_purpose_does_not_count(tmp_path: Path) -> None:
    clock = EmulationClock(RunLayout(tmp_path), tmp_path / "page", 1)
    clock.begin(1.0)
    meter = clock.routers[0]
    with LagWatch(clock, [LagMeters(clock, {("router", 0): clock.routers[0]})], SLOW_LIMITS) as watch:
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
    clock.page.close()
