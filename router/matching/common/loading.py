"""Loading of whole tables into engines with and without support for it."""

from __future__ import annotations

from router.matching.common.columns import ConstraintColumns, to_predicates
from router.matching.common.interface import Matcher, TableMatcher


def load(matcher: Matcher, table: ConstraintColumns) -> None:
    """Loads a table into an empty matcher."""
    if isinstance(matcher, TableMatcher):
        matcher.load(table)
        return
    for interface, predicate in to_predicates(table).items():
        matcher.set_predicate(interface, predicate)
