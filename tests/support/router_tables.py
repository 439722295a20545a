"""Routing tables of per-interface schemes as a mapping."""

from __future__ import annotations

from collections.abc import Iterable

from router.predicates import NOTHING, Predicate
from router.protocol.core.router import Router
from router.protocol.schemes import Row


def predicates_of(router: Router) -> dict[int, Predicate]:
    """Interface -> p_i of a router, where p_i is not empty; 0 is p0."""
    return by_interface(router.rows())


def by_interface(rows: Iterable[Row]) -> dict[int, Predicate]:
    """Interface -> p_i of a table whose rows are about one interface and all messages each."""
    found: dict[int, Predicate] = {}
    for row in rows:
        assert row.interface is not None
        assert row.scope == ""
        assert row.interface not in found
        found[row.interface] = row.predicate
    return found


def about(rows: Iterable[Row], source: int | None) -> dict[int, Predicate]:
    """Interface -> the disjunction of the rows that are about messages of a source; None: of any source."""
    found: dict[int, Predicate] = {}
    for row in rows:
        assert row.interface is not None
        if row.sources is None or source is None or source in row.sources:
            filters = found.get(row.interface, NOTHING).filters
            found[row.interface] = Predicate(filters + row.predicate.filters)
    return found
