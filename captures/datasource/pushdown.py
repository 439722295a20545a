"""Bounds of the filters that Spark pushes down."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from captures.datasource.options import Bounds

_COMPARISONS: dict[type, Callable[[Any, Any], bool]] = {
    EqualTo: lambda value, other: value == other,
    EqualNullSafe: lambda value, other: value == other,
    GreaterThan: lambda value, other: value > other,
    GreaterThanOrEqual: lambda value, other: value >= other,
    LessThan: lambda value, other: value < other,
    LessThanOrEqual: lambda value, other: value <= other,
    In: lambda value, others: value in others,
    StringStartsWith: lambda value, other: value.startswith(other),
    StringEndsWith: lambda value, other: value.endswith(other),
    StringContains: lambda value, other: other in value,
}
_TIME, _TYPE = "time_ns", "type"


def bounds_of(filters: Iterable[Filter], of_file: Iterable[str]) -> Bounds:
    """The bounds that filters set together; `of_file` names the columns that are constant in a file."""
    bounds, constant = Bounds(), set(of_file)
    for condition in filters:
        name, value = _column(condition), getattr(condition, "value", None)
        if name in constant:
            bounds = bounds.both(Bounds(of_file=((str(name), partial(holds, condition)),)))
        elif name == _TYPE and isinstance(condition, (EqualTo, In)):
            names = {value} if isinstance(condition, EqualTo) else set(value or ())
            bounds = bounds.both(Bounds(types=frozenset(str(name) for name in names if name is not None)))
        elif name == _TIME and isinstance(value, int):
            bounds = bounds.both(Bounds(*_interval(condition, value)))
    return bounds


def _interval(condition: Filter, value: int) -> tuple[int | None, int | None]:
    if isinstance(condition, EqualTo):
        return value, value
    if isinstance(condition, (GreaterThan, GreaterThanOrEqual)):
        return value + isinstance(condition, GreaterThan), None
    if isinstance(condition, (LessThan, LessThanOrEqual)):
        return None, value - isinstance(condition, LessThan)
    return None, None


def holds(condition: Filter, value: Any) -> bool:
    """Whether a filter may hold where its column has this value; False only if it certainly does not."""
    if isinstance(condition, Not):
        return _truth(condition.child, value) is not True
    return _truth(condition, value) is not False


def _truth(condition: Filter, value: Any) -> bool | None:
    """The value of a filter where its column has this value; None: null, or a filter that is not known."""
    if isinstance(condition, IsNull):
        return value is None
    if isinstance(condition, IsNotNull):
        return value is not None
    compare = _COMPARISONS.get(type(condition))
    if compare is None:
        return None
    other = condition.value
    if value is None or other is None:
        # A comparison with null is null, and Spark keeps a row only if the filter is true.
        return (value is other) if isinstance(condition, EqualNullSafe) else None
    return compare(value, other)


def _column(condition: Filter) -> str | None:
    inner = condition.child if isinstance(condition, Not) else condition
    path: tuple[str, ...] = getattr(inner, "attribute", ())
    return path[0] if len(path) == 1 else None
