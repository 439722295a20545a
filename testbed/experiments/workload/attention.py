"""The workload of table 1: subscriptions and publications, drawn from the seed of an experiment, and the
requests of applications that they are.

Subscriptions are objects; the publications, fifty times as many, are two columns and generated in order of
time. A service has its own way to express a subscription of a limited lifetime.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from router.predicates import Message
from testbed.experiments.config import AttentionWorkload, Experiment
from testbed.experiments.workload import Item
from topos import Topology

#: Times of a workload are whole microseconds.
_DIGITS = 6


def popularities(events: int, exponent: float) -> list[float]:
    """Returns p_i = i^-exponent / Z for i = 1 to `events`, where Z makes the sum 1.

    The paper samples p_i from a power law; v_i = P p_i then adds up to P only if the sum is 1.
    """
    weights = [number**-exponent for number in range(1, events + 1)]
    whole = math.fsum(weights)
    return [weight / whole for weight in weights]


def volumes(shares: Sequence[float], total: int) -> list[int]:
    """Returns v_i = total * p_i as integers that add up to `total` (the largest remainders round up)."""
    exact = [total * share for share in shares]
    whole = [math.floor(each) for each in exact]
    order = sorted(range(len(exact)), key=lambda i: (whole[i] - exact[i], i))
    for i in order[: total - sum(whole)]:
        whole[i] += 1
    return whole


def localities(options: AttentionWorkload) -> list[float]:
    """Returns l_i, the share of the routers that host subscriptions of each event: p_i, normalised or not."""
    shares = popularities(options.events, options.exponent)
    return shares if options.normalised else [share / shares[0] for share in shares]


def hosts_of(
    shares: Sequence[float], topology: Topology, random: Random, roots: Sequence[int] = ()
) -> list[tuple[int, ...]]:
    """Draws the hosting routers of every event: ceil(p_i N), a random root and the routers closest to it.

    Closest by hops; routers at equal distance are drawn at random. `roots` may give the roots.
    """
    import networkx as nx  # It takes a third of a second to load.

    count = len(topology.nodes)
    graph = nx.empty_graph(count)
    graph.add_edges_from((link.u, link.v) for link in topology.links)
    found = []
    for event, share in enumerate(shares):
        root = roots[event] if roots else random.randrange(count)
        # The product of a rounded quotient must not exceed a whole number by an error of rounding.
        wanted = min(count, max(1, math.ceil(share * count - 1e-9)))
        hosts: list[int] = []
        for shell in nx.bfs_layers(graph, root):
            nearest = sorted(shell)
            random.shuffle(nearest)
            hosts += nearest[: wanted - len(hosts)]
            if len(hosts) == wanted:
                break
        found.append(tuple(hosts))
    return found


@dataclass(frozen=True, slots=True)
class Subscription:
    """A basic subscription and its renewals.

    Attributes:
        number: unique in the workload, from 0 on, in order of time.
        at_s: experiment second of the registration.
        node: home router.
        event: that it selects, from 0 on.
        rounds: lifetimes; each but the first begins with a renewal, `delay_s` after the end of the lifetime
            before it.
    """

    number: int
    at_s: float
    node: int
    event: int
    max: int
    lifetime_s: float
    freshness_s: float
    rounds: int
    delay_s: float

    def begin_s(self, round_number: int) -> float:
        """Returns the experiment second at which a round begins; the first round is 0."""
        return round(self.at_s + round_number * (self.lifetime_s + self.delay_s), _DIGITS)


class Registration(NamedTuple):
    """A registration (round 0) or a renewal."""

    at_s: float
    subscription: Subscription
    round: int


#: Name of the attribute that holds the number of the event.
EVENT = "event"


class Demand:
    """The workload of an experiment.

    Every purpose has a random stream of its own, made from the seed and a label.

    Attributes:
        popularities: p_i by event.
        hosts: hosting routers by event.
        subscriptions: in order of time.
        duration_s: of the experiment.
    """

    def __init__(self, options: AttentionWorkload, topology: Topology, duration_s: float, seed: int) -> None:
        self._options = options
        self.duration_s = duration_s
        self._nodes = len(topology.nodes)
        self._seed = seed
        self.popularities = popularities(options.events, options.exponent)
        local = localities(options)
        self.hosts = hosts_of(local, topology, self._stream("hosting routers"))
        self.subscriptions = self._subscribe()

    @classmethod
    def of(cls, experiment: Experiment) -> Demand:
        """Returns the demand of an experiment with a section [workload.attention]."""
        assert experiment.attention is not None
        return cls(experiment.attention, experiment.topology, experiment.duration_s, experiment.seed)

    def registrations(self) -> Iterator[Registration]:
        """Yields registrations and renewals in order of time, until the end of the experiment."""
        every = (
            Registration(each.begin_s(number), each, number)
            for each in self.subscriptions
            for number in range(each.rounds)
        )
        due = [each for each in every if each.at_s <= self.duration_s]
        yield from sorted(due, key=lambda each: (each.at_s, each.subscription.number))

    def published(self, action: str) -> Iterator[Item]:
        """Yields the publications as requests, at a constant rate; event and node of each are drawn."""
        options, random = self._options, self._stream("publishing routers")
        contents = [Message({EVENT: event}) for event in range(options.events)]
        for at_s, event in zip(self._times(options.publications), self._picks(), strict=True):
            node = int(random.random() * self._nodes)
            if at_s <= self.duration_s:
                yield Item(at_s, node, action, attributes=contents[event])

    def _times(self, count: int) -> Iterator[float]:
        """Yields times at a constant rate, the middle of an interval each: none is second 0."""
        interval_s = self.duration_s / max(1, count)
        for number in range(count):
            yield round((number + 0.5) * interval_s, _DIGITS)

    def _subscribe(self) -> list[Subscription]:
        options, random, renewing = self._options, self._stream("subscriptions"), self._stream("renewals")
        events = random.choices(range(options.events), self.popularities, k=options.subscriptions)
        found = []
        for number, at_s in enumerate(self._times(options.subscriptions)):
            event = events[number]
            node = random.choice(self.hosts[event])
            rounds = 1
            while renewing.random() < options.refresh_probability:
                rounds += 1
            limits = self._limits(random)
            if at_s < options.subscriptions_from_s:
                continue
            found.append(Subscription(number, at_s, node, event, *limits, rounds, options.refresh_delay_s))
        return found

    def _limits(self, random: Random) -> tuple[int, float, float]:
        options = self._options
        if options.draw == "constant":
            return options.max, options.lifetime_s, options.freshness_s
        # 1 - random() is above 0.
        return (
            random.randint(1, options.max),
            max(10**-_DIGITS, round((1 - random.random()) * options.lifetime_s, _DIGITS)),
            max(10**-_DIGITS, round((1 - random.random()) * options.freshness_s, _DIGITS)),
        )

    def _picks(self) -> Iterator[int]:
        options, random = self._options, self._stream("events of publications")
        left = volumes(self.popularities, options.publications)
        if options.pick == "remaining":
            # Drawing in proportion to what is left is a random permutation of all publications.
            urn = array("H", (event for event, volume in enumerate(left) for _ in range(volume)))
            for last in range(len(urn) - 1, -1, -1):
                drawn = int(random.random() * (last + 1))
                urn[drawn], urn[last] = urn[last], urn[drawn]
                yield urn[last]
            return
        active = [event for event, volume in enumerate(left) if volume]
        while active:
            position = int(random.random() * len(active))
            event = active[position]
            left[event] -= 1
            if not left[event]:
                active[position] = active[-1]
                active.pop()
            yield event

    def _stream(self, label: str) -> Random:
        # A string seeds by its SHA-512, which is equal on every Python.
        return Random(f"{self._seed}/attention/{label}")


def predicate_of(event: int) -> str:
    return f"{EVENT} = {event}"


def _subscribed(demand: Demand) -> list[Item]:
    """As exhaustive semantics serves the workload: subscribed from the registration to the last expiry."""
    items = []
    for each in demand.subscriptions:
        name = f"s{each.number}"
        predicate = predicate_of(each.event)
        items.append(Item(each.at_s, each.node, "subscribe", predicate=predicate, subscription=name))
        until_s = round(each.begin_s(each.rounds - 1) + each.lifetime_s, 6)
        if until_s <= demand.duration_s:
            items.append(Item(until_s, each.node, "unsubscribe", subscription=name))
    # Of equal times, the end comes first.
    return sorted(items, key=lambda item: (item.at_s, item.action == "subscribe"))


def _registered(demand: Demand) -> Iterator[Item]:
    """As the attention-limited service serves the workload."""
    for at_s, each, number in demand.registrations():
        name = f"s{each.number}"
        if number:
            yield Item(at_s, each.node, "refresh", subscription=name)
        else:
            yield Item(
                *(at_s, each.node, "register"),
                predicate=predicate_of(each.event),
                subscription=name,
                max=each.max,
                lifetime_s=each.lifetime_s,
                freshness_s=each.freshness_s,
            )


#: The commands that a service must have, the last of which publishes -> the other requests, in order of time.
REQUESTS: Mapping[tuple[str, ...], Callable[[Demand], Iterable[Item]]] = {
    ("subscribe", "unsubscribe", "send_message"): _subscribed,
    ("register", "refresh", "publish"): _registered,
}


@dataclass(frozen=True)
class Fluid:
    """The model of figure 2: expected results of a workload of table 1, computed without a network.

    Arrivals are Poisson, a router is active for an event if it has a subscription in its lifetime, and a
    router receives each publication at most once. A renewal needs publications that its router has not used,
    a new subscription is served from the cache of its router. Subscriptions come from second 0 on, whatever
    `subscriptions_from_s` says. Sizes are deliveries to routers: crossings are these times the mean length of
    a path, which caches make shorter.

    Attributes:
        options: of the workload.
        nodes: N.
        duration_s: T.
        buffer: B_i, publications that a router keeps.
    """

    options: AttentionWorkload
    nodes: int
    duration_s: float
    buffer: int = 2500

    @property
    def active(self) -> float:
        """Mean number of subscriptions in their lifetime."""
        options = self.options
        rate = options.subscriptions / self.duration_s
        return rate * options.lifetime_s / (1 - options.refresh_probability)

    @property
    def renewals(self) -> float:
        options = self.options
        return options.subscriptions * options.refresh_probability / (1 - options.refresh_probability)

    def exhaustive_deliveries(self) -> float:
        """Returns the publications that routers receive with exhaustive semantics (CBR)."""
        return sum(
            self.options.publications * share * hosts * (1 - math.exp(-self.active * share / hosts))
            for share, hosts in self._by_event()
        )

    def limited_deliveries(self) -> float:
        """Returns the publications that routers receive for renewals.

        Renewals of a router that collect at the same time share publications.
        """
        options, total = self.options, 0.0
        for share, hosts in self._by_event():
            rate = options.publications * share / self.duration_s
            collecting_s = min(options.lifetime_s, options.max / rate) if rate else options.lifetime_s
            renewing = self.renewals * share / hosts / self.duration_s
            total += rate * self.duration_s * hosts * (1 - math.exp(-renewing * collecting_s))
        return total

    def saved_bandwidth(self) -> float:
        """Returns the share of deliveries to routers that the framework saves against CBR."""
        return 1 - self.limited_deliveries() / self.exhaustive_deliveries()

    def visited(self) -> float:
        """Returns the mean number of further routers whose pending publications a renewal needs.

        Each router keeps B_i p_i publications of the event.
        """
        most = self.nodes - 1
        return sum(
            share * min(most, max(0.0, self.options.max / (self.buffer * share) - 1))
            for share, _ in self._by_event()
        )

    def control_share(self) -> float:
        """Returns the crossings of SUBs over those of CBR, which floods every registration and renewal."""
        flooded = (self.options.subscriptions + self.renewals) * (self.nodes - 1)
        return self.renewals * self.visited() / flooded

    def _by_event(self) -> list[tuple[float, int]]:
        """p_i and hosting routers by event."""
        shares = popularities(self.options.events, self.options.exponent)
        hosts = (max(1, math.ceil(each * self.nodes - 1e-9)) for each in localities(self.options))
        return list(zip(shares, hosts, strict=True))
