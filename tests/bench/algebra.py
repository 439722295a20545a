"""Growing a predicate to 10,000 filters, one at a time, and over-simplifying one of 1,000.

Tables: *content*, filters on four or five attributes as the workload generator draws them; *boxes*, intervals
of three attributes, the same for all filters, which hardly meet; *wide boxes*, which overlap a lot, so
that many filters are covered; *points*, single values of one attribute. Times are of the process, taken with
Python's garbage collector off (as `timeit` does), because a collection costs what the whole process holds.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from router.predicates.covering.algebra import covers, simplify
from router.predicates.covering.builder import PredicateBuilder
from router.predicates.covering.oversimplify import oversimplify
from router.predicates.model import Constraint, Filter, Operator, Predicate, Type
from testbed.content.drawing import draw_predicate

_RANGE = 1_000_000


@dataclass(frozen=True)
class _Sizes:
    """One filter of four or five constraints."""

    filters_min: int = 1
    filters_max: int = 1
    constraints_min: int = 4
    constraints_max: int = 5
    attributes_min: int = 5
    attributes_max: int = 5


def _content(random: Random) -> Filter:
    (filter_,) = draw_predicate(random, _Sizes())
    return filter_


def _box(random: Random, widest: int) -> Filter:
    constraints = []
    for name in "xyz":
        low = random.randrange(_RANGE)
        constraints.append(Constraint(name, Type.INTEGER, Operator.GE, low))
        constraints.append(Constraint(name, Type.INTEGER, Operator.LT, low + random.randint(1, widest)))
    return Filter(tuple(constraints))


def _point(random: Random) -> Filter:
    return Filter((Constraint("x", Type.INTEGER, Operator.EQ, random.randrange(_RANGE)),))


_TABLES = {
    "content": _content,
    "boxes": lambda random: _box(random, _RANGE // 50),
    "wide boxes": lambda random: _box(random, _RANGE // 3),
    "points": _point,
}


def _insertions(filters: Iterator[Filter], most: int, builder: PredicateBuilder) -> Iterator[float]:
    """Milliseconds of each insertion, until there are `most` filters or as many were tried three times."""
    for tried, filter_ in enumerate(filters):
        if len(builder) == most or tried == 3 * most:
            return
        predicate = Predicate((filter_,))
        started = time.process_time()
        builder.add(predicate)
        yield (time.process_time() - started) * 1e3


def main(filters: int = 10_000, last: int = 1_000, many: int = 1_000, few: int = 100) -> None:
    """Prints the times of the last insertions, and of over-simplification."""
    print(f"insertion one by one up to {filters} filters: the last {last}, milliseconds")
    print(f"{'':12} {'added':>7} {'filters':>8} {'median':>8} {'99 %':>8} {'worst':>8}")
    for name, draw in _TABLES.items():
        random = Random(f"algebra/{name}")
        builder = PredicateBuilder()
        gc.collect()
        gc.disable()
        try:
            drawn = iter(lambda draw=draw, random=random: draw(random), None)  # type: ignore[misc]
            times = list(_insertions(drawn, filters, builder))
        finally:
            gc.enable()
        end = sorted(times[-last:])
        print(
            f"{name:12} {len(times):7} {len(builder):8} {statistics.median(end):8.2f}"
            f" {end[len(end) * 99 // 100]:8.2f} {end[-1]:8.2f}",
            flush=True,
        )
    print(f"over-simplification of {many} filters to {few}, seconds")
    for name, draw in _TABLES.items():
        random = Random(f"oversimplify/{name}")
        simple = simplify(Predicate(tuple(draw(random) for _ in range(many))))
        started = time.process_time()
        wide = oversimplify(simple, few)
        seconds = time.process_time() - started
        assert covers(wide, simple)
        print(f"{name:12} {len(simple):7} -> {len(wide):4} {seconds:8.2f}", flush=True)
