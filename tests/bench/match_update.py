"""Changing one of many interfaces of a large forwarding table, while messages go on being matched."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Iterator
from random import Random

from router.matching.columns import ConstraintColumns, to_predicates
from router.matching.compiled.engine import CompiledMatcher, warm
from router.predicates import Filter, Predicate
from router.wire.message import encode_message
from testbed.experiments.siena_ff.generate import MatchingWorkload, draw_messages, draw_table

_BURST = 1_000


def _predicates(interfaces: int, each: int) -> list[Predicate]:
    """Predicates of as many constraints as an interface of the table has, of other filters."""
    drawn = draw_table(MatchingWorkload(each * interfaces, interfaces, 1, seed=2))
    return list(to_predicates(drawn).values())


def _filters(predicates: list[Predicate]) -> Iterator[Filter]:
    for predicate in predicates:
        yield from predicate


def main(constraints: int = 1_000_000, interfaces: int = 1_000, changes: int = 1_000) -> None:
    """Prints milliseconds from a change until the next message has been matched on the new table."""
    warm()
    workload = MatchingWorkload(constraints, interfaces, 1_000)
    table = draw_table(workload)
    bodies = [encode_message(message) for message in draw_messages(workload)]
    random = Random(1)
    replacements = _predicates(min(changes, interfaces), constraints // interfaces)
    additions = list(_filters(_predicates(200, 100)))
    # The objects above are a million for the collector of cycles, and none of a router's.
    gc.collect()
    gc.freeze()
    print(f"{constraints:,} constraints, {interfaces:,} interfaces; milliseconds, the next message included")
    print(f"{'':44} {'median':>8} {'99 %':>8} {'worst':>8}")

    builds = []
    for _ in range(3):
        matcher = CompiledMatcher()
        started = time.perf_counter()
        matcher.load(table)
        matcher.match_encoded(bodies[0])
        builds.append(time.perf_counter() - started)
    _print("the whole table built anew", builds)

    matcher = _loaded(table)
    times, between = [], []
    for predicate in replacements:
        interface, body = random.randint(1, interfaces), random.choice(bodies)
        started = time.perf_counter()
        matcher.set_predicate(interface, predicate)
        matcher.match_encoded(body)
        times.append(time.perf_counter() - started)
        for body in random.sample(bodies, 20):
            started = time.perf_counter()
            matcher.match_encoded(body)
            between.append(time.perf_counter() - started)
    _print(f"one interface replaced ({constraints // interfaces:,} constraints)", times)
    _print("a message between these changes", between)

    matcher.set_predicate(1, replacements[0])
    times = []
    for number in range(changes):
        added, body = additions[number % len(additions)], random.choice(bodies)
        started = time.perf_counter()
        matcher.change(1, (), (added,))
        matcher.match_encoded(body)
        times.append(time.perf_counter() - started)
    _print("one interface widened by a filter", times)

    matcher = _loaded(table)
    started = time.perf_counter()
    own: dict[int, list[Filter]] = {}
    for number in range(_BURST):
        interface = random.randint(1, 50)
        own.setdefault(interface, []).append(additions[number % len(additions)])
        matcher.set_predicate(interface, Predicate(tuple(own[interface])))
    matcher.match_encoded(bodies[0])
    _print(f"a burst of {_BURST:,} RAs, then a message", [time.perf_counter() - started])


def _loaded(table: ConstraintColumns) -> CompiledMatcher:
    matcher = CompiledMatcher()
    matcher.load(table)
    return matcher


def _print(what: str, seconds: list[float]) -> None:
    ordered = sorted(seconds)
    median, high = statistics.median(ordered), ordered[len(ordered) * 99 // 100]
    print(f"{what:44} {median * 1e3:8.3f} {high * 1e3:8.3f} {ordered[-1] * 1e3:8.3f}", flush=True)
