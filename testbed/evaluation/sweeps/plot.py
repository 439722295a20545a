"""Plots of a sweep: a key of the summary against a parameter, with intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import pyarrow as pa
from matplotlib.axes import Axes

from testbed.evaluation.sweeps.spec import Plot
from testbed.evaluation.sweeps.statistics import Sample, points
from testbed.results.report.style import CURVE_COLOURS, new_figure, styled
from testbed.support.errors import InputError

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
        ends = [
            (each.low, each.high) if plot.kind == "mean" else (each.p10, each.p90)
            for each in (line[value] for value in chosen)
        ]
        # A single run has no interval.
        errors = [
            [max(0.0, y - low) if low == low else 0.0 for y, (low, _) in zip(ys, ends, strict=True)],
            [max(0.0, high - y) if high == high else 0.0 for y, (_, high) in zip(ys, ends, strict=True)],
        ]
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
