"""Plots of a sweep: lines that differ in black and white too, intervals, and a legend beside the data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from testbed.evaluation.sweeps.spec import Plot
from testbed.evaluation.sweeps.statistics import Sample, points
from testbed.results.report.style import CURVE_COLOURS, new_figure, set_logarithmic_ticks, styled
from testbed.support.errors import InputError

#: Distance of two lines at a category; categories have a distance of 1.
_BESIDE = 0.08
#: A logarithmic axis of so many values has their ticks alone.
_FEW = 6
#: Widths of a letter, in sizes of the font, and of the line beside a text of the legend, in letters.
_LETTER, _HANDLE = 0.55, 7
_SUFFIXES = (".svg", ".png", ".pdf")
#: Markers and dashes tell lines apart in black and white.
_MARKERS = "os^Dv<>P"
_DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)))

#: Value of `by` (None: there is none) -> value of x -> its runs.
_Lines = dict[Any, dict[Any, Sample]]


def lines_of(runs: pa.Table, plot: Plot) -> _Lines:
    """Returns what a plot shows.

    Raises:
        InputError: the table lacks a key or a parameter, or no run has a value.
    """
    found = points(runs, plot.y, [plot.x] if plot.by is None else [plot.x, plot.by], plot.pairs)
    if not found:
        raise InputError(f"{plot.y}: no run has a value")
    lines: _Lines = {}
    for place, runs_there in found.items():
        lines.setdefault(place[1] if plot.by is not None else None, {})[place[0]] = runs_there
    return lines


def draw(lines: _Lines, plot: Plot, axes: Axes) -> None:
    """Draws a plot: the mean with its 95 % confidence interval, or the median with the outer `quantiles`.

    Raises:
        InputError: a logarithmic axis has values that are not above 0, or values that are no numbers.
    """
    values = list(dict.fromkeys(value for line in lines.values() for value in line))
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    if plot.x_scale == "log" and not (numeric and min(values) > 0):
        raise InputError(f"{plot.x}: a logarithmic axis needs numbers above 0")
    at = {value: value if numeric else number for number, value in enumerate(values)}
    handles, extremes = [], []
    for number, (name, line) in enumerate(lines.items()):
        chosen = sorted(line, key=lambda value: at[value])
        # Intervals at a category would hide each other.
        step = 0.0 if numeric else _BESIDE * (number - (len(lines) - 1) / 2)
        xs = [at[value] + step for value in chosen]
        ys, *ends = np.array([line[value].interval(plot.kind) for value in chosen]).T
        extremes += np.ravel(ends).tolist()
        look: dict[str, Any] = {
            "color": CURVE_COLOURS[number % len(CURVE_COLOURS)],
            "marker": _MARKERS[number % len(_MARKERS)],
            "linestyle": _DASHES[number % len(_DASHES)] if numeric else "none",
        }
        errors = np.abs(np.subtract(ends, ys))
        axes.errorbar(xs, ys, yerr=errors, capsize=3, **look).lines[0].set_clip_on(False)
        handles.append(Line2D([], [], label=plot.label.get(str(name), str(name)), **look))
    _scale(axes, plot, extremes, numeric)
    ticks = plot.x_ticks or (values if plot.x_scale == "log" and len(values) <= _FEW else ())
    if not numeric:
        axes.set_xticks(list(at.values()), [plot.label.get(str(value), str(value)) for value in at])
        axes.set_xlim(-0.5, len(at) - 0.5)
    elif ticks:
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xlabel(plot.x if plot.x_label is None else plot.x_label)
    # An expression of keys may be longer than the axis.
    axes.set_ylabel(plot.shown.replace(" / ", "\n/ ") if plot.y_label is None else plot.y_label)
    if plot.by is not None:
        title = plot.by if plot.by_label is None else plot.by_label
        longest = max(len(str(handle.get_label())) for handle in handles) + _HANDLE
        room_pt = axes.get_window_extent().width / axes.figure.dpi * 72
        letters = room_pt / (_LETTER * mpl.rcParams["font.size"])
        columns = max(1, min(len(handles), int(letters / longest)))
        axes.figure.legend(handles=handles, title=title, loc="outside upper center", ncols=columns)


def _scale(axes: Axes, plot: Plot, extremes: list[float], numeric: bool) -> None:
    """Gives the axes their scales and limits, with all intervals inside."""
    if plot.y_scale == "log":
        if min(extremes) <= 0:
            raise InputError(f"{plot.y}: a logarithmic axis needs values, and ends of intervals, above 0")
        axes.set_yscale("log")
        set_logarithmic_ticks(axes.yaxis)
    else:
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]) if min(extremes) < 0 else 0.0)
    if plot.x_scale == "log" and numeric:
        axes.set_xscale("log")
        set_logarithmic_ticks(axes.xaxis)


def save(runs: pa.Table, plot: Plot, path: Path) -> _Lines:
    """Writes a plot as SVG, PNG or PDF, by the suffix of the path, and its numbers as CSV beside it.

    Raises:
        InputError: as `lines_of` and `draw`; also if the suffix is another, or the file cannot be written.
    """
    if path.suffix not in _SUFFIXES:
        raise InputError(f"{path}: expected a name that ends in {', '.join(_SUFFIXES)}")
    lines = lines_of(runs, plot)
    rows = [
        {"drawn": plot.shown, plot.x: value, **({plot.by: name} if plot.by else {}), **vars(found)}
        for name, line in lines.items()
        for value, found in line.items()
    ]
    with styled(), mpl.rc_context({"svg.hashsalt": path.stem}):
        figure, axes = new_figure(6.2, 3.6)
        draw(lines, plot, axes)
        dates: dict[str, Any] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
        try:
            figure.savefig(path, dpi=150, metadata=dates.get(path.suffix))
            pa_csv.write_csv(pa.Table.from_pylist(rows), path.with_suffix(".csv"))
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {error.strerror}") from error
    return lines
