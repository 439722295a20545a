"""Stock ticks: a workload of a documented process, with and without locality of interests.

- Ticks are a Poisson process at the rate of all senders together. Symbols are popular by Zipf's law; each is
  listed at one sender. The logarithm of a price is a random walk (M. F. M. Osborne, "Brownian motion in the
  stock market", Operations Research 7(2), 1959); volumes are lognormal.
- Each symbol has subscribers at three times its popularity of the routers: a random router and those closest
  to it (Diallo, Fdida and Spathis, section 5.1). A subscriber asks for all its ticks, for its large changes,
  or for large volumes in its sector.
- A share of the receivers leaves and joins in turn; who joins has new interests, near the same roots.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from random import Random

from router.predicates import Message, Value
from testbed.experiments.config import Experiment
from testbed.experiments.workload import Item
from testbed.experiments.workload.attention import hosts_of, popularities

_SYMBOLS, _SECTORS = 100, 10
#: By symbol, its share of the ticks; those of its subscribers are proportional.
SHARES = popularities(_SYMBOLS, 1.0)
#: Standard deviation of the logarithm of a price's step; mean and standard deviation of that of a volume.
_STEP, _VOLUME = 0.01, (6.0, 1.0)
#: Changes, in percent, and volumes that receivers ask for.
_CHANGES, _LARGE = (1.0, 2.0), (1_000, 2_000)


def local(experiment: Experiment, random: Random) -> Iterator[Item]:
    """Yields ticks, and the predicates of receivers whose interests are those of their neighbours."""
    return _items(experiment, random, [node.id for node in experiment.topology.nodes])


def spread(experiment: Experiment, random: Random) -> Iterator[Item]:
    """Yields what `local` yields, but with the routers of the predicates permuted."""
    places = [node.id for node in experiment.topology.nodes]
    Random(f"{experiment.seed}/places").shuffle(places)
    return _items(experiment, random, places)


def _items(experiment: Experiment, random: Random, places: Sequence[int]) -> Iterator[Item]:
    options = experiment.workload
    assert options is not None

    def stream(purpose: str) -> Random:
        return Random(f"{experiment.seed}/{purpose}")

    roots = stream("roots").choices(range(len(places)), k=_SYMBOLS)

    @cache
    def interests(number: int) -> dict[int, list[str]]:
        """Draws the filters of all nodes that have interests."""
        drawing, found = stream(f"interests {number}"), defaultdict[int, list[str]](list)
        shares = [min(1.0, 3 * share) for share in SHARES]
        for symbol, hosts in enumerate(hosts_of(shares, experiment.topology, drawing, roots)):
            for node in hosts:
                found[node].append(filter_of(symbol, drawing))
        return found

    for node, asked in sorted(interests(0).items()):
        at_s, number, changes = options.first_predicate_s, 0, stream(f"changes {node}")
        yield Item(at_s, places[node], "set_predicate", predicate=" or ".join(asked))
        if changes.random() * 100 < options.changing_receivers_percent:
            rate = 1 / options.predicate_change_interval_s
            while (at_s := _later(at_s, changes, rate)) < experiment.duration_s:
                number += 1
                new = [] if number % 2 else interests(number).get(node, [])
                yield Item(at_s, places[node], "set_predicate", predicate=" or ".join(new) or "none")
    placing, count = stream("senders"), max(1, round(len(places) * options.senders_percent / 100))
    senders = placing.sample(range(len(places)), count)
    listed, drawn = placing.choices(senders, k=_SYMBOLS), ticks(random)
    at_s, rate = options.first_message_s, len(senders) * options.messages_per_minute / 60
    while (at_s := _later(at_s, random, rate)) < experiment.duration_s:
        symbol, tick = next(drawn)
        yield Item(at_s, listed[symbol], "send_message", attributes=tick)


def ticks(random: Random) -> Iterator[tuple[int, Message]]:
    """Yields symbols and their ticks, without end."""
    prices = [100.0] * _SYMBOLS
    while True:
        (symbol,) = random.choices(range(_SYMBOLS), SHARES)
        step = random.lognormvariate(0, _STEP)
        prices[symbol] *= step
        tick: dict[str, Value] = {
            "symbol": f"S{symbol}",
            "sector": f"T{symbol % _SECTORS}",
            "price": round(prices[symbol], 2),
            "change": round(100 * (step - 1), 2),
            "volume": round(random.lognormvariate(*_VOLUME)),
        }
        yield symbol, Message(tick)


def filter_of(symbol: int, random: Random) -> str:
    """Draws what a subscriber of a symbol asks for."""
    which = random.random()
    if which < 0.5:
        return f'symbol = "S{symbol}"'
    if which < 0.8:
        return f'symbol = "S{symbol}" and change > {random.choice(_CHANGES)}'
    return f'sector = "T{symbol % _SECTORS}" and volume > {random.choice(_LARGE)}'


def _later(at_s: float, random: Random, rate: float) -> float:
    """Returns the next point of a Poisson process, to the microsecond."""
    return round(at_s + random.expovariate(rate), 6)
