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
from router.protocol.options import RouterOptions
from router.protocol.pull.pull import RequestPolicy
from router.protocol.services.attention.dissemination import AttentionOptions
from tests.support.adversary import random_predicate
from tests.support.attention_network import AttentionNetwork, play as play_attention
from tests.support.network_cases import OPTIONS, World, play
from tests.support.protocol_network import random_graph


def _requests(options: RouterOptions) -> Iterator[float]:
    """The times at which a router asks of its own accord, from second 0 on."""
    policy = RequestPolicy(options, random.Random(1))
    policy.start(0.0)
    while (at := policy.next_deadline(())) is not None:
        assert not policy.periodic(at - 1e-9)
        assert policy.periodic(at)
        yield at


def _advertisements(options: RouterOptions) -> Iterator[float]:
    """The times at which a router advertises without a change, from second 0 on."""
    schedule = AdvertisementSchedule(options, random.Random(1))
    schedule.start(0.0)
    while (at := schedule.next_deadline()) is not None:
        assert not schedule.due(at - 1e-9)
        assert schedule.due(at)
        schedule.issued(at)
        yield at


@pytest.mark.parametrize("times", [_requests, _advertisements])
def test_what_is_periodic_becomes_a_poisson_process(
    times: Callable[[RouterOptions], Iterator[float]],
) -> None:
    options = RouterOptions(sr_policy="periodic", sr_period_s=10.0, ra_period_s=10.0, timers="exponential")
    between = [b - a for a, b in pairwise([0.0, *islice(times(options), 10_000)])]
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
