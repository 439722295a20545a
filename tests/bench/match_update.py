"""Changing one of many interfaces of a large forwarding table, while messages go on being matched."""

from __future__ import annotations

import gc
import statistics
import time
from random import Random

from router.matching.columns import to_predicates
from router.matching.compiled.engine import CompiledMatcher, warm
from router.predicates import Predicate
from router.wire.message import encode_message
from testbed.experiments.siena_ff.generate import MatchingWorkload, draw_messages, draw_table


def _predicates(interfaces: int, each: int) -> list[Predicate]:
    """Predicates of as many constraints as an interface of the table has, of other filters."""
    drawn = draw_table(MatchingWorkload(each * interfaces, interfaces, 1, seed=2))
    return list(to_predicates(drawn).values())


def main(constraints: int = 1_000_000, interfaces: int = 1_000, changes: int = 1_000) -> None:
    """Prints milliseconds from a change until the next message has been matched on the new table."""
    warm()
    workload = MatchingWorkload(constraints, interfaces, 1_000)
    table = draw_table(workload)
    bodies = [encode_message(message) for message in draw_messages(workload)]
    random = Random(1)
    replacements = _predicates(min(changes, interfaces), constraints // interfaces)
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

    matcher = CompiledMatcher()
    matcher.load(table)
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


def _print(what: str, seconds: list[float]) -> None:
    ordered = sorted(seconds)
    median, high = statistics.median(ordered), ordered[len(ordered) * 99 // 100]
    print(f"{what:44} {median * 1e3:8.3f} {high * 1e3:8.3f} {ordered[-1] * 1e3:8.3f}", flush=True)
