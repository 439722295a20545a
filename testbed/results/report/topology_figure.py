"""The figure of the network: links by load, nodes by their role."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import cycle, product
from typing import Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import Bbox

from testbed.results.report.data import RunData, sums
from testbed.results.report.figures import Drawing
from testbed.results.report.layout import Point, apart, positions
from testbed.results.report.style import ACCENT, CURVE_COLOURS, GREY, GROUND, NODE, ORANGE, new_figure
from testbed.terminal import numbers

#: Every colour is visible on a light page and on a dark page.
LOAD_COLOURS = LinearSegmentedColormap.from_list("load", ["#b9bdc5", ACCENT])
_WIDEST_PT, _NARROWEST_PT = 6.0, 0.8
#: With more nodes, marks and lines become smaller; with still more, numbers would be too small to read.
_LARGE_UP_TO, _NUMBERS_UP_TO = 150, 200
#: Shapes and colours of nodes by machine, without the colours of loads and senders.
_MACHINES = [*product("osD^", CURVE_COLOURS[2:])]
#: Nodes, with shape and colour of their marks.
_Part = tuple[Collection[int], tuple[str, str]]
#: Area of a node's mark with its number in it, in square points; its edge, in points.
_NODE_AREA, _NODE_EDGE_PT = 150, 1.1
#: Area of the ring around a sender, in areas of the mark.
_SENDER_AREA = 1.9
#: Width of a number of one digit, in sizes of its font; greatest size.
_DIGIT, _NUMBER_PT = 0.64, 7.0
#: Links whose ends have numbers in a large network.
_BUSIEST = 5
#: Parts of the figure's width and height that the network fills: beside it are the scale and the legend.
_FILLED = (0.78, 0.82)
#: Width of the figure, inches.
_WIDTH_IN = 9.6


def _draw_nodes(
    axes: Any, place: Mapping[int, Point], parts: Sequence[_Part], run: RunData, scale: float
) -> None:
    """Draws the marks of nodes, with rings around senders, and writes their numbers into them."""
    senders, receivers, area = run.senders, run.receivers, _NODE_AREA * scale**2
    ring = {"s": area * _SENDER_AREA, "color": ORANGE, "linewidth": 0}
    drawn = [([n for n in place if n in senders], ring)]
    for nodes, (shape, colour) in parts:
        mark = {"s": area, "edgecolor": colour, "linewidth": _NODE_EDGE_PT * scale, "marker": shape}
        drawn.append(([n for n in nodes if n not in receivers], {**mark, "color": "white"}))
        drawn.append(([n for n in nodes if n in receivers], {**mark, "color": colour}))
    for chosen, marks in drawn:
        if chosen:
            axes.scatter(*zip(*(place[node] for node in chosen), strict=True), zorder=2, **marks)
    if len(place) <= _NUMBERS_UP_TO:
        size = min(_NUMBER_PT, 0.95 * math.sqrt(area) / (_DIGIT * len(str(len(place) - 1))))
        for node, point in place.items():
            colour = "white" if node in receivers else "black"
            axes.annotate(str(node), point, ha="center", va="center", fontsize=size, color=colour, zorder=4)


def _write_names(axes: Any, names: Mapping[int, str], place: Mapping[int, Point], mark: float) -> int:
    """Writes names beside marks, each where it hides no mark and no name, on the ground of the page.

    Args:
        mark: diameter of a mark with its ring, points.

    Returns:
        The number of names that have no room.
    """
    figure = axes.figure
    figure.draw_without_rendering()  # from now on, the layout stays: names are no part of it
    pixels = figure.dpi / 72
    centres = dict(zip(place, axes.transData.transform(list(place.values())), strict=True))
    half = pixels * mark / 2
    taken = [Bbox.from_extents(x - half, y - half, x + half, y + half) for x, y in centres.values()]
    style: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "va": "center", "zorder": 4}
    style["bbox"] = {"facecolor": GROUND, "alpha": 0.8, "linewidth": 0, "pad": 0.6}
    without = 0
    for node, name in names.items():
        text = axes.annotate(name, place[node], (0, 0), fontsize=_NUMBER_PT, in_layout=False, **style)
        width, height = text.get_window_extent().size + 2 * pixels
        for across, up in ((0, -1), (0, 1), (1, 0), (-1, 0)):
            offset = np.array((across * (half + width / 2), up * (half + height / 2)))
            x, y = centres[node] + offset - (width / 2, height / 2)
            box = Bbox.from_bounds(x, y, width, height)
            inside = (axes.bbox.min <= box.min).all() and (box.max <= axes.bbox.max).all()
            if inside and not box.count_overlaps(taken):
                text.set_position(offset / pixels)
                taken.append(box)
                break
        else:
            text.remove()
            without += 1
    return without


def topology(run: RunData) -> Drawing | None:
    """Draws the network with the load of its links, in frames over the whole run, and its machines.

    Where no link was captured, the links have one width and colour, and there is no scale.
    """
    nodes, links = run.topology.nodes, run.topology.links
    if not nodes:
        return None
    loads = sums(run.tables["link_totals"], ["link"], "frames")
    frames = [loads.get(link.index, 0) for link in links]
    most = max(frames, default=0)
    # The share of the figure that marks and lines cover stays the same.
    scale = min(1.0, math.sqrt(_LARGE_UP_TO / len(nodes)))
    senders, receivers = run.senders, run.receivers
    machines = run.manifest.get("machines", []) if run.manifest else []
    cut = run.topology.cut(each["nodes"] for each in machines)
    figure, axes = new_figure(_WIDTH_IN, 6.2 if scale == 1.0 else 8.6)
    scale *= figure.get_figwidth() / _WIDTH_IN
    width, height = (72 * part * size for part, size in zip(_FILLED, figure.get_size_inches(), strict=True))
    mark = scale * math.sqrt(_NODE_AREA)
    # With the ring of a sender, and a point of space.
    ring = mark * math.sqrt(_SENDER_AREA) + 1
    place = apart(positions(run.topology), ring, width, height)
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
        linestyles=["--" if links[position] in cut else "-" for position in order],
        cmap=LOAD_COLOURS,
        norm=Normalize(0, max(most, 1)),
        capstyle="round",
        zorder=1,
    )
    lines.set_array([frames[position] for position in order])
    axes.add_collection(lines)
    parts = [*zip((each["nodes"] for each in machines), cycle(_MACHINES))]
    _draw_nodes(axes, place, parts or [(place, ("o", NODE))], run, scale)
    axes.autoscale_view()
    if run.links_captured:
        whole = MaxNLocator(8, integer=True)
        bar = figure.colorbar(lines, ax=axes, shrink=0.55, aspect=28, pad=0.01, ticks=whole)
        bar.set_label("frames on the link, both directions")
        bar.outline.set_visible(False)
    # Of each: face, edge and width of the edge.
    marks = {"receiver": (NODE, NODE, 1.0), "no receiver": ("white", NODE, 1.0)}
    marks["sender (ring)"] = ("none", ORANGE, 2.5)
    handles = [
        Line2D([], [], ls="none", marker="o", ms=9, mfc=face, mec=rim, mew=width, label=label)
        for label, (face, rim, width) in marks.items()
    ]
    for machine, (_, (shape, colour)) in zip(machines, parts, strict=True):
        handles.append(Line2D([], [], ls="none", marker=shape, ms=9, color=colour, label=machine["name"]))
    if cut:
        handles.append(Line2D([], [], ls="--", color=GREY, label="link between machines"))
    axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0), ncols=3)
    ranked = [links[position] for position in reversed(order) if frames[position]]
    names = {node.id: node.name for node in nodes if node.name is not None}
    if len(nodes) > _NUMBERS_UP_TO:
        names = {end: run.topology.label(end) for link in ranked[:_BUSIEST] for end in (link.u, link.v)}
    without = _write_names(axes, names, place, ring)
    busiest = links[frames.index(most)] if most else None
    label = run.topology.label
    if busiest:
        load = f"The busiest link, {label(busiest.u)}–{label(busiest.v)}, carried {most} frames."
    elif run.links_captured:
        load = "No frames were counted."
    else:
        load = "No link was captured: the load of the links is not known."
    between = f"{len(cut)} of them between {len(machines)} machines, " if cut else ""
    note = (
        f"{run.topology.name}: {len(nodes)} nodes, {len(links)} links, {between}"
        f"{numbers.counted(len(senders), 'sender')}, {numbers.counted(len(receivers), 'receiver')}. {load}"
    )
    if without:
        note += f" Of {len(names)} names {without} have no room; the tables have them."
    return Drawing(figure, note)
