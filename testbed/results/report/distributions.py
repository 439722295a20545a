"""Figures of distributions: delays, stretch, the shares of predicates that messages match."""

from __future__ import annotations

from statistics import median

import numpy as np
import pandas as pd
from matplotlib.ticker import MultipleLocator

from testbed.results.report.figures import Drawing
from testbed.results.report.style import ACCENT, GREY, INK, ORANGE, new_figure, set_logarithmic_ticks, styled
from testbed.terminal import numbers

#: Width of a bar of the matching distribution: a share of the predicates.
MATCH_BIN = 0.05


def delays(deliveries: pd.DataFrame) -> Drawing | None:
    """Draws the share of the deliveries that were made within a time.

    Args:
        deliveries: delay_wall_s (wall seconds) of each.
    """
    known = np.sort(deliveries["delay_wall_s"].dropna().to_numpy(dtype=float)) * 1000
    # The axis is logarithmic: it has no place for a delay of 0 (virtual time) or below (the clock was set
    # back).
    values = known[known > 0]
    if not len(values):
        return None
    shares = np.arange(1, len(values) + 1) / len(values)
    with styled():
        figure, axes = new_figure(6.2, 2.9)
        axes.plot([values[0], *values], [0, *shares * 100], color=ACCENT, drawstyle="steps-post")
        axes.set_xscale("log")
        axes.set_ylim(0, 100)
        axes.set_xlim(values[0] * 0.9, values[-1] * 1.1)
        set_logarithmic_ticks(axes.xaxis)
        axes.yaxis.set_major_locator(MultipleLocator(25))
        axes.grid(axis="x")
        axes.set_xlabel("delay (ms of wall time)")
        axes.set_ylabel("deliveries (%)")
        for share in (0.5, 0.99):
            at = float(np.quantile(values, share))
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
    half, last = float(np.median(values)), float(values[-1])
    return Drawing(
        figure,
        f"{len(values)} deliveries, half of them within {numbers.significant(half)} ms, "
        f"the last after {numbers.significant(last)} ms."
        + (f" {len(known) - len(values)} without a delay are left out." if len(known) > len(values) else ""),
    )


def stretch(arrivals: pd.DataFrame) -> Drawing | None:
    """Draws the ratios of the lengths of messages' paths to the shortest paths.

    Args:
        arrivals: hops, cost, shortest_hops, shortest_cost of each message at a router that it reached.
    """
    known = arrivals.dropna(subset=["hops", "cost", "shortest_hops", "shortest_cost"])
    known = known[known["shortest_hops"] > 0]
    if known.empty:
        return None
    by = {
        "hops": (known["hops"] / known["shortest_hops"]).to_numpy(dtype=float),
        "cost": (known["cost"] / known["shortest_cost"].clip(lower=1)).to_numpy(dtype=float),
    }
    # Bars of a tenth; all values beyond three share the last bar.
    edges = np.append(np.arange(0.95, 3.0, 0.1), np.inf)
    with styled():
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
        axes.legend(loc="upper right")
    means = " and ".join(f"{ratios.mean():.3f} in {name}" for name, ratios in by.items())
    worst = max(float(ratios.max()) for ratios in by.values())
    return Drawing(
        figure, f"1 means: the shortest path. On average {means}; at most {numbers.significant(worst)}."
    )


def matches(shares: list[float]) -> Drawing | None:
    """Draws the numbers of messages by the share of the predicates (0..1) that they match."""
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
                fontsize="small",
            )
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
