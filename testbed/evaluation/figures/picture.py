"""The picture of a reproduction: its panels, with the curves of several seeds as median and band."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from testbed.evaluation import quantiles
from testbed.evaluation.figures import KEPT_POINTS
from testbed.evaluation.figures.reproduction import Panel
from testbed.results.report.style import CURVE_COLOURS, GREY, empty_figure, set_logarithmic_ticks, styled
from testbed.terminal import numbers

#: Markers of points and styles of lines: the next of each when the colours begin again.
_LOOKS = (("o", "-"), ("s", "-."), ("^", ":"))
#: Greatest value, in least values, from which on an axis is logarithmic; height of a label in those of axes.
_DECADE, _LINE_HEIGHT = 10, 0.06
#: More panels than this are in several rows.
_IN_A_ROW = 4

_Reals = npt.NDArray[np.float64]


def draw(panel: Panel, axes: Axes) -> None:
    """Draws a panel: for each label the median of its curves, and the band of `quantiles`, as for `beside`.

    Values at points that go over a decade or more, unless they are in percent or below 0, have a
    logarithmic axis, from the least above 0 on: lines to 0 leave it at the bottom. The last value of each
    line is written beside it, unless another value is there.
    """
    ends: list[tuple[float, float, str]] = []
    for number, (label, own) in enumerate(panel.curves.items()):
        repeated, place = divmod(number, len(CURVE_COLOURS))
        colour, (marker, style) = CURVE_COLOURS[place], _LOOKS[repeated % len(_LOOKS)]
        if formula := panel.formulas.get(label):
            axes.plot(*zip(*formula, strict=True), color=colour, linestyle="--", linewidth=1)
        look: dict[str, Any] = {"marker": marker, "markersize": 3} if panel.points else {}
        for curves, line, name in ((own, style, label), (panel.beside.get(label, ()), "--", None)):
            kept = [np.array(sorted(curve), dtype=float) for curve in curves if curve]
            if kept:
                places, (low, middle, high) = _at_points(kept) if panel.points else _as_steps(kept)
                axes.plot(places, middle, color=colour, linestyle=line, label=name, **look)
                axes.fill_between(places, low, high, color=colour, alpha=0.15, linewidth=0)
                ends.append((float(places[-1]), float(middle[-1]), colour))
    for rule, levels, dashes in (
        (axes.axhline, panel.floor, "--"),
        (axes.axhline, panel.paper, ":"),
        (axes.axvline, panel.paper_x, ":"),
    ):
        for number, (label, level) in enumerate(levels.items()):
            rule(level, color=GREY, linestyle="-." if number else dashes, linewidth=1.2, label=label)
    if panel.points:
        # A count may be 0, which a logarithmic axis does not have.
        if axes.dataLim.x0 > 0:
            axes.set_xscale("log")
        else:
            axes.set_xscale("symlog", linthresh=1)
        set_logarithmic_ticks(axes.xaxis)
    if panel.percent:
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    extent = axes.dataLim
    if panel.points and not panel.percent and extent.y0 >= 0 and extent.y1 >= _DECADE * extent.minposy:
        axes.set_yscale("log")
        set_logarithmic_ticks(axes.yaxis)
    else:
        # Saved bandwidth may be negative.
        axes.set_ylim(bottom=min(0.0, axes.dataLim.y0))
    _label(axes, ends, panel.percent)
    axes.set_title(panel.title, fontsize="medium")
    axes.set_xlabel(panel.x)
    axes.set_ylabel(panel.y)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize="small")


def _at_points(curves: Sequence[_Reals]) -> tuple[_Reals, _Reals]:
    """Returns the points of curves, and the `quantiles` of the values at each."""
    points = np.unique([x for curve in curves for x in curve[:, 0]])
    values = [[y for curve in curves for x, y in curve if x == point] for point in points]
    return points, np.array([*map(quantiles, values)]).T


def _as_steps(curves: Sequence[_Reals]) -> tuple[_Reals, _Reals]:
    """As `_at_points`, on a grid: between two points of a curve the value of the former holds.

    Points inside a stretch in which no quantile changes are left out: a file of steps is much smaller so.
    """
    grid = np.linspace(min(c[0, 0] for c in curves), max(c[-1, 0] for c in curves), KEPT_POINTS)
    last = [np.clip(np.searchsorted(c[:, 0], grid, side="right") - 1, 0, len(c) - 1) for c in curves]
    values = [curve[at, 1] for curve, at in zip(curves, last, strict=True)]
    band = quantiles(values)
    needed = np.ones(KEPT_POINTS, np.bool_)
    same = np.all(band[:, 1:] == band[:, :-1], axis=0)
    needed[1:-1] = ~(same[:-1] & same[1:])
    return grid[needed], band[:, needed]


def _label(axes: Axes, ends: Sequence[tuple[float, float, str]], percent: bool) -> None:
    """Writes the last value of each line in its colour, but none on another."""
    places: list[float] = []
    for x, y, colour in ends:
        height = axes.transAxes.inverted().transform(axes.transData.transform((x, y)))[1]
        if all(abs(height - each) >= _LINE_HEIGHT for each in places):
            places.append(height)
            text = f"{100 * y:.3g}%" if percent else numbers.plain(float(f"{y:.3g}"))
            axes.annotate(
                text, (x, y), (3, 0), textcoords="offset points", color=colour, size="x-small", va="center"
            )


def save(panels: Sequence[Panel], path: Path) -> None:
    """Writes the panels as an SVG file; equal panels give equal bytes."""
    with styled(), mpl.rc_context({"svg.hashsalt": path.stem}):
        columns = max(1, len(panels)) if len(panels) <= _IN_A_ROW else 3
        rows = max(1, math.ceil(len(panels) / columns))
        figure = empty_figure(5.2 * columns, 3.4 * rows)
        for number, panel in enumerate(panels, 1):
            draw(panel, figure.add_subplot(rows, columns, number))
        figure.savefig(path, facecolor="white", metadata={"Date": None})
