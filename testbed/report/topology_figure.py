"""The figure of the network: links by load, nodes by their role."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.lines import Line2D

from testbed.report.data import RunData
from testbed.report.figures import Drawing
from testbed.report.layout import positions
from testbed.report.style import ACCENT, NODE, ORANGE, new_figure, styled

#: Every colour is visible on a light page and on a dark page.
LOAD_COLOURS = LinearSegmentedColormap.from_list("load", ["#b9bdc5", ACCENT])
_WIDEST_PT, _NARROWEST_PT = 6.0, 0.8
#: With more nodes, numbers would cover the figure.
_LABELS_UP_TO = 60


def link_frames(link_totals: pd.DataFrame) -> dict[int, int]:
    """Returns frames of all types in both directions, by link index.

    `link_totals`: link, frames; no host links.
    """
    rows = link_totals.dropna(subset=["link"])
    return {int(link): int(frames) for link, frames in rows.groupby("link")["frames"].sum().items()}


def topology(run: RunData) -> Drawing | None:
    """Draws the network with the load of its links, in frames over the whole run."""
    nodes, links = run.topology.nodes, run.topology.links
    if not nodes:
        return None
    place = positions(run.topology)
    loads = link_frames(run.tables["link_totals"])
    frames = [loads.get(link.index, 0) for link in links]
    most = max(frames, default=0)
    senders, receivers = set(run.workload.senders), set(run.workload.receivers)
    with styled():
        figure, axes = new_figure(9.6, 6.2)
        axes.set_axis_off()
        axes.set_aspect("equal", adjustable="datalim")
        lines = LineCollection(
            [(place[link.u], place[link.v]) for link in links],
            linewidths=[
                _NARROWEST_PT + (_WIDEST_PT - _NARROWEST_PT) * (count / most if most else 0)
                for count in frames
            ],
            cmap=LOAD_COLOURS,
            norm=Normalize(0, max(most, 1)),
            capstyle="round",
            zorder=1,
        )
        lines.set_array(frames)
        axes.add_collection(lines)
        size = 150 if len(nodes) <= _LABELS_UP_TO else 36
        for node in nodes:
            number = node.id
            x, y = place[number]
            receives = number in receivers
            if number in senders:
                axes.scatter(x, y, s=size * 2.3, color=ORANGE, linewidth=0, zorder=2)
            axes.scatter(
                x, y, s=size, color=NODE if receives else "white", edgecolor=NODE, linewidth=1.1, zorder=3
            )
            if len(nodes) <= _LABELS_UP_TO:
                colour = "white" if receives else "black"
                axes.annotate(
                    str(number), (x, y), ha="center", va="center", fontsize=7, color=colour, zorder=4
                )
        axes.autoscale_view()
        bar = figure.colorbar(lines, ax=axes, shrink=0.55, aspect=28, pad=0.01)
        bar.set_label("frames on the link, both directions")
        bar.outline.set_visible(False)
        marks: dict[str, Any] = {"marker": "o", "linestyle": "none", "markersize": 9}
        axes.legend(
            handles=[
                Line2D([], [], **marks, color=NODE, label="receiver"),
                Line2D([], [], **marks, markerfacecolor="white", markeredgecolor=NODE, label="no receiver"),
                Line2D(
                    [],
                    [],
                    **marks,
                    markerfacecolor="none",
                    markeredgecolor=ORANGE,
                    markeredgewidth=2.5,
                    label="sender (ring)",
                ),
            ],
            loc="upper center",
            bbox_to_anchor=(0.5, 0),
            ncols=3,
        )
    busiest = links[frames.index(most)] if most else None
    load = (
        f"The busiest link, {busiest.u}–{busiest.v}, carried {most} frames."
        if busiest
        else "No frames were counted."
    )
    note = (
        f"{run.topology.name}: {len(nodes)} nodes, {len(links)} links, "
        f"{len(senders)} senders, {len(receivers)} receivers. {load}"
    )
    return Drawing(figure, note)
