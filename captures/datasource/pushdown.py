"""Bounds of the filters that Spark pushes down."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from pyspark.sql import datasource

from captures.datasource.options import Bounds

_COMPARISONS: dict[type, Callable[[Any, Any], bool]] = {
    datasource.EqualTo: lambda value, other: value == other,
    datasource.EqualNullSafe: lambda value, other: value == other,
    datasource.GreaterThan: lambda value, other: value > other,
    datasource.GreaterThanOrEqual: lambda value, other: value >= other,
    datasource.LessThan: lambda value, other: value < other,
    datasource.LessThanOrEqual: lambda value, other: value <= other,
    datasource.In: lambda value, others: value in others,
    datasource.StringStartsWith: lambda value, other: value.startswith(other),
    datasource.StringEndsWith: lambda value, other: value.endswith(other),
    datasource.StringContains: lambda value, other: other in value,
}
_TIME, _TYPE = "time_ns", "type"


def bounds_of(filters: Iterable[datasource.Filter], of_file: Iterable[str]) -> Bounds:
    """The bounds that filters set together; `of_file` names the columns that are constant in a file."""
    bounds, constant = Bounds(), set(of_file)
    for condition in filters:
        name, value = _column(condition), getattr(condition, "value", None)
        if name in constant:
            bounds = bounds.both(Bounds(of_file=((str(name), partial(holds, condition)),)))
        elif name == _TYPE and isinstance(condition, (datasource.EqualTo, datasource.In)):
            names = {value} if isinstance(condition, datasource.EqualTo) else set(value or ())
            bounds = bounds.both(Bounds(types=frozenset(str(name) for name in names if name is not None)))
        elif name == _TIME and isinstance(value, int):
            bounds = bounds.both(Bounds(*_interval(condition, value)))
    return bounds


def _interval(condition: datasource.Filter, value: int) -> tuple[int | None, int | None]:
    if isinstance(condition, datasource.EqualTo):
        return value, value
    if isinstance(condition, (datasource.GreaterThan, datasource.GreaterThanOrEqual)):
        return value + isinstance(condition, datasource.GreaterThan), None
    if isinstance(condition, (datasource.LessThan, datasource.LessThanOrEqual)):
        return None, value - isinstance(condition, datasource.LessThan)
    return None, None


def holds(condition: datasource.Filter, value: Any) -> bool:
    """Whether a filter may hold where its column has this value; False only if it certainly does not."""
    if isinstance(condition, datasource.Not):
        return _truth(condition.child, value) is not True
    return _truth(condition, value) is not False


def _truth(condition: datasource.Filter, value: Any) -> bool | None:
    """The value of a filter where its column has this value; None: null, or a filter that is not known."""
    if isinstance(condition, datasource.IsNull):
        return value is None
    if isinstance(condition, datasource.IsNotNull):
        return value is not None
    compare = _COMPARISONS.get(type(condition))
    if compare is None:
        return None
    other = condition.value
    if value is None or other is None:
        # A comparison with null is null, and Spark keeps a row only if the filter is true.
        return (value is other) if isinstance(condition, datasource.EqualNullSafe) else None
    return compare(value, other)


def _column(condition: datasource.Filter) -> str | None:
    inner = condition.child if isinstance(condition, datasource.Not) else condition
    path: tuple[str, ...] = getattr(inner, "attribute", ())
    return path[0] if len(path) == 1 else None
