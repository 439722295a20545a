"""Means with confidence intervals, and quantiles, of the runs of each point of a sweep, and their plots."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

import matplotlib as mpl
import numpy as np
import pyarrow as pa
from matplotlib.axes import Axes

from testbed.evaluation.sweeps.folder import ERROR, RUN, SEED
from testbed.evaluation.sweeps.spec import Plot
from testbed.results.report.style import CURVE_COLOURS, new_figure, styled
from testbed.support.errors import InputError
from topos import unknown

#: 97.5 % quantiles of Student's t distribution for 1 to 30 degrees of freedom.
_T = (
    *(12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281),
    *(2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860),
    *(2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423),
)


@dataclass(frozen=True)
class Sample:
    """The runs of a point.

    Attributes:
        low, high: 95 % confidence interval of the mean (Student's t); NaN for a single run.
        p10, p90: quantiles.
    """

    runs: int
    mean: float
    low: float
    high: float
    median: float
    p10: float
    p90: float


def sample(values: Sequence[float]) -> Sample:
    """Returns the statistics of at least one value."""
    mean, half = statistics.fmean(values), math.nan
    if len(values) > 1:
        half = student(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    p10, median, p90 = np.quantile(values, [0.1, 0.5, 0.9])
    return Sample(len(values), mean, mean - half, mean + half, float(median), float(p10), float(p90))


def student(degrees: int) -> float:
    """Returns the 97.5 % quantile of Student's t distribution.

    Beyond 30 degrees of freedom by Cornish and Fisher's expansion, which is right to 4 decimals there.
    """
    if degrees <= len(_T):
        return _T[degrees - 1]
    z = NormalDist().inv_cdf(0.975)
    return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)


def values_of(runs: pa.Table, expression: str) -> list[float | None]:
    """Returns a key of every run, or the quotient of two: `KEY` or `KEY / KEY`.

    Null where a run has none, where it failed, and where the divisor is 0.

    Raises:
        InputError: there is no such column, or it holds texts.
    """
    columns = [_column(runs, part.strip()) for part in expression.split("/")]
    if len(columns) == 1:
        return columns[0]
    if len(columns) > 2:
        raise InputError(f"{expression}: expected KEY or KEY / KEY")
    return [
        None if above is None or not below else above / below for above, below in zip(*columns, strict=True)
    ]


def _column(runs: pa.Table, key: str) -> list[float | None]:
    if key not in runs.column_names:
        raise InputError(unknown("key", key, runs.column_names))
    column = runs[key]
    if not _is_numeric(column.type):
        raise InputError(f"{key}: its values are of type {column.type}; expected numbers")
    return [None if value is None else float(value) for value in column.to_pylist()]


def _is_numeric(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def points(runs: pa.Table, expression: str, parameters: Sequence[str]) -> dict[tuple[Any, ...], Sample]:
    """Returns the statistics of a key by the values of some parameters, in the order of the sweep.

    Raises:
        InputError: as `values_of`; also if there is no such parameter.
    """
    for name in parameters:
        if name not in runs.column_names:
            raise InputError(unknown("parameter", name, runs.column_names))
    columns = [runs[name].to_pylist() for name in parameters]
    # Without parameters all runs are at one point.
    places = list(zip(*columns, strict=True)) if columns else [()] * runs.num_rows
    groups: dict[tuple[Any, ...], list[float]] = {}
    failed = runs[ERROR].to_pylist() if ERROR in runs.column_names else [None] * runs.num_rows
    for place, value, error in zip(places, values_of(runs, expression), failed, strict=True):
        if value is not None and error is None:
            groups.setdefault(place, []).append(value)
    return {place: sample(values) for place, values in groups.items()}


def point_table(runs: pa.Table, parameters: Sequence[str]) -> pa.Table:
    """Returns the statistics of every numeric key by the parameters: a row for each point and key."""
    rows = []
    for key in runs.column_names:
        if key not in (RUN, SEED, ERROR, *parameters) and _is_numeric(runs[key].type):
            for place, found in points(runs, key, parameters).items():
                rows.append({**dict(zip(parameters, place, strict=True)), "key": key, **vars(found)})
    return pa.Table.from_pylist(rows)


#: Distance of two lines at one value, as a part of the axis; five texts make an axis.
_BESIDE = 0.015
_SUFFIXES = (".svg", ".png", ".pdf")


def draw(runs: pa.Table, plot: Plot, axes: Axes) -> None:
    """Draws a plot: the mean with its 95 % confidence interval, or the median with the 10-90 % band.

    Raises:
        InputError: the table lacks the key or a parameter, or the key has no numbers.
    """
    found = points(runs, plot.y, [plot.x] if plot.by is None else [plot.x, plot.by])
    if not found:
        raise InputError(f"{plot.y}: no run has a value")
    lines: dict[Any, dict[Any, Sample]] = {}
    for place, one in found.items():
        lines.setdefault(place[1] if plot.by is not None else None, {})[place[0]] = one
    values = list(dict.fromkeys(place[0] for place in found))
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    at = {value: value if numeric else number for number, value in enumerate(values)}
    # Side by side: of intervals over each other one hides the other.
    step = _BESIDE * (max(at.values()) - min(at.values()) if numeric else 5)
    for number, (label, line) in enumerate(lines.items()):
        chosen = sorted(line, key=lambda value: at[value])
        xs = [at[value] + step * (number - (len(lines) - 1) / 2) for value in chosen]
        ys = [line[value].mean if plot.kind == "mean" else line[value].median for value in chosen]
        low, high = ("low", "high") if plot.kind == "mean" else ("p10", "p90")
        ends = [[getattr(line[value], end) for value in chosen] for end in (low, high)]
        # A single run has no interval.
        errors = np.nan_to_num(np.maximum(0.0, np.array([[-1.0], [1.0]]) * (np.array(ends) - ys)))
        axes.errorbar(
            xs,
            ys,
            yerr=errors,
            fmt="o-" if numeric else "o",
            color=CURVE_COLOURS[number % len(CURVE_COLOURS)],
            capsize=3,
            label=None if label is None else str(label),
        )
    if not numeric:
        axes.set_xticks(list(at.values()), [str(value) for value in at])
    axes.set_xlabel(plot.x if plot.x_label is None else plot.x_label)
    # A quotient of two keys may be longer than the axis.
    axes.set_ylabel(plot.y.replace(" / ", "\n/ ") if plot.y_label is None else plot.y_label)
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    if plot.by is not None:
        axes.legend(title=plot.by)


def save(runs: pa.Table, plot: Plot, path: Path) -> None:
    """Writes a plot as SVG, PNG or PDF, by the suffix of the path.

    Raises:
        InputError: as `draw`; also if the suffix is another, or the file cannot be written.
    """
    if path.suffix not in _SUFFIXES:
        raise InputError(f"{path}: expected a name that ends in {', '.join(_SUFFIXES)}")
    with styled(), mpl.rc_context({"svg.hashsalt": path.stem}):
        figure, axes = new_figure(6.2, 3.6)
        draw(runs, plot, axes)
        try:
            figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {error.strerror}") from error
