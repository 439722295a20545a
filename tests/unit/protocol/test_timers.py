"""Timers whose times are drawn: exponentially distributed, with the option as their mean."""

from __future__ import annotations

import random
import statistics
from itertools import pairwise

import pytest

from router.protocol.advertising import AdvertisementSchedule
from router.protocol.options import RouterOptions
from router.protocol.pull.pull import RequestPolicy


def test_periodic_requests_become_a_poisson_process() -> None:
    options = RouterOptions(sr_policy="periodic", sr_period_s=10.0, timers="exponential")
    policy = RequestPolicy(options, random.Random(1))
    policy.start(0.0)
    times = [0.0]
    for _ in range(10_000):
        at = policy.next_deadline(())
        assert at is not None
        assert not policy.periodic(at - 1e-9)
        assert policy.periodic(at)
        times.append(at)
    _assert_poisson(times)


def test_periodic_advertisements_become_a_poisson_process() -> None:
    options = RouterOptions(ra_period_s=10.0, timers="exponential")
    schedule = AdvertisementSchedule(options, random.Random(1))
    schedule.start(0.0)
    times = [0.0]
    for _ in range(10_000):
        at = schedule.next_deadline()
        assert at is not None
        assert not schedule.due(at - 1e-9)
        assert schedule.due(at)
        schedule.issued(at)
        times.append(at)
    _assert_poisson(times)


def _assert_poisson(times: list[float]) -> None:
    """The times are points of a Poisson process, 10 s apart in the mean."""
    between = [b - a for a, b in pairwise(times)]
    assert statistics.fmean(between) == pytest.approx(10.0, rel=0.02)
    # Of an exponential distribution, the standard deviation is the mean and the median ln 2 of it.
    assert statistics.stdev(between) == pytest.approx(10.0, rel=0.03)
    assert statistics.median(between) == pytest.approx(6.93, rel=0.03)


def _advertised(options: RouterOptions, change_s: float, end_s: float) -> list[float]:
    """The times of the RAs of a router whose predicate changes as a Poisson process."""
    schedule, rng = AdvertisementSchedule(options, random.Random(1)), random.Random(2)
    issued: list[float] = []
    now = rng.expovariate(1 / change_s)
    while now < end_s:
        schedule.ask(now)
        following = now + rng.expovariate(1 / change_s)
        due = schedule.next_deadline()
        if due is not None and due < following:
            assert schedule.due(due)
            assert not schedule.pending
            schedule.issued(due)
            issued.append(due)
        now = following
    return issued


def test_changes_wait_for_a_point_of_a_poisson_process() -> None:
    """Changes at rate l, which may be advertised at rate u: l u / (l + u), 1/500 s of 1/300 and 1/200 s."""
    options = RouterOptions(ra_min_interval_s=200.0, timers="exponential")
    issued = _advertised(options, 300.0, 5e6)
    assert 5e6 / len(issued) == pytest.approx(500.0, rel=0.02)
    assert min(b - a for a, b in pairwise(issued)) < 20.0


def test_fixed_timers_keep_advertisements_apart() -> None:
    """The rate of `evaluation.figures.advertisements.issued`: 200 + 300 exp(-2/3) = 354 s from RA to RA."""
    issued = _advertised(RouterOptions(ra_min_interval_s=200.0), 300.0, 5e6)
    assert 5e6 / len(issued) == pytest.approx(354.0, rel=0.02)
    assert min(b - a for a, b in pairwise(issued)) == pytest.approx(200.0)


def test_without_a_least_interval_exponential_timers_delay_no_advertisement() -> None:
    schedule = AdvertisementSchedule(RouterOptions(timers="exponential"), random.Random(1))
    schedule.issued(5.0)
    schedule.ask(6.0)
    assert schedule.due(6.0)


def test_the_first_periodic_advertisement_is_drawn_too() -> None:
    options = RouterOptions(ra_period_s=4.0, timers="exponential")
    first = []
    for seed in range(2_000):
        schedule = AdvertisementSchedule(options, random.Random(seed))
        schedule.start(100.0)
        at = schedule.next_deadline()
        assert at is not None
        first.append(at - 100.0)
    assert statistics.fmean(first) == pytest.approx(4.0, rel=0.05)
    assert max(first) > 8.0
