"""The network effect (slides on forwarding): one table at a single router, or spread over a network.

The population of filters is that of the project's measurements of matching. (A) One router has an interface
for each receiver. (B) The receivers are attached to the routers of a network, and router u has an interface
for each neighbour, with the filters of all receivers that it reaches through it on T_u, and one for each own
receiver. Matching stops at an interface whose predicate the message matches: fewer interfaces mean shorter
searches, and that is the effect. Times are those of the engines in this process, the best of several
repetitions, in wall or CPU time.
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

from router.matching.common.columns import ConstraintColumns, to_predicates
from router.matching.common.interface import Matcher, TableMatcher
from router.matching.common.loading import load
from router.matching.factory import factory
from router.predicates.model import Filter, Message, Predicate
from testbed.controller.trees import Forest, spt_trees
from testbed.figures.reproduction import Case, Panel, Reproduction, Results, Statement
from testbed.siena_ff.generate import draw_messages, draw_table
from testbed.siena_ff.parameters import MatchingWorkload
from topos.generators import waxman

_ENGINES = ("counting", "compiled")
_REPETITIONS = 3
#: Paths that are measured, of each network.
_PATHS = 6
#: Interfaces to own receivers are numbered from here on, those to neighbours as the neighbours.
_LOCAL = 1_000_000
#: CPU time of a hop of the emulated default experiment (docs/fast-path.md, `bench emulated_hops`), us.
_HOP_US = 60.0


def regrouped(table: ConstraintColumns, interface_of: npt.NDArray[np.int32]) -> ConstraintColumns:
    """Returns the table with other interfaces.

    Args:
        interface_of: former interface -> interface.
    """
    interfaces = interface_of[table.interface]
    order = np.argsort(interfaces, kind="stable")
    sizes = np.diff(table.start)[order]
    start = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    # The places of the constraints of each filter, in the new order of the filters.
    places = np.repeat(table.start[:-1][order] - start[:-1], sizes) + np.arange(start[-1])
    return replace(
        table,
        interface=interfaces[order],
        start=start,
        **{each: getattr(table, each)[places] for each in ("name", "type", "operator", "value")},
    )


def at_router(forest: Forest, router: int, receivers: int, routers: int) -> npt.NDArray[np.int32]:
    """Returns the interface of each receiver (numbered from 1) at a router; receiver r is at r % routers."""
    found = np.zeros(receivers + 1, dtype=np.int32)
    for receiver in range(1, receivers + 1):
        node = receiver % routers
        away = node == router
        found[receiver] = _LOCAL + receiver if away else forest.trees[node].parents[router]
    return found


def _engines(engine: str, table: ConstraintColumns) -> Callable[[npt.NDArray[np.int32]], Matcher]:
    """Returns a function of (former interface -> interface) that loads the table with other interfaces."""
    if isinstance(factory(engine), TableMatcher):

        def of_columns(interface_of: npt.NDArray[np.int32]) -> Matcher:
            matcher = factory(engine)
            load(matcher, regrouped(table, interface_of))
            return matcher

        return of_columns
    # Made once for all routers: 1,000,000 constraints as objects take seconds.
    predicates = to_predicates(table)

    def of_objects(interface_of: npt.NDArray[np.int32]) -> Matcher:
        filters: dict[int, list[Filter]] = {}
        for interface, predicate in predicates.items():
            filters.setdefault(int(interface_of[interface]), []).extend(predicate)
        matcher = factory(engine)
        for interface, united in filters.items():
            matcher.set_predicate(interface, Predicate(tuple(united)))
        return matcher

    return of_objects


def _best_us(matcher: Matcher, message: Message, among: Sequence[int] | None) -> float:
    best = float("inf")
    for _ in range(_REPETITIONS):
        started, cpu = time.perf_counter(), time.thread_time()
        matcher.match(message, among)
        # Wall time counts other processes, CPU time the call that reads it.
        best = min(best, time.thread_time() - cpu, time.perf_counter() - started)
    return best * 1e6


def measure(
    engine: str, constraints: int, receivers: int, routers: int, messages: int, seed: int
) -> dict[str, Any]:
    """Measures both arrangements.

    The network is measured along the paths of `_PATHS` (sender, receiver) pairs, drawn among those of the
    messages and the receivers that they match, and at the router that most messages cross: a table of
    1,000,000 constraints takes the papers' algorithm half a minute to load, for each router.

    Returns:
        single_us, path_us: matching time of a message at the single router, and along the path to a receiver,
        means over the messages that match the receivers drawn; forward_us: the part of path_us that decides
        about neighbours, without own receivers; hops: mean length of the paths; single_total_us, busiest_us:
        matching time of all messages at the single router and at the router of the network that most cross;
        pairs: (message, path) pairs measured; single_bytes, router_bytes: memory of the engine's table at the
        single router and, on average, at a router measured; routers_measured.
    """
    workload = MatchingWorkload(constraints=constraints, interfaces=receivers, messages=messages, seed=seed)
    table, drawn = draw_table(workload), list(draw_messages(workload))
    forest = spt_trees(waxman(routers, seed=seed))
    random = Random(seed)
    sources = [random.randrange(routers) for _ in drawn]
    engine_of = _engines(engine, table)
    single = engine_of(np.arange(receivers + 1, dtype=np.int32))
    matched = [sorted(single.match(message)) for message in drawn]
    single_us = [_best_us(single, message, None) for message in drawn]
    single_bytes = single.nbytes if isinstance(single, TableMatcher) else None
    del single
    pairs = [(number, receiver) for number, found in enumerate(matched) for receiver in found]
    paths = {
        (sources[number], receiver): _path(forest, sources[number], receiver % routers)
        for number, receiver in random.sample(pairs, min(_PATHS, len(pairs)))
    }
    # Along each path all messages that match its receiver, as if its sender had sent them.
    carried = {key: [number for number, found in enumerate(matched) if key[1] in found] for key in paths}
    asked: dict[int, set[tuple[int, int]]] = {}
    for (source, receiver), path in paths.items():
        for router in path:
            asked.setdefault(router, set()).update((source, number) for number in carried[source, receiver])
    crossings = _crossings(forest, sources, matched, routers)
    busiest = max(crossings, key=lambda router: (len(crossings[router]), -router), default=0)
    asked.setdefault(busiest, set()).update(
        (sources[number], number) for number in crossings.get(busiest, ())
    )
    whole: dict[tuple[int, int, int], float] = {}
    forward: dict[tuple[int, int, int], float] = {}
    bytes_at: list[int] = []
    for router in sorted(asked):
        matcher = engine_of(at_router(forest, router, receivers, routers))
        if isinstance(matcher, TableMatcher):
            bytes_at.append(matcher.nbytes)
        own = [_LOCAL + receiver for receiver in range(1, receivers + 1) if receiver % routers == router]
        for source, number in sorted(asked[router]):
            parents = forest.trees[source].parents
            below = [node for node in range(routers) if parents[node] == router]
            whole[router, source, number] = _best_us(matcher, drawn[number], below + own)
            forward[router, source, number] = _best_us(matcher, drawn[number], below)
    measured_ = [(key[0], number, paths[key]) for key in sorted(paths) for number in carried[key]]

    def along(times: Mapping[tuple[int, int, int], float]) -> float | None:
        sums = [sum(times[router, source, number] for router in path) for source, number, path in measured_]
        return statistics.fmean(sums) if sums else None

    return {
        "single_us": statistics.fmean(single_us[number] for _, number, _ in measured_) if measured_ else None,
        "path_us": along(whole),
        "forward_us": along(forward),
        "hops": statistics.fmean(len(path) - 1 for _, _, path in measured_) if measured_ else None,
        "single_total_us": sum(single_us),
        "busiest_us": sum(whole[busiest, sources[number], number] for number in crossings.get(busiest, ())),
        "pairs": len(measured_),
        "single_bytes": single_bytes,
        "router_bytes": statistics.fmean(bytes_at) if bytes_at else None,
        "routers_measured": len(asked),
    }


def measured(facts: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Measures a case of `NetworkEffect`: 10 receivers a router, 100 messages."""
    routers = facts["routers"]
    return measure(facts["engine"], facts["constraints"], 10 * routers, routers, 100, seed)


def _crossings(
    forest: Forest, sources: Sequence[int], matched: Sequence[Sequence[int]], routers: int
) -> dict[int, set[int]]:
    """Returns the messages that each router gets: those whose minimal tree it is in."""
    found: dict[int, set[int]] = {}
    for number, (source, receivers) in enumerate(zip(sources, matched, strict=True)):
        for end in {receiver % routers for receiver in receivers}:
            for router in _path(forest, source, end):
                found.setdefault(router, set()).add(number)
    return found


def _path(forest: Forest, source: int, end: int) -> list[int]:
    """Returns the routers from `end` back to the source, both included."""
    parents, path = forest.trees[source].parents, [end]
    while path[-1] != source:
        path.append(parents[path[-1]])
    return path


class NetworkEffect(Reproduction):
    title = "The network effect"
    paper = (
        "End-to-end latency, two scenarios: single router, latency of 350 ms; many routers, latency of 40 ms "
        "(slides on forwarding): a ratio of 8.75.",
    )
    deviations = (
        "The slides give neither the constraints nor the routers or the path lengths. Receivers are 10 a "
        "router, and tables are swept up to the size stated below.",
        "Matching alone is measured, in one process: the sum over the routers of a path against the single "
        "router. No predicates are simplified in either arrangement, and messages do not wait "
        "for each other.",
        "Whether the network is faster from end to end depends on what a hop costs beside matching. The page "
        f"gives the cost at which both are equal; a hop between live routers takes some "
        f"{_HOP_US:.0f} us of CPU "
        "time (docs/fast-path.md).",
        f"Along each of {_PATHS} paths, from the sender of a message to a receiver that it matches, every "
        "message that matches the receiver is measured; the busiest router is the one that most messages "
        "cross. Times without own receivers are of the neighbours below the router alone: the slides' tables "
        "(I5,f2000) have few interfaces, all of them large, as at a router without receivers. A search ends "
        "when all interfaces have matched, and an own receiver, whose predicate is small, makes it go on.",
    )

    measure = "testbed.figures.network_effect:measured"
    calculates = True

    def cases(self, size: str) -> list[Case]:
        sizes, routers = ((10_000, 100_000, 1_000_000), 100) if size == "paper" else ((5_000, 50_000), 10)
        return [
            Case(
                f"{engine}, {constraints:,} constraints",
                {},
                {
                    "engine": engine,
                    "constraints": constraints,
                    "routers": routers,
                    "last": constraints == sizes[-1],
                },
            )
            for engine in _ENGINES
            for constraints in sizes
        ]

    def judge(self, results: Results) -> list[Statement]:
        found = []
        for case in results:
            single, path = results.median(case, "single_us"), results.median(case, "path_us")
            hops = results.median(case, "hops")
            # The paper's algorithm at the largest table of the full size.
            judged = case.facts["engine"] == "counting" and case.facts["last"] and case.facts["routers"] >= 50
            found.append(
                Statement(
                    f"{case.label}: many routers match faster than one"
                    + (" (at least 5 times)" if judged else ""),
                    "8.75 (slides)",
                    f"{single / path:.3g} times: {results.band(case, 'single_us')} us at one, "
                    f"{results.band(case, 'path_us')} us along {hops:.2g} hops",
                    single / path >= 5 if judged else None,
                )
            )
            forward = results.median(case, "forward_us")
            found.append(
                Statement(
                    f"{case.label}: the same, without the routers' own receivers",
                    "8.75 (slides)",
                    f"{single / forward:.3g} times: {results.band(case, 'forward_us')} us along the path",
                    None,
                )
            )
            even = (single - path) / hops
            found.append(
                Statement(
                    f"{case.label}: a hop may cost this, beside matching, for the network to be faster",
                    f"{_HOP_US:.0f} us between live routers",
                    f"{even:.3g} us" if even > 0 else "nothing: the single router is faster",
                    None,
                )
            )
            busiest, total = results.median(case, "busiest_us"), results.median(case, "single_total_us")
            found.append(
                Statement(
                    f"{case.label}: load of the busiest router over that of the single one",
                    "",
                    f"{busiest / total:.3g}",
                    None,
                )
            )
            if results.values(case, "single_bytes"):
                alone, each = results.median(case, "single_bytes"), results.median(case, "router_bytes")
                found.append(
                    Statement(
                        f"{case.label}: memory of the engine at one router; at each router of the network",
                        "about the same: every router has the filters of all other receivers",
                        f"{alone / 1e6:.3g} MB; {each / 1e6:.3g} MB, over "
                        f"{results.median(case, 'routers_measured'):.3g} routers",
                        None,
                    )
                )
            delay = path + hops * _HOP_US
            found.append(
                Statement(
                    f"{case.label}: delay from end to end with {_HOP_US:.0f} us a hop, without links",
                    "",
                    f"{single:.3g} us at one router, {delay:.3g} us along the path",
                    None,
                )
            )
        return found

    def panels(self, results: Results) -> list[Panel]:
        found = []
        for engine in _ENGINES:
            cases = [case for case in results if case.facts["engine"] == engine]
            curves: dict[str, list[list[tuple[float, float]]]] = {}
            for label, key in (
                ("one router", "single_us"),
                ("along the path", "path_us"),
                ("along the path, without own receivers", "forward_us"),
            ):
                runs = [results.values(case, key) for case in cases]
                seeds = min(map(len, runs), default=0)
                curves[label] = [
                    [
                        (case.facts["constraints"], values[seed])
                        for case, values in zip(cases, runs, strict=True)
                    ]
                    for seed in range(seeds)
                ]
            found.append(Panel(engine, "matching time (us)", curves, x="constraints", percent=False))
        return found
