"""Matching at one router and along the paths of a network, measured in this process.

Matching stops at an interface whose predicate the message matches: fewer interfaces mean shorter searches,
and that is the network effect. Times are the best of several repetitions, in wall or CPU time.

Router u of a network has an interface for each neighbour, with the filters of all receivers that it reaches
through it on T_u, and one, p0, with those of its own receivers. A message that p0 selects is matched against
the predicates of the own receivers, a table by themselves (docs/explanation/engine.md).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from router.matching.columns import ConstraintColumns, to_predicates
from router.matching.engines import COMPILED, Matcher, factory
from router.predicates import Filter, Message, Predicate
from testbed.controller.trees import Tree, spt_trees
from testbed.evaluation.figures.alpha_conjunctions import Conjunctions, kept
from testbed.experiments.siena_ff.generate import MatchingWorkload, draw_messages, draw_table
from testbed.support.usage import object_bytes
from topos import Topology
from topos.generators import tree, waxman

#: The interface of p0; those to neighbours are numbered as the neighbours.
LOCAL = 1_000_000
#: The interface of receivers whose filters are no part of a table.
ABSENT = -1

Ints = npt.NDArray[np.int32]


def regrouped(table: ConstraintColumns, interface_of: Ints) -> ConstraintColumns:
    """Returns the table with other interfaces.

    Args:
        interface_of: former interface -> interface, or `ABSENT`.
    """
    interfaces = interface_of[table.interface]
    order = np.argsort(interfaces, kind="stable")
    order = order[np.searchsorted(interfaces[order], 0) :]
    return replace(_chosen(table, order), interface=interfaces[order])


def covered(table: ConstraintColumns) -> ConstraintColumns:
    """Returns the table without filters that another one of their interface covers; of equal ones, one.

    As covering keeps a predicate (docs/explanation/engine.md), but that filters are not merged.

    Args:
        table: of the workload of `testbed.evaluation.figures.alpha_conjunctions`.
    """
    filters = Conjunctions.of_columns(table)
    begins = np.flatnonzero(np.diff(table.interface, prepend=-1)).tolist()
    ends = [*begins[1:], table.filters]
    needed = [begin + kept(filters.part(begin, end - begin)) for begin, end in zip(begins, ends, strict=True)]
    return _chosen(table, np.concatenate(needed))


def _chosen(table: ConstraintColumns, rows: npt.NDArray[np.int64]) -> ConstraintColumns:
    """Returns some filters of a table, in another order."""
    sizes = np.diff(table.start)[rows]
    start = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    # The places of the constraints of each filter, in the new order of the filters.
    places = np.repeat(table.start[:-1][rows] - start[:-1], sizes) + np.arange(start[-1])
    return replace(
        table,
        interface=table.interface[rows],
        start=start,
        **{each: getattr(table, each)[places] for each in ("name", "type", "operator", "value")},
    )


def at_router(trees: Mapping[int, Tree], router: int, receivers: int) -> Ints:
    """Returns the interface of each receiver (numbered from 1) at a router; receiver r is at r % routers."""
    found = np.full(receivers + 1, ABSENT, dtype=np.int32)
    for receiver in range(1, receivers + 1):
        node = receiver % len(trees)
        found[receiver] = LOCAL if node == router else trees[node].parents[router]
    return found


def own_receivers(trees: Mapping[int, Tree], router: int, receivers: int) -> Ints:
    """Returns each own receiver of a router as an interface by itself, and the others as `ABSENT`."""
    numbers = np.arange(receivers + 1, dtype=np.int32)
    return np.where((numbers > 0) & (numbers % len(trees) == router), numbers, np.int32(ABSENT))


def engines(engine: str, table: ConstraintColumns, covering: bool) -> Callable[[Ints], Matcher]:
    """Returns a function of (former interface -> interface) that loads the table with other interfaces.

    Args:
        covering: each interface without the filters that others of its own cover.
    """
    table = covered(table) if covering else table

    def columns(interface_of: Ints) -> ConstraintColumns:
        found = regrouped(table, interface_of)
        return covered(found) if covering else found

    def of_columns(interface_of: Ints) -> Matcher:
        matcher = factory(engine)
        matcher.load(columns(interface_of))
        return matcher

    if covering or engine == COMPILED:
        return of_columns
    # Made once for all routers: 1,000,000 constraints as objects take seconds.
    predicates = to_predicates(table)

    def of_objects(interface_of: Ints) -> Matcher:
        filters: dict[int, list[Filter]] = {}
        for interface, predicate in predicates.items():
            if (other := int(interface_of[interface])) != ABSENT:
                filters.setdefault(other, []).extend(predicate)
        matcher = factory(engine)
        for interface, united in filters.items():
            matcher.set_predicate(interface, Predicate(tuple(united)))
        return matcher

    return of_objects


_REPETITIONS = 3
#: Paths that are measured, of each network.
PATHS = 4
#: Messages, as in the evaluation of the slides.
MESSAGES = 100

#: Name of a network -> a function of the seed that makes it.
NETWORKS: Mapping[str, Callable[[int], Topology]] = {
    "4 Waxman routers": lambda seed: waxman(4, seed=seed),
    "10 Waxman routers": lambda seed: waxman(10, seed=seed),
    "100 Waxman routers": lambda seed: waxman(100, seed=seed),
    "200 Waxman routers": lambda seed: waxman(200, seed=seed),
    "tree of 121 routers": lambda _: tree(4, 3),
}


def measured(facts: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Measures a case of `NetworkEffect`: both arrangements of the same receivers.

    The network is measured along the paths of `PATHS` (sender, receiver) pairs, drawn among those of the
    messages and the receivers that they match, and at the router that most messages cross: a table of
    1,000,000 constraints takes seconds to load, for each router.

    Args:
        facts: `engine`; `network`, a key of `NETWORKS`; `receivers`; `constraints` of all receivers;
            `covering`: filters that others of their interface cover are dropped, in both arrangements.

    Returns:
        single_us, path_us: matching time of a message at the single router, in the mean of its measurements
        beside each router of a path, and along the path to a receiver, means over the messages that match the
        receivers drawn; forward_us: the part of path_us that decides about neighbours, without own receivers;
        hops: mean length of the paths; single_total_us, busiest_us: matching time of all messages at the
        single router and at the router of the network that most cross;
        pairs: (message, path) pairs measured; single_bytes, busiest_bytes: memory of the engine's table at
        the single router and at that router; routers_measured.
    """
    workload = MatchingWorkload(
        constraints=facts["constraints"], interfaces=facts["receivers"], messages=MESSAGES, seed=seed
    )
    drawn = list(draw_messages(workload))
    network = _Network(spt_trees(NETWORKS[facts["network"]](seed)).trees(), facts["receivers"])
    engine_of = engines(facts["engine"], draw_table(workload), facts["covering"])
    single = engine_of(np.arange(network.receivers + 1, dtype=np.int32))
    return _Measurement(network, engine_of, drawn, single, Random(seed)).along_paths()


class _Network:
    """The trees of a network, and its receivers: receiver r (from 1 on) is at router r % routers."""

    def __init__(self, trees: Mapping[int, Tree], receivers: int) -> None:
        self.trees, self.receivers, self.routers = trees, receivers, len(trees)

    def path(self, source: int, receiver: int) -> list[int]:
        """Returns the routers from that of a receiver back to the source, both included."""
        parents, path = self.trees[source].parents, [receiver % self.routers]
        while path[-1] != source:
            path.append(parents[path[-1]])
        return path

    def below(self, source: int, router: int) -> list[int]:
        """Returns the children of a router on the tree of a source, which are interfaces."""
        parents = self.trees[source].parents
        return [node for node in range(self.routers) if parents[node] == router and node != source]


class _Measurement:
    """The paths and routers that are measured, and the messages at each."""

    def __init__(
        self,
        network: _Network,
        engine_of: Callable[..., Matcher],
        messages: Sequence[Message],
        single: Matcher,
        random: Random,
    ) -> None:
        self._network, self._engine_of, self._messages, self._single = network, engine_of, messages, single
        matched = [sorted(single.match(message)) for message in messages]
        sources = [random.randrange(network.routers) for _ in messages]
        pairs = [(number, receiver) for number, found in enumerate(matched) for receiver in found]
        chosen = random.sample(pairs, min(PATHS, len(pairs)))
        self._paths = {
            (sources[number], receiver): network.path(sources[number], receiver)
            for number, receiver in chosen
        }
        # Along each path all messages that match its receiver, as if its sender had sent them.
        self._carried = {
            key: [number for number, found in enumerate(matched) if key[1] in found] for key in self._paths
        }
        #: Router -> (source, number of the message).
        self._asked: dict[int, set[tuple[int, int]]] = {}
        for (source, receiver), path in self._paths.items():
            for router in path:
                visits = ((source, number) for number in self._carried[source, receiver])
                self._asked.setdefault(router, set()).update(visits)
        crossings = _crossings(network, sources, matched)
        self._busiest = max(crossings, key=lambda router: (len(crossings[router]), -router), default=0)
        self._at_busiest = sorted((sources[number], number) for number in crossings.get(self._busiest, ()))
        self._asked.setdefault(self._busiest, set()).update(self._at_busiest)

    def along_paths(self) -> dict[str, Any]:
        """Measures each message at a router and, next, at the single router: other load counts for both."""
        whole: dict[tuple[int, int, int], float] = {}
        forward: dict[tuple[int, int, int], float] = {}
        beside: dict[tuple[int, int, int], float] = {}
        busiest_bytes, single_total_us = 0, 0.0
        for router in sorted(self._asked):
            place = self._network.trees, router, self._network.receivers
            matcher, applications = self._engine_of(at_router(*place)), self._engine_of(own_receivers(*place))
            if router == self._busiest:
                busiest_bytes = _bytes(matcher) + _bytes(applications)
                single_total_us = sum(best_us(self._single, message, None) for message in self._messages)
            for source, number in sorted(self._asked[router]):
                message, below = self._messages[number], self._network.below(source, router)
                forward[router, source, number] = best_us(matcher, message, below)
                taken = best_us(matcher, message, [*below, LOCAL])
                if LOCAL in matcher.match(message, [LOCAL]):
                    taken += best_us(applications, message, None)
                whole[router, source, number] = taken
                beside[router, source, number] = best_us(self._single, message, None)
        pairs = [(key[0], number, path) for key, path in self._paths.items() for number in self._carried[key]]

        def along(
            times: Mapping[tuple[int, int, int], float], of: Callable[[Sequence[float]], float] = sum
        ) -> float | None:
            return _mean([of([times[router, source, n] for router in path]) for source, n, path in pairs])

        return {
            "single_us": along(beside, statistics.fmean),
            "single_total_us": single_total_us,
            "single_bytes": _bytes(self._single),
            "path_us": along(whole),
            "forward_us": along(forward),
            "hops": _mean([len(path) - 1 for _, _, path in pairs]),
            "busiest_us": sum(whole[self._busiest, source, number] for source, number in self._at_busiest),
            "pairs": len(pairs),
            "busiest_bytes": busiest_bytes,
            "routers_measured": len(self._asked),
        }


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def best_us(matcher: Matcher, message: Message, among: Sequence[int] | None) -> float:
    """Returns the least time of three matches of a message, in us."""
    best = float("inf")
    for _ in range(_REPETITIONS):
        started, cpu = time.perf_counter(), time.thread_time()
        matcher.match(message, among)
        # Wall time counts other processes, CPU time the call that reads it.
        best = min(best, time.thread_time() - cpu, time.perf_counter() - started)
    return best * 1e6


def _bytes(matcher: Matcher) -> int:
    return object_bytes(matcher) if matcher.nbytes is None else matcher.nbytes


def _crossings(
    network: _Network, sources: Sequence[int], matched: Sequence[Sequence[int]]
) -> dict[int, set[int]]:
    """Returns the messages that each router gets: those whose minimal tree it is in."""
    found: dict[int, set[int]] = {}
    for number, (source, receivers) in enumerate(zip(sources, matched, strict=True)):
        for receiver in receivers:
            for router in network.path(source, receiver):
                found.setdefault(router, set()).add(number)
    return found
