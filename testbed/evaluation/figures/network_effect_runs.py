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
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from router.matching.columns import ConstraintColumns
from router.matching.engines import Matcher, factory
from router.predicates import Message
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

    def loaded(interface_of: Ints) -> Matcher:
        found = regrouped(table, interface_of)
        matcher = factory(engine)
        matcher.load(covered(found) if covering else found)
        return matcher

    return loaded


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
    messages, receivers, random = list(draw_messages(workload)), facts["receivers"], Random(seed)
    trees = spt_trees(NETWORKS[facts["network"]](seed)).trees()
    engine_of = engines(facts["engine"], draw_table(workload), facts["covering"])
    single = engine_of(np.arange(receivers + 1, dtype=np.int32))
    matched = [sorted(single.match(message)) for message in messages]
    sources = [random.randrange(len(trees)) for _ in messages]
    pairs = [(number, receiver) for number, found in enumerate(matched) for receiver in found]
    drawn = random.sample(pairs, min(PATHS, len(pairs)))
    chosen = dict.fromkeys((sources[number], receiver) for number, receiver in drawn)
    # Along each path all messages that match its receiver, as if its sender had sent them.
    carried = [
        (source, number, _path(trees, source, receiver))
        for source, receiver in chosen
        for number, found in enumerate(matched)
        if receiver in found
    ]
    crossings = [
        {router for receiver in found for router in _path(trees, source, receiver)}
        for source, found in zip(sources, matched, strict=True)
    ]
    crossed = Counter(router for routers in crossings for router in routers)
    busiest = max(crossed, key=lambda router: (crossed[router], -router), default=0)
    at_busiest = {(sources[number], number) for number, routers in enumerate(crossings) if busiest in routers}
    asked: dict[int, set[tuple[int, int]]] = {busiest: at_busiest.copy()}
    for source, number, path in carried:
        for router in path:
            asked.setdefault(router, set()).add((source, number))
    times: dict[tuple[int, int, int], _Times] = {}
    for router in sorted(asked):
        matcher, applications = (
            engine_of(place(trees, router, receivers)) for place in (at_router, own_receivers)
        )
        if router == busiest:
            busiest_bytes = _bytes(matcher) + _bytes(applications)
            single_total_us = sum(best_us(single, message, None) for message in messages)
        for source, number in sorted(asked[router]):
            message, parents = messages[number], trees[source].parents
            below = [node for node in range(len(trees)) if parents[node] == router and node != source]
            forward_us = best_us(matcher, message, below)
            path_us = best_us(matcher, message, [*below, LOCAL])
            if LOCAL in matcher.match(message, [LOCAL]):
                path_us += best_us(applications, message, None)
            # Next to the router's: other load of the machine counts for both.
            times[router, source, number] = _Times(forward_us, path_us, best_us(single, message, None))
    along = [[times[router, source, number] for router in path] for source, number, path in carried]
    return {
        "single_us": _mean([statistics.fmean(each.single_us for each in path) for path in along]),
        "single_total_us": single_total_us,
        "single_bytes": _bytes(single),
        "path_us": _mean([sum(each.path_us for each in path) for path in along]),
        "forward_us": _mean([sum(each.forward_us for each in path) for path in along]),
        "hops": _mean([len(path) - 1 for path in along]),
        "busiest_us": sum(times[busiest, source, number].path_us for source, number in at_busiest),
        "pairs": len(along),
        "busiest_bytes": busiest_bytes,
        "routers_measured": len(asked),
    }


class _Times(NamedTuple):
    """The times of a message at a router, without and with its own receivers, and at the single router."""

    forward_us: float
    path_us: float
    single_us: float


def _path(trees: Mapping[int, Tree], source: int, receiver: int) -> list[int]:
    """Returns the routers from that of a receiver back to the source, both included."""
    path = [receiver % len(trees)]
    while path[-1] != source:
        path.append(trees[source].parents[path[-1]])
    return path


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
