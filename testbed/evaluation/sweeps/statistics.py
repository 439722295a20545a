"""Means with confidence intervals, and quantiles, of the runs of each point of a sweep."""

from __future__ import annotations

import ast
import math
import operator
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal

import pyarrow as pa

from testbed.evaluation import quantiles
from testbed.evaluation.sweeps.folder import ERROR, RUN, SEED
from testbed.evaluation.sweeps.spec import Against, parsed
from testbed.support.errors import InputError
from topos import unknown

#: 97.5 % quantiles of Student's t distribution for 1 to 30 degrees of freedom.
_T = (
    *(12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281),
    *(2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860),
    *(2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423),
)
_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


@dataclass(frozen=True)
class Sample:
    """The runs of a point.

    Attributes:
        low, high: 95 % confidence interval of the mean (Student's t); None for a single run.
        p10, p90: the outer `quantiles`.
    """

    runs: int
    mean: float
    low: float | None
    high: float | None
    median: float
    p10: float
    p90: float

    def interval(self, kind: Literal["mean", "median"]) -> tuple[float, float, float]:
        """Returns the mean or the median, and the ends of the interval that belongs to it.

        The mean of a single run has no interval: both ends are the mean.
        """
        if kind == "median":
            return self.median, self.p10, self.p90
        if self.low is None or self.high is None:
            return self.mean, self.mean, self.mean
        return self.mean, self.low, self.high

    def __str__(self) -> str:
        if self.low is None:
            return f"{self.mean:.4g}, 1 run, no interval"
        return (
            f"mean {self.mean:.4g} [{self.low:.4g}, {self.high:.4g}], "
            f"median {self.median:.4g} [{self.p10:.4g}, {self.p90:.4g}], {self.runs} runs"
        )


def sample(values: Sequence[float]) -> Sample:
    """Returns the statistics of at least one value."""
    mean, low, high = statistics.fmean(values), None, None
    if len(values) > 1:
        half = student(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
        low, high = mean - half, mean + half
    p10, median, p90 = quantiles(values)
    return Sample(len(values), mean, low, high, float(median), float(p10), float(p90))


def student(degrees: int) -> float:
    """Returns the 97.5 % quantile of Student's t distribution.

    Beyond 30 degrees of freedom by Cornish and Fisher's expansion, which is right to 4 decimals there.
    """
    if degrees <= len(_T):
        return _T[degrees - 1]
    z = NormalDist().inv_cdf(0.975)
    return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)


def values_of(runs: pa.Table, expression: str) -> list[float | None]:
    """Returns the value of an expression in every run.

    Null where a run lacks one of the keys, where it failed, where a divisor is 0, and beyond all floats.

    Raises:
        InputError: there is no such column, it holds texts, or the expression has another form (`parsed`).
    """
    if expression in runs.column_names:
        return _column(runs, expression)
    return _evaluated(runs, parsed(expression))


def _evaluated(runs: pa.Table, node: ast.expr) -> list[float | None]:
    match node:
        case ast.Constant(value=int() | float() as number):
            return [float(number)] * runs.num_rows
        case ast.UnaryOp():
            return [None if each is None else -each for each in _evaluated(runs, node.operand)]
        case ast.BinOp():
            pairs = zip(_evaluated(runs, node.left), _evaluated(runs, node.right), strict=True)
            return [_applied(_OPERATORS[type(node.op)], *pair) for pair in pairs]
        case _:
            return _column(runs, ast.unparse(node))


def _applied(
    operation: Callable[[float, float], float], left: float | None, right: float | None
) -> float | None:
    if left is None or right is None or (operation is operator.truediv and not right):
        return None
    value = operation(left, right)
    return value if math.isfinite(value) else None


def _column(runs: pa.Table, key: str) -> list[float | None]:
    if key not in runs.column_names:
        raise InputError(unknown("key", key, runs.column_names, grouped(runs.column_names)))
    column = runs[key]
    if not _is_numeric(column.type):
        raise InputError(f"{key}: its values are of type {column.type}; expected numbers")
    return [None if value is None else float(value) for value in column.to_pylist()]


def grouped(keys: Iterable[str]) -> str:
    """Returns a list of keys, in which those that begin with the same word and a dot are a group."""
    groups: dict[str, list[str]] = {}
    for key in keys:
        first, _, rest = key.partition(".")
        groups.setdefault(first, []).append(rest)
    return ", ".join(f"{first}.{{{', '.join(rest)}}}" if rest[0] else first for first, rest in groups.items())


def _is_numeric(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def points(
    runs: pa.Table, expression: str, parameters: Sequence[str], against: Against | None = None
) -> dict[tuple[Any, ...], Sample]:
    """Returns the statistics of an expression by the values of some parameters, in the order of the sweep.

    Runs of a point that have one seed, with different values of other parameters, count as their mean: they
    are not independent.

    Args:
        against: the value of each run is held against that of the run that it is paired with; a run without
            a pair is left out, and the latter runs are no points.

    Raises:
        InputError: as `values_of`; also if there is no such parameter, or a run has several pairs.
    """
    for name in parameters:
        require_parameter(runs, name)
    columns = [runs[name].to_pylist() for name in parameters]
    # Without parameters all runs are at one point.
    places = list(zip(*columns, strict=True)) if columns else [()] * runs.num_rows
    seeds = runs[SEED].to_pylist() if SEED in runs.column_names else range(runs.num_rows)
    failed = runs[ERROR].to_pylist() if ERROR in runs.column_names else [None] * runs.num_rows
    values = [
        None if error else value for error, value in zip(failed, values_of(runs, expression), strict=True)
    ]
    if against is not None:
        values = _paired(runs, values, against)
    groups: dict[tuple[Any, ...], dict[Any, list[float]]] = {}
    for place, seed, value in zip(places, seeds, values, strict=True):
        if value is not None:
            groups.setdefault(place, {}).setdefault(seed, []).append(value)
    return {place: sample([*map(statistics.fmean, each.values())]) for place, each in groups.items()}


def require_parameter(runs: pa.Table, name: str) -> None:
    """Raises InputError: the table of a sweep has no such column."""
    if name not in runs.column_names:
        known = _parameters(runs) or runs.column_names
        raise InputError(unknown("parameter", name, runs.column_names, ", ".join(known)))


def _parameters(runs: pa.Table) -> list[str]:
    """The parameters of a sweep: its columns before the seed, without the number of the run."""
    names = runs.column_names
    return [name for name in names[: names.index(SEED)] if name != RUN] if SEED in names else []


def _paired(runs: pa.Table, values: Sequence[float | None], against: Against) -> list[float | None]:
    """Returns each value over, or less, that of the run with equal seed and equal other parameters."""
    parameter, paired, how = against
    require_parameter(runs, parameter)
    others = [name for name in (*_parameters(runs), SEED) if name != parameter]
    for name in others:
        require_parameter(runs, name)
    chosen = [str(each) for each in runs[parameter].to_pylist()]
    if paired not in chosen:
        raise InputError(f"{parameter}: {unknown('value', paired, dict.fromkeys(chosen))}")
    keys = list(zip(*(runs[name].to_pylist() for name in others), strict=True))
    of_pair: dict[tuple[Any, ...], float | None] = {}
    for key, choice, value in zip(keys, chosen, values, strict=True):
        if choice == paired:
            if key in of_pair:
                raise InputError(f"{parameter}: several runs with {paired} have one seed")
            of_pair[key] = value
    operation = operator.truediv if how == "ratio" else operator.sub
    return [
        None if choice == paired else _applied(operation, value, of_pair.get(key))
        for key, choice, value in zip(keys, chosen, values, strict=True)
    ]


def point_table(runs: pa.Table, parameters: Sequence[str]) -> pa.Table:
    """Returns the statistics of every numeric key by the parameters: a row for each point and key."""
    rows = []
    for key in runs.column_names:
        if key not in (RUN, SEED, ERROR, *parameters) and _is_numeric(runs[key].type):
            for place, found in points(runs, key, parameters).items():
                rows.append({**dict(zip(parameters, place, strict=True)), "key": key, **vars(found)})
    return pa.Table.from_pylist(rows)
