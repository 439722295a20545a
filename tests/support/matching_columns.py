"""Tables of predicates as columns."""

from __future__ import annotations

from collections.abc import Mapping

from router.matching.columns import ColumnsBuilder, ConstraintColumns
from router.predicates.model import Predicate


def to_columns(table: Mapping[int, Predicate]) -> ConstraintColumns:
    """The predicates of a table, by interface, as columns."""
    builder = ColumnsBuilder()
    for interface in sorted(table):
        for filter_ in table[interface]:
            builder.add(interface, filter_)
    return builder.build()
