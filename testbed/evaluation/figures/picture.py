"""The picture of a reproduction: its panels, with the curves of several seeds as median and band."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from testbed.evaluation.figures.reproduction import Panel
from testbed.results.report.style import CURVE_COLOURS, GREY, empty_figure, set_logarithmic_ticks, styled
from testbed.terminal import numbers

#: Markers of points and styles of lines: the next of each when the colours begin again.
_LOOKS = (("o", "-"), ("s", "-."), ("^", ":"))
#: Points of the common grid on which the curves of several runs are compared.
_POINTS = 400
#: Greatest value, in least values, from which on an axis is logarithmic; height of a label in those of axes.
_DECADES, _LINE_HEIGHT = 100, 0.06
#: More panels than this are in several rows.
_IN_A_ROW = 4


def draw(panel: Panel, axes: Axes) -> None:
    """Draws a panel: for each label the median of its curves, and the band from 10 to 90 %.

    Values at points that are above 0 and go over two decades or more, unless they are shares, have a
    logarithmic axis. The last value of each line is written beside it, unless another value is there.
    """
    ends: list[tuple[float, float, str]] = []
    for number, (label, curves) in enumerate(panel.curves.items()):
        kept = [np.array(sorted(curve), dtype=float) for curve in curves if curve]
        if not kept:
            continue
        repeated, place = divmod(number, len(CURVE_COLOURS))
        colour, (marker, style) = CURVE_COLOURS[place], _LOOKS[repeated % len(_LOOKS)]
        if formula := panel.formulas.get(label):
            axes.plot(*zip(*formula, strict=True), color=colour, linestyle="--", linewidth=1)
        if panel.points:
            look = {"color": colour, "marker": marker, "linestyle": style}
            ends.append((*_draw_points(axes, kept, label, look), colour))
            continue
        grid = np.linspace(min(c[0, 0] for c in kept), max(c[-1, 0] for c in kept), _POINTS)
        # Between two points of a curve the value of the former holds.
        values = np.array(
            [c[np.clip(np.searchsorted(c[:, 0], grid, side="right") - 1, 0, len(c) - 1), 1] for c in kept]
        )
        band = np.quantile(values, [0.1, 0.5, 0.9], axis=0)
        corners = _corners(band)
        low, middle, high = band[:, corners]
        axes.plot(grid[corners], middle, color=colour, linestyle=style, label=label)
        axes.fill_between(grid[corners], low, high, color=colour, alpha=0.15, linewidth=0)
        ends.append((grid[-1], middle[-1], colour))
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
    if panel.points and not panel.percent and axes.dataLim.y1 >= _DECADES * axes.dataLim.y0 > 0:
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


def _corners(values: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Returns the points of several curves without which their lines would differ.

    Points inside a stretch in which no curve changes are left out: a file of steps is much smaller so.

    Args:
        values: float64 [curves, points].

    Returns:
        bool [points].
    """
    needed = np.ones(values.shape[1], np.bool_)
    same = np.all(values[:, 1:] == values[:, :-1], axis=0)
    needed[1:-1] = ~(same[:-1] & same[1:])
    return needed


def _draw_points(
    axes: Axes, curves: Sequence[npt.NDArray[np.float64]], label: str, look: Mapping[str, Any]
) -> tuple[float, float]:
    """Draws the medians and the band of curves; returns the last median with its place."""
    points = sorted({float(x) for curve in curves for x in curve[:, 0]})
    values = [[float(y) for curve in curves for x, y in curve if x == point] for point in points]
    low, middle, high = np.array([np.quantile(each, [0.1, 0.5, 0.9]) for each in values]).T
    axes.plot(points, middle, label=label, markersize=3, **look)
    axes.fill_between(points, low, high, color=look["color"], alpha=0.15, linewidth=0)
    return points[-1], float(middle[-1])


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
