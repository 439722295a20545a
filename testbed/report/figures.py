"""The figures of a report. A function returns None if there is nothing to draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from testbed.report import numbers
from testbed.report.data import RunData
from testbed.report.style import ACCENT, GREY, INK, ORANGE, TYPE_COLOURS, new_figure, styled

TIME_LABEL = "experiment time (s)"
#: Width of a bar of the matching distribution: a share of the predicates.
MATCH_BIN = 0.05
#: What a recovery consists of: key of `recovery_s`, and what it is called.
RECOVERY_PHASES = {"committed_s": "new trees everywhere", "advertised_s": "last advertisement"}


@dataclass(frozen=True)
class Drawing:
    """A figure, and in words what it shows: its caption, and its text for those who do not see it."""

    figure: Figure
    note: str


def curve(table: pd.DataFrame, label: str, line: bool = True) -> Drawing | None:
    """A share over time.

    Args:
        table: t_s (experiment seconds) and fraction (0..1).
        label: of the vertical axis.
        line: join the points; False for windows so short that most hold nothing.
    """
    points = table.dropna(subset=["fraction"]).sort_values("t_s")
    if points.empty:
        return None
    with styled():
        figure, axes = new_figure(6.2, 2.6)
        if line:
            axes.plot(points["t_s"], points["fraction"], color=ACCENT)
            axes.fill_between(points["t_s"], points["fraction"], color=ACCENT, alpha=0.12, linewidth=0)
        else:
            axes.plot(points["t_s"], points["fraction"], ".", color=ACCENT, markersize=4, clip_on=False)
        highest = float(points["fraction"].max())
        axes.set_ylim(0, min(1.02, max(0.01, highest * 1.1)))
        axes.yaxis.set_major_formatter(PercentFormatter(1, symbol=None))
        axes.set_ylabel(label)
        _time_axis(axes, float(points["t_s"].max()))
    last = float(points["fraction"].iloc[-1])
    return Drawing(figure, f"At most {highest:.1%}, at the end {last:.1%}.")


def frames_over_time(type_bins: pd.DataFrame) -> Drawing | None:
    """Frames per experiment second by frame type. `type_bins`: type, bin_s, frames."""
    frames = type_bins.groupby(["bin_s", "type"])["frames"].sum().unstack(fill_value=0)
    if frames.empty:
        return None
    starts = frames.index.to_numpy(dtype=float)
    width = float((starts[1:] - starts[:-1]).min()) if len(starts) > 1 else 1.0
    # Bins without a frame have no row: they are zeros, not a straight line between their neighbours.
    count = round((starts[-1] - starts[0]) / width) + 1
    grid = [round(starts[0] + width * position, 9) for position in range(count)]
    frames.index = pd.Index([round(start, 9) for start in starts])
    frames = frames.reindex(grid, fill_value=0)
    order = [kind for kind in TYPE_COLOURS if kind in frames.columns]
    order += sorted(kind for kind in frames.columns if kind not in TYPE_COLOURS)
    with styled():
        figure, axes = new_figure(6.2, 2.9)
        edges = [*grid, grid[-1] + width]
        for kind in order:
            rates = frames[kind].to_numpy(dtype=float) / width
            axes.stairs(rates, edges, color=TYPE_COLOURS.get(kind, GREY), label=kind, linewidth=1.6)
        axes.set_ylim(bottom=0)
        axes.set_ylabel("frames per experiment second")
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=6, borderaxespad=0, handlelength=1.2)
        _time_axis(axes, edges[-1])
    totals = ", ".join(f"{int(frames[kind].sum())} {kind}" for kind in order)
    return Drawing(figure, f"Bins of {width:g} s. In all: {totals}.")


def matches(shares: list[float]) -> Drawing | None:
    """How many messages match which share of the predicates (0..1)."""
    if not shares:
        return None
    none = sum(share == 0 for share in shares)
    bars = max(1, max(_bar(share) for share in shares))
    heights = [0] * bars
    for share in shares:
        if share > 0:
            heights[_bar(share) - 1] += 1
    labels = [f"{100 * MATCH_BIN * bar:.0f}–{100 * MATCH_BIN * (bar + 1):.0f}" for bar in range(bars)]
    with styled():
        figure, axes = new_figure(6.2, 2.6)
        percents = [100 * count / len(shares) for count in (none, *heights)]
        axes.bar(range(bars + 1), percents, width=0.8, color=[GREY, *[ACCENT] * bars])
        for position, percent in enumerate(percents):
            axes.annotate(
                f"{percent:.0f}",
                (position, percent),
                ha="center",
                va="bottom",
                xytext=(0, 1.5),
                textcoords="offset points",
                color=INK,
                fontsize=8.5,
            )
        axes.set_xticks(range(bars + 1), ["none", *labels], rotation=0 if bars <= 8 else 45)
        axes.set_xlabel("share of the predicates that select the message (%)")
        axes.set_ylabel("messages (%)")
    matched = sorted(share for share in shares if share > 0)
    middle = f" The median of the others is {matched[len(matched) // 2]:.1%}." if matched else ""
    highest = f"The highest share is {max(shares):.1%}."
    note = f"{none} of {len(shares)} messages match no predicate.{middle} {highest}"
    return Drawing(figure, note)


def recovery(changes: Sequence[Mapping[str, Any]]) -> Drawing | None:
    """How long each change of the network took: to new trees everywhere, and to the last advertisement.

    Args:
        changes: `recovery_s` of summary.json.
    """
    if not changes:
        return None
    positions = range(len(changes))
    longest = {}
    with styled():
        figure, axes = new_figure(6.2, 0.9 + 0.34 * len(changes))
        for (key, label), colour, offset in zip(
            RECOVERY_PHASES.items(), (ACCENT, ORANGE), (-0.18, 0.18), strict=True
        ):
            took = [change[key] for change in changes]
            longest[label] = max((each for each in took if each is not None), default=None)
            places = [place + offset for place in positions]
            axes.barh(places, [each or 0 for each in took], height=0.34, color=colour, label=label)
            for place, each in zip(places, took, strict=True):
                text = "never" if each is None else f"{each:.3g}"
                axes.annotate(
                    text,
                    (each or 0, place),
                    va="center",
                    xytext=(3, 0),
                    textcoords="offset points",
                    fontsize=8.5,
                )
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
    """What one change consists of, in a few words: a node rather than its links."""
    named = next((event for event in events if event.startswith("node")), events[0])
    return named if len(events) == 1 else f"{named} and {len(events) - 1} more"


def all_figures(run: RunData) -> dict[str, Drawing | None]:
    """Every figure but the topology, by file name."""
    tables = run.tables
    return {
        "false_negatives": curve(tables["false_negative_curve"], "deliveries missed (%)", line=False),
        "false_positives": curve(tables["false_positive_curve"], "messages unneeded (%)"),
        "frames": frames_over_time(tables["type_bins"]),
        "control_share": curve(tables["control_share_curve"], "control frames (%)"),
        "matches": matches(run.matched),
        "recovery": recovery(run.summary.get("recovery_s") or []),
    }


def _bar(share: float) -> int:
    """0 for no match; otherwise the bar, from 1, of (0, 5 %], (5 %, 10 %] and so on."""
    # Shares are ratios of counts: the small term keeps 3/20 in the bar that ends at 15 %.
    return 0 if share == 0 else int((share - 1e-9) / MATCH_BIN) + 1


def _time_axis(axes: Axes, end_s: float) -> None:
    axes.set_xlim(0, max(end_s, 1e-3))
    axes.xaxis.set_major_locator(MaxNLocator(8))
    axes.set_xlabel(TIME_LABEL)
