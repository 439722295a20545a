"""Every engine, with every optimisation on and off: what tests compare."""

from collections.abc import Callable, Mapping
from functools import partial

from router.matching.columns import ColumnsBuilder, ConstraintColumns
from router.matching.counting import CountingMatcher, CountingOptions
from router.matching.engines import ENGINES, Matcher, factory
from router.predicates import Predicate

#: Name -> what makes an empty engine.
VARIANTS: Mapping[str, Callable[[], Matcher]] = {
    **{name: partial(factory, name) for name in ENGINES if name != "naive"},
    **{
        name: partial(CountingMatcher, options)
        for name, options in {
            "rounds=1": CountingOptions(rounds=1),
            "rounds=10": CountingOptions(rounds=10),
            "bloom=off": CountingOptions(bloom=False),
            "short_circuit=off": CountingOptions(short_circuit=False),
            "direct=off": CountingOptions(direct=False),
            "all off": CountingOptions(bloom=False, short_circuit=False, direct=False),
        }.items()
    },
}


def to_columns(table: Mapping[int, Predicate]) -> ConstraintColumns:
    """The predicates of a table, by interface, as columns."""
    builder = ColumnsBuilder()
    for interface in sorted(table):
        for filter_ in table[interface]:
            builder.add(interface, filter_)
    return builder.build()
