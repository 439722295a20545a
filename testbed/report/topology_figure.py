"""The figure of the network: links by load, nodes by their role."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.lines import Line2D

from testbed.report.data import RunData
from testbed.report.figures import Drawing
from testbed.report.layout import Point, positions
from testbed.report.style import ACCENT, NODE, ORANGE, new_figure, styled

#: Every colour is visible on a light page and on a dark page.
LOAD_COLOURS = LinearSegmentedColormap.from_list("load", ["#b9bdc5", ACCENT])
_WIDEST_PT, _NARROWEST_PT = 6.0, 0.8
#: With more nodes, numbers would cover the figure, and marks and lines become smaller.
_LABELS_UP_TO = 60
#: Area of a node's mark with its number in it, in square points; its edge, in points.
_NODE_AREA, _NODE_EDGE_PT = 150, 1.1
#: Area of the ring around a sender, in areas of the mark.
_SENDER_AREA = 2.3


def link_frames(link_totals: pd.DataFrame) -> dict[int, int]:
    """Returns frames of all types in both directions, by link index.

    `link_totals`: link, frames; no host links.
    """
    rows = link_totals.dropna(subset=["link"])
    return {int(link): int(frames) for link, frames in rows.groupby("link")["frames"].sum().items()}


def _scale(nodes: int) -> float:
    """Returns the size of marks and lines: the share of the figure that they cover stays the same."""
    return min(1.0, math.sqrt(_LABELS_UP_TO / nodes))


def _draw_nodes(
    axes: Any,
    place: Mapping[int, Point],
    nodes: Sequence[int],
    senders: Collection[int],
    receivers: Collection[int],
    scale: float,
) -> None:
    area, edge = _NODE_AREA * scale**2, _NODE_EDGE_PT * scale
    for chosen, marks in (
        ([n for n in nodes if n in senders], {"s": area * _SENDER_AREA, "color": ORANGE, "linewidth": 0}),
        (
            [n for n in nodes if n not in receivers],
            {"s": area, "color": "white", "edgecolor": NODE, "linewidth": edge},
        ),
        (
            [n for n in nodes if n in receivers],
            {"s": area, "color": NODE, "edgecolor": NODE, "linewidth": edge},
        ),
    ):
        if chosen:
            axes.scatter(*zip(*(place[node] for node in chosen), strict=True), zorder=2, **marks)
    if len(nodes) <= _LABELS_UP_TO:
        for node in nodes:
            colour = "white" if node in receivers else "black"
            axes.annotate(
                str(node), place[node], ha="center", va="center", fontsize=7, color=colour, zorder=4
            )


def topology(run: RunData) -> Drawing | None:
    """Draws the network with the load of its links, in frames over the whole run."""
    nodes, links = run.topology.nodes, run.topology.links
    if not nodes:
        return None
    place = positions(run.topology)
    loads = link_frames(run.tables["link_totals"])
    frames = [loads.get(link.index, 0) for link in links]
    most = max(frames, default=0)
    scale = _scale(len(nodes))
    senders, receivers = set(run.workload.senders), set(run.workload.receivers)
    with styled():
        figure, axes = new_figure(9.6, 6.2 if scale == 1.0 else 8.6)
        axes.set_axis_off()
        axes.set_aspect("equal", adjustable="datalim")
        # Busy links last, above the others.
        order = sorted(range(len(links)), key=lambda position: frames[position])
        lines = LineCollection(
            [(place[links[position].u], place[links[position].v]) for position in order],
            linewidths=[
                scale * (_NARROWEST_PT + (_WIDEST_PT - _NARROWEST_PT) * (frames[position] / max(most, 1)))
                for position in order
            ],
            cmap=LOAD_COLOURS,
            norm=Normalize(0, max(most, 1)),
            capstyle="round",
            zorder=1,
        )
        lines.set_array([frames[position] for position in order])
        axes.add_collection(lines)
        _draw_nodes(axes, place, [node.id for node in nodes], senders, receivers, scale)
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
