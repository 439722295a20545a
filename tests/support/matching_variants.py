"""Every engine, with every optimisation on and off: what tests and benchmarks compare."""

from collections.abc import Mapping

from router.matching.columns import ColumnsBuilder, ConstraintColumns
from router.matching.engines import ENGINES
from router.predicates import Predicate

#: What an engine may be asked to leave out, one at a time and all together.
SWITCHES = ("bloom=off", "short_circuit=off", "direct=off")
VARIANTS = (
    *sorted(set(ENGINES) - {"naive"}),
    *(f"counting:{switch}" for switch in ("rounds=1", "rounds=10", *SWITCHES)),
    f"counting:{','.join(SWITCHES)}",
)


def to_columns(table: Mapping[int, Predicate]) -> ConstraintColumns:
    """The predicates of a table, by interface, as columns."""
    builder = ColumnsBuilder()
    for interface in sorted(table):
        for filter_ in table[interface]:
            builder.add(interface, filter_)
    return builder.build()
