"""The figures over time, and those of distributions: delays, stretch, shares of matched predicates.

A function returns None if there are no data to draw.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, TypeVar

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, MultipleLocator, PercentFormatter
from numpy.typing import NDArray

from testbed.results.report.style import (
    ACCENT,
    GREY,
    INK,
    ORANGE,
    TYPE_COLOURS,
    axis_from_zero,
    new_figure,
    set_logarithmic_ticks,
)
from testbed.terminal import numbers

_T = TypeVar("_T", pd.Series, pd.DataFrame)
TIME_LABEL = "experiment time (s)"
#: A bin of more frames than so many times the median of all bins leaves these at the foot of a linear axis.
_PEAK = 100
#: Phases of a recovery: key of `recovery_s` -> label.
RECOVERY_PHASES = {"committed_s": "new trees everywhere", "advertised_s": "last advertisement"}


@dataclass(frozen=True)
class Drawing:
    """A figure with its caption, which is also its alternative text."""

    figure: Figure
    note: str


def broken(points: pd.DataFrame, gap_s: float) -> pd.DataFrame:
    """Returns the points of a curve, with an empty row wherever there is none for longer than `gap_s`.

    A line through the result ends before such a gap, and begins behind it.

    Args:
        points: t_s (experiment seconds, ascending) and other columns.
    """
    before = np.flatnonzero(np.diff(points["t_s"].to_numpy(dtype=float)) > gap_s)
    rows = points.reset_index(drop=True)
    return rows.reindex(np.sort(np.concatenate([rows.index.to_numpy(dtype=float), before + 0.5])))


def _alone(values: pd.Series) -> pd.Series:
    """Returns which values of a broken curve have none beside them: a line does not show them."""
    known = values.notna()
    return known & ~known.shift(1, fill_value=False) & ~known.shift(-1, fill_value=False)


def curve(
    table: pd.DataFrame, label: str, gap_s: float | None, part: tuple[str, str] | None = None
) -> Drawing | None:
    """Draws a share over time.

    Args:
        table: t_s (experiment seconds) and fraction (0..1).
        gap_s: experiment seconds; the line that joins the points is broken where there is none for longer.
            None: no line, for windows so short that most are empty.
        part: a column of another share, which may be the greater, and its name; it is drawn as well if the
            table has it.
    """
    points = table.dropna(subset=["fraction"]).sort_values("t_s")
    if points.empty:
        return None
    shares, alone = {"": points["fraction"]}, points
    figure, axes = new_figure(6.2, 2.6)
    if gap_s is not None:
        drawn = broken(points, gap_s)
        axes.plot(drawn["t_s"], drawn["fraction"], color=ACCENT)
        axes.fill_between(drawn["t_s"], drawn["fraction"], color=ACCENT, alpha=0.12, linewidth=0)
        alone = drawn[_alone(drawn["fraction"])]
        if part is not None and part[0] in points and not points[part[0]].equals(points["fraction"]):
            shares[part[1]] = points[part[0]]
            axes.plot(drawn["t_s"], drawn[part[0]], color=ORANGE, label=part[1], linewidth=1.2)
            _legend_above(axes, 1)
    if not alone.empty:
        axes.plot(alone["t_s"], alone["fraction"], ".", color=ACCENT, markersize=4, clip_on=False)
    highest = max(float(values.max()) for values in shares.values())
    axis_from_zero(axes, highest, unit=0.01, most=1.02)
    axes.yaxis.set_major_formatter(PercentFormatter(1, symbol=None))
    axes.set_ylabel(label)
    _time_axis(axes, float(points["t_s"].max()))
    of_each = (_extent(values, name) for name, values in shares.items())
    return Drawing(figure, f"{'; '.join(of_each)}.")


def _extent(values: pd.Series, name: str) -> str:
    text = f"at most {values.max():.1%}, at the end {values.iloc[-1]:.1%}"
    return f"{name} {text}" if name else text.capitalize()


def frames_over_time(type_bins: pd.DataFrame) -> Drawing | None:
    """Draws frames per experiment second by frame type.

    `type_bins`: type, bin_s, frames, frames_per_s.
    """
    frames = type_bins.groupby(["bin_s", "type"])["frames"].sum().unstack(fill_value=0)
    if frames.empty:
        return None
    width = bin_width(type_bins)
    edges, frames = _in_bins(frames, width)
    order = [kind for kind in TYPE_COLOURS if kind in frames.columns]
    order += sorted(kind for kind in frames.columns if kind not in TYPE_COLOURS)
    figure, axes = new_figure(6.2, 2.9)
    for kind in order:
        rates = frames[kind].to_numpy(dtype=float) / width
        axes.stairs(rates, edges, color=TYPE_COLOURS.get(kind, GREY), label=kind, linewidth=_line_width())
    logarithmic = _axis_of_rates(axes, frames.to_numpy(dtype=float) / width)
    axes.set_ylabel("frames per experiment second")
    _legend_above(axes, 6)
    _time_axis(axes, edges[-1])
    totals = ", ".join(f"{int(frames[kind].sum())} {kind}" for kind in order)
    scale = " Logarithmic scale above its first mark." if logarithmic else ""
    return Drawing(figure, f"Bins of {width:g} s.{scale} In all: {totals}.")


def _axis_of_rates(axes: Axes, rates: NDArray[np.float64]) -> bool:
    """Scales the vertical axis from 0 to the highest rate; returns whether it is logarithmic.

    It is where a peak, such as the first advertisements of a large network, would leave most other bins in
    the line of the axis.
    """
    positive = rates[rates > 0]
    highest = float(rates.max())
    if not positive.size or highest < _PEAK * float(np.median(positive)):
        axis_from_zero(axes, highest)
        return False
    least = math.floor(math.log10(float(positive.min())))
    marks = [10.0**power for power in range(least, math.floor(math.log10(highest)) + 1)]
    axes.set_yscale("symlog", linthresh=marks[0], linscale=0.5)
    axes.set_ylim(0, 1.5 * highest)
    marks = [0.0, *marks]
    axes.set_yticks(marks, [numbers.plain(mark) for mark in marks])
    axes.set_yticks([], minor=True)
    return True


#: Columns of rates -> label and colour: of control frames, and of the attention-limited service.
CONTROL_RATES = {"ra_per_s": ("RA", TYPE_COLOURS["RA"]), "sr_ur_per_s": ("SR and UR", TYPE_COLOURS["UR"])}
SERVICE_RATES = {
    "publications_per_s": ("publications", ACCENT),
    "deliveries_per_s": ("deliveries", ORANGE),
    "registrations_per_s": ("registrations", GREY),
}


def rates(table: pd.DataFrame, lines: Mapping[str, tuple[str, str]], unit: str) -> Drawing | None:
    """Draws rates over time.

    Args:
        table: t_s (experiment seconds) and a column for each line, per experiment second.
        lines: column -> label and colour.
    """
    if table.empty:
        return None
    points = table.sort_values("t_s")
    figure, axes = new_figure(6.2, 2.9)
    for column, (label, colour) in lines.items():
        axes.plot(points["t_s"], points[column], color=colour, label=label)
    axis_from_zero(axes, float(points[list(lines)].to_numpy().max()))
    axes.set_ylabel(unit)
    _legend_above(axes, len(lines))
    _time_axis(axes, float(points["t_s"].max()))
    highest = ", ".join(
        f"{label} at most {numbers.significant(table[column].max())}" for column, (label, _) in lines.items()
    )
    return Drawing(figure, f"{highest[:1].upper()}{highest[1:]} per second.")


def utilisation(
    table: pd.DataFrame, directions: int, with_bandwidth: int, width: float, name: Callable[[int], str] = str
) -> Drawing | None:
    """Draws link utilisation in each time bin: of the fullest direction of a link, and the mean over all.

    If only some links have a bandwidth, the others are left out.

    Args:
        table: link, from_node, to_node, bin_s, bits_per_wall_s, utilisation (a share; null without a
            bandwidth).
        directions: directions of all links: twice their number.
        with_bandwidth: number of directions that have a bandwidth.
        width: width of a bin, experiment seconds.
    """
    table = table[table["bits_per_wall_s"] > 0]
    if table.empty or not directions:
        return None
    limited = with_bandwidth > 0 and bool(table["utilisation"].notna().any())
    column, factor, unit = ("utilisation", 100.0, "%") if limited else ("bits_per_wall_s", 1e-3, "kbit/s")
    busy = table.dropna(subset=[column])
    by_bin = busy.groupby("bin_s")[column]
    counted = with_bandwidth if limited else directions
    mean_over = "all directions" if counted == directions else "limited directions"
    figure, axes = new_figure(6.2, 2.9)
    for values, colour, label in (
        (by_bin.max(), ACCENT, "fullest direction"),
        (by_bin.sum() / counted, ORANGE, f"mean over {mean_over}"),
    ):
        edges, drawn = _in_bins(values, width)
        rates = factor * drawn.to_numpy(dtype=float)
        axes.stairs(rates, edges, color=colour, label=label, linewidth=_line_width())
    axis_from_zero(axes, factor * float(by_bin.max().max()))
    axes.set_ylabel("of the bandwidth (%)" if limited else "kbit per wall second")
    # Also in the column of a paper.
    _legend_above(axes, 2, handlelength=1.0, columnspacing=1.0)
    _time_axis(axes, edges[-1])
    worst = busy.loc[busy[column].idxmax()]
    note = (
        f"Highest: {numbers.significant(factor * worst[column])} {unit}, from {name(int(worst.from_node))} "
        f"to {name(int(worst.to_node))} at {numbers.plain(worst.bin_s)} s, over a bin of {width:g} s."
    )
    if not with_bandwidth:
        note += " The topology declares no bandwidth."
    elif not limited:
        note += " No link with a bandwidth carried a frame."
    elif counted < directions:
        note += f" {directions - counted} directions without a bandwidth are left out."
    return Drawing(figure, note)


def recovery(changes: Sequence[Mapping[str, Any]]) -> Drawing | None:
    """Draws the times from each change of the network to new trees everywhere and to the last advertisement.

    Args:
        changes: `recovery_s` of summary.json.
    """
    if not changes:
        return None
    positions = range(len(changes))
    longest = {}
    figure, axes = new_figure(6.2, 0.9 + 0.34 * len(changes))
    for (key, label), colour, offset in zip(
        RECOVERY_PHASES.items(), (ACCENT, ORANGE), (-0.18, 0.18), strict=True
    ):
        took = [change[key] for change in changes]
        longest[label] = max((each for each in took if each is not None), default=None)
        places = [place + offset for place in positions]
        bars = axes.barh(places, [each or 0 for each in took], height=0.34, color=colour, label=label)
        texts = ["never" if each is None else numbers.significant(each) for each in took]
        axes.bar_label(bars, texts, padding=3, fontsize="small")
    axes.set_yticks(positions, [_in_short(change["events"]) for change in changes])
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", visible=True)
    axes.margins(x=0.12)
    axes.set_xlim(left=0)
    axes.set_xlabel("wall seconds since the controller noticed")
    axes.xaxis.set_major_locator(MaxNLocator(4))
    figure.legend(loc="outside upper left", ncols=2, borderaxespad=0, handlelength=1.2)
    said = "; ".join(f"{label}: at most {numbers.seconds(took)}" for label, took in longest.items())
    return Drawing(figure, f"{said[:1].upper()}{said[1:]}.")


def _in_short(events: Sequence[str]) -> str:
    """Describes a change in a few words: by a node rather than by its links."""
    if not events:
        return "new epoch"
    named = next((event for event in events if event.startswith("node")), events[0])
    return named if len(events) == 1 else f"{named} and {len(events) - 1} more"


def bin_width(type_bins: pd.DataFrame) -> float:
    """Returns the width of the time bins of a run, experiment seconds; 1 if there are no bins."""
    widths = (type_bins["frames"] / type_bins["frames_per_s"]).dropna()
    return float(widths.median()) if len(widths) else 1.0


def _in_bins(values: _T, width: float) -> tuple[list[float], _T]:
    """Returns the edges of bins, and values by their beginning (ascending), with 0 in bins without a frame.

    Those are zeros, not a straight line between their neighbours. Adjacent bins without a frame become one
    wide bin, since a clock that was set may leave any number of them.
    """
    starts = values.index.to_numpy(dtype=float)
    edges = sorted({round(float(edge), 9) for start in starts for edge in (start, start + width)})
    values = values.set_axis([round(float(start), 9) for start in starts])
    return edges, values.reindex(edges[:-1], fill_value=0)


def _line_width() -> float:
    """Returns the width of lines in the style in force, points: steps have another by themselves."""
    return float(mpl.rcParams["lines.linewidth"])


def _legend_above(axes: Axes, columns: int, **spacing: Any) -> None:
    spacing = {"handlelength": 1.2, **spacing}
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, borderaxespad=0, **spacing)


def _time_axis(axes: Axes, end_s: float) -> None:
    axes.set_xlim(0, max(end_s, 1e-3))
    axes.xaxis.set_major_locator(MaxNLocator(8))
    axes.set_xlabel(TIME_LABEL)


#: Width of a bar of the matching distribution: a share of the predicates.
MATCH_BIN = 0.05


def delays(deliveries: pd.DataFrame) -> Drawing | None:
    """Draws the share of the deliveries that were made within a time.

    Args:
        deliveries: delay_wall_s (wall seconds) of each.
    """
    known = np.sort(deliveries["delay_wall_s"].dropna().to_numpy(dtype=float)) * 1000
    # The axis is logarithmic: a delay of 0 (virtual time) or below (the clock was set back) is left of it.
    values = known[known > 0]
    if not len(values):
        return None
    beyond = len(known) - len(values)
    shares = np.arange(beyond, len(known) + 1) / len(known)
    figure, axes = new_figure(6.2, 2.9)
    axes.plot([values[0], *values], shares * 100, color=ACCENT, drawstyle="steps-post")
    axes.set_xscale("log")
    axes.set_ylim(0, 100)
    axes.set_xlim(values[0] * 0.9, values[-1] * 1.1)
    set_logarithmic_ticks(axes.xaxis)
    axes.yaxis.set_major_locator(MultipleLocator(25))
    axes.grid(axis="x")
    axes.set_xlabel("delay (ms of wall time)")
    axes.set_ylabel("deliveries (%)")
    for share in (0.5, 0.99):
        at = float(np.quantile(known, share))
        if at <= 0:
            continue
        axes.plot([at], [share * 100], "o", color=ACCENT, markersize=5, clip_on=False)
        axes.annotate(
            f"{share:.0%}: {numbers.significant(at)} ms",
            (at, share * 100),
            xytext=(6, -4),
            textcoords="offset points",
            va="top",
            color=INK,
            fontsize="small",
        )
    half, last = float(np.median(known)), float(values[-1])
    return Drawing(
        figure,
        f"{len(known)} deliveries, half of them within {numbers.significant(half)} ms, "
        f"the last after {numbers.significant(last)} ms."
        + (f" {beyond} without a delay are left of the axis." if beyond else ""),
    )


def stretch(arrivals: pd.DataFrame) -> Drawing | None:
    """Draws the ratios of the lengths of messages' paths to the shortest paths.

    Args:
        arrivals: hops, cost, shortest_hops, shortest_cost of each message at a router that it reached.
    """
    by = {}
    for unit in ("hops", "cost"):
        shortest = arrivals[f"shortest_{unit}"]
        by[unit] = (arrivals[unit] / shortest.where(shortest > 0)).dropna().to_numpy(dtype=float)
    if not all(map(len, by.values())):
        return None
    # Bars of a tenth; all values beyond three share the last bar.
    edges = np.append(np.arange(0.95, 3.0, 0.1), np.inf)
    figure, axes = new_figure(6.2, 2.9)
    last = 0
    for place, (name, ratios) in enumerate(by.items()):
        counts, _ = np.histogram(ratios, bins=edges)
        last = max(last, int(np.flatnonzero(counts)[-1]))
        centres = 1 + 0.1 * np.arange(len(counts))
        axes.bar(
            centres + (place - 0.5) * 0.042,
            100 * counts / len(ratios),
            width=0.04,
            color=(ACCENT, ORANGE)[place],
            label=f"in {name}",
        )
    axes.set_xlim(0.9, max(1.5, 1 + 0.1 * last + 0.1))
    axes.set_xlabel("length of the path taken / length of the shortest")
    axes.set_ylabel("messages at routers (%)")
    _legend_above(axes, 2)
    means = " and ".join(f"{numbers.ratio(ratios.mean())} in {name}" for name, ratios in by.items())
    worst = max(float(ratios.max()) for ratios in by.values())
    return Drawing(
        figure, f"1 means: the shortest path. On average {means}; at most {numbers.significant(worst)}."
    )


def matches(shares: list[float]) -> Drawing | None:
    """Draws the numbers of messages by the share of the predicates (0..1) that they match."""
    if not shares:
        return None
    heights = Counter(map(_bar, shares))
    none, bars = heights[0], max(1, *heights)
    labels = [f"{100 * MATCH_BIN * bar:.0f}–{100 * MATCH_BIN * (bar + 1):.0f}" for bar in range(bars)]
    figure, axes = new_figure(6.2, 2.6)
    percents = [100 * heights[bar] / len(shares) for bar in range(bars + 1)]
    drawn = axes.bar(range(bars + 1), percents, width=0.8, color=[GREY, *[ACCENT] * bars])
    axes.bar_label(drawn, [f"{percent:.0f}" for percent in percents], padding=1.5, fontsize="small")
    axes.set_xticks(range(bars + 1), ["none", *labels], rotation=0 if bars <= 8 else 45)
    axes.set_xlabel("share of the predicates that select the message (%)")
    axes.set_ylabel("messages (%)")
    matched = [share for share in shares if share > 0]
    middle = f" The median of the others is {median(matched):.1%}." if matched else ""
    highest = f"The highest share is {max(shares):.1%}."
    note = f"{none} of {len(shares)} messages match no predicate.{middle} {highest}"
    return Drawing(figure, note)


def _bar(share: float) -> int:
    """0 for no match; otherwise the bar, from 1, of (0, 5 %], (5 %, 10 %] and so on."""
    # Shares are ratios of counts: the small term keeps 3/20 in the bar that ends at 15 %.
    return 0 if share == 0 else int((share - 1e-9) / MATCH_BIN) + 1
