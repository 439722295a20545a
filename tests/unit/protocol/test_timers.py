"""Timers whose times are drawn: exponentially distributed, with the option as their mean."""

from __future__ import annotations

import gc
import random
import statistics
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice, pairwise

import pytest

from router.predicates import Message
from router.protocol.advertising import AdvertisementSchedule
from router.protocol.context import Period
from router.protocol.options import RouterOptions
from router.protocol.services.attention.dissemination import AttentionOptions
from testbed.evaluation.figures.advertisements import issued
from tests.support.adversary import random_predicate
from tests.support.attention_network import AttentionNetwork, play as play_attention
from tests.support.network_cases import OPTIONS, World, play
from tests.support.protocol_network import random_graph


def _requests(options: RouterOptions) -> Iterator[float]:
    """The times at which a router asks of its own accord, from second 0 on."""
    period = Period(options, random.Random(1), options.sr_period_s)
    period.start(0.0)
    while (at := period.at) is not None:
        assert not period.due(at - 1e-9)
        assert period.due(at)
        yield at


def _advertisements(options: RouterOptions) -> Iterator[float]:
    """The times at which a router advertises without a change, from second 0 on."""
    schedule = AdvertisementSchedule(options, random.Random(1))
    schedule.period.start(0.0)
    while (at := schedule.next_deadline()) is not None:
        assert not schedule.due(at - 1e-9)
        assert schedule.due(at)
        schedule.issued(at)
        yield at


@pytest.mark.parametrize("times", [_requests, _advertisements])
def test_periodic_times_become_a_poisson_process(times: Callable[[RouterOptions], Iterator[float]]) -> None:
    options = RouterOptions(sr_policy="periodic", sr_period_s=10.0, ra_period_s=10.0, timers="exponential")
    between = [b - a for a, b in pairwise([0.0, *islice(times(options), 10_000)])]
    assert statistics.fmean(between) == pytest.approx(10.0, rel=0.02)
    # Of an exponential distribution, the standard deviation is the mean and the median ln 2 of it.
    assert statistics.stdev(between) == pytest.approx(10.0, rel=0.03)
    assert statistics.median(between) == pytest.approx(6.93, rel=0.03)


def _advertised(options: RouterOptions) -> list[float]:
    """The times of the RAs in 5e6 s of a router whose predicate changes as a Poisson process, every 300 s."""
    schedule, rng = AdvertisementSchedule(options, random.Random(1)), random.Random(2)
    times: list[float] = []
    now = rng.expovariate(1 / 300.0)
    while now < 5e6:
        schedule.ask(now)
        following = now + rng.expovariate(1 / 300.0)
        due = schedule.next_deadline()
        if due is not None and due < following:
            assert schedule.due(due)
            assert not schedule.pending
            schedule.issued(due)
            times.append(due)
        now = following
    return times


@pytest.mark.parametrize(
    ("variant", "options"),
    [
        ("", RouterOptions(ra_min_interval_s=200.0)),
        ("exponential timers", RouterOptions(ra_min_interval_s=200.0, timers="exponential")),
        ("no limit", RouterOptions()),
    ],
)
def test_advertisements_are_as_frequent_as_their_formula(variant: str, options: RouterOptions) -> None:
    """On average they are 200 + 300 exp(-2/3) = 354 s apart, or 200 + 300 s, or 300 s."""
    times = _advertised(options)
    assert 5e6 / len(times) == pytest.approx(1 / issued(300.0, 1, variant), rel=0.02)
    least = min(b - a for a, b in pairwise(times))
    assert least < 20.0 if variant else least == pytest.approx(200.0)


def test_without_a_least_interval_exponential_timers_delay_no_advertisement() -> None:
    schedule = AdvertisementSchedule(RouterOptions(timers="exponential"), random.Random(1))
    schedule.issued(5.0)
    schedule.ask(6.0)
    assert schedule.due(6.0)


# Protocol cores leave no cycles: the collector of a live router looks at young objects only.


def _attention(seed: int) -> object:
    rng = random.Random(seed)
    options = AttentionOptions(
        strategy="pdp" if seed % 2 else "eon",
        cache_publications=5,
        flushing="neighbour",
        pace_mbps=0.01,
        scheduler="cbf",
        top_up_s=0.2,
    )
    network = AttentionNetwork(random_graph(rng, 4, 1), options, seed)
    play_attention(network, rng, 150)
    return network


def _messages(scheme: str) -> Callable[[int], object]:
    def played(seed: int) -> object:
        network = World(seed, 4, 1).network(replace(OPTIONS, scheme=scheme))
        rng = network.rng
        for _ in range(60):
            node = rng.randrange(4)
            play(network, [(node, random_predicate(rng)), (node, None)])
            network.send(node, Message({"a": rng.randrange(9)}))
            if rng.random() < 0.1:
                network.new_epoch()
        network.settle()
        return network

    return played


def _objects() -> Counter[str]:
    """The objects of classes of `router` that the collector knows, by name of the class."""
    return Counter(
        type(each).__qualname__
        for each in gc.get_objects()
        if str(getattr(type(each), "__module__", "")).startswith("router.")
    )


# The networks are kept: routers are cycles, and a live process has one as long as it lives. Objects are
# counted before and after: `gc.garbage` lacks those of a generator, which the collector closes first.
@pytest.mark.parametrize("played", [_attention, _messages("pif"), _messages("psf"), _messages("drp")])
def test_events_leave_no_cycles(played: Callable[[int], object]) -> None:
    played(0)
    # The collector looks at no object of the tests before.
    gc.freeze()
    gc.disable()
    try:
        kept = [played(seed) for seed in range(1, 4)]
        before = _objects()
        gc.collect()
        found = before - _objects()
    finally:
        gc.enable()
        gc.unfreeze()
    assert kept
    assert not found
