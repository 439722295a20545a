"""Tables of one router, and of the routers of a network, with the filters of the same receivers.

Router u of a network has an interface for each neighbour, with the filters of all receivers that it reaches
through it on T_u, and one, p0, with those of its own receivers. A message that p0 selects is matched against
the predicates of the own receivers, a table by themselves (docs/explanation/engine.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from router.matching.common.columns import ConstraintColumns, to_predicates
from router.matching.engines import COMPILED, Matcher, factory
from router.predicates.model import Filter, Predicate
from testbed.controller.trees import Tree
from testbed.evaluation.alpha.conjunctions import Conjunctions, kept

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
        table: of the workload of `testbed.evaluation.alpha.conjunctions`.
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
