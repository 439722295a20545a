"""Figures that are fit for a paper: no line without data, no node behind another, two styles, PDF."""

from __future__ import annotations

import math
import re
import zlib
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from testbed.cli.arguments import STYLE_NAMES
from testbed.results.report.data import TABLES, RunData
from testbed.results.report.figures import SERVICE_RATES, broken, curve, frames_over_time, rates, utilisation
from testbed.results.report.layout import apart
from testbed.results.report.style import STYLES, new_figure, save_pdf, styled
from testbed.results.report.topology_figure import topology
from tests.support.optional import some
from topos import Topology
from topos.generators import line, waxman


def test_a_line_ends_before_a_silence_and_begins_behind_it() -> None:
    points = pd.DataFrame({"t_s": [2.0, 4.0, 300.0, 302.0], "fraction": [0.5, 0.25, 0.0, 0.125]})
    drawn = broken(points, 120.0)
    assert drawn["t_s"].tolist() == pytest.approx([2, 4, math.nan, 300, 302], nan_ok=True)
    assert drawn["fraction"].tolist() == pytest.approx([0.5, 0.25, math.nan, 0, 0.125], nan_ok=True)
    assert broken(points, 1000.0)["fraction"].tolist() == [0.5, 0.25, 0.0, 0.125]
    drawing = some(curve(points, "share (%)", 120.0))
    (line,) = drawing.figure.axes[0].get_lines()
    assert np.isnan(np.asarray(line.get_ydata(), dtype=float)).tolist() == [False, False, True, False, False]


def test_a_point_between_two_silences_is_a_mark() -> None:
    points = pd.DataFrame({"t_s": [2.0, 4.0, 300.0, 900.0], "fraction": [0.5, 0.25, 0.75, 1.0]})
    drawing = some(curve(points, "share (%)", 120.0))
    _, marks = drawing.figure.axes[0].get_lines()
    assert np.asarray(marks.get_xdata()).tolist() == [300.0, 900.0]


def test_an_axis_of_zeros_has_a_scale_from_zero_to_one_unit() -> None:
    shares = curve(pd.DataFrame({"t_s": [2.0, 4.0], "fraction": [0.0, 0.0]}), "share (%)", 120.0)
    bins = pd.DataFrame([("MSG", 0.0, 0, 0.0)], columns=["type", "bin_s", "frames", "frames_per_s"])
    frames = frames_over_time(bins)
    assert shares is not None and frames is not None
    assert [each.figure.axes[0].get_ylim() for each in (shares, frames)] == [(0.0, 0.01), (0.0, 1.0)]


def test_nodes_at_one_place_are_drawn_a_mark_apart_and_others_stay() -> None:
    places = {0: (0.0, 0.0), 1: (0.0, 0.0), 2: (0.0, 0.0), 3: (10.0, 5.0)}
    drawn = apart(places, 20.0, 400.0, 400.0)
    gaps = [math.dist(drawn[u], drawn[v]) for u in drawn for v in drawn if u < v]
    assert min(gaps) >= 20.0
    assert drawn[3] == (400.0, 200.0)


def _run(network: Topology, seed: int) -> RunData:
    random = Random(seed)
    rows = [(link.index, link.u, link.v, "MSG", random.randrange(5000), 1) for link in network.links]
    tables = {name: pd.DataFrame({column: [] for column in columns}) for name, columns in TABLES.items()}
    tables["link_totals"] = pd.DataFrame(rows, columns=list(TABLES["link_totals"]))
    nodes = [node.id for node in network.nodes]
    for name, column, part in (("messages", "source", 4), ("predicates", "node", 2)):
        tables[name] = pd.DataFrame({column: random.sample(nodes, len(nodes) // part)})
    return RunData(Path(), {}, None, network, None, [], tables, [])


@pytest.mark.parametrize("count", [20, 200, 1000])
@pytest.mark.parametrize("style", STYLE_NAMES)
def test_no_mark_of_a_node_covers_another(count: int, style: str) -> None:
    with styled(STYLES[style]):
        drawing = some(topology(_run(waxman(count, seed=3), 1)))
        figure = drawing.figure
        figure.draw_without_rendering()
    marks = [each for each in figure.axes[0].collections if isinstance(each, PathCollection)]
    # Diameters in points, of the rings of senders first; positions in points.
    ring, *_ = (math.sqrt(float(each.get_sizes()[0])) for each in marks)
    places = np.concatenate([np.asarray(each.get_offsets(), dtype=float) for each in marks[1:]])
    points = figure.axes[0].transData.transform(places) * 72 / figure.dpi
    assert len(points) == count
    between = np.linalg.norm(points[:, None] - points[None, :], axis=2)
    assert float(between[~np.eye(count, dtype=bool)].min()) >= ring


def test_machines_have_colours_of_their_own_and_links_between_them_are_dashed() -> None:
    found = [{"name": "a", "nodes": [0, 1]}, {"name": "b", "nodes": [2, 3]}, {"name": "c", "nodes": [4, 5]}]
    run = replace(_run(line(6), 1), manifest={"machines": found})  # type: ignore[arg-type]
    with styled():
        drawing = some(topology(run))
    axes = drawing.figure.axes[0]
    (links,) = (each for each in axes.collections if isinstance(each, LineCollection))
    dashes: list[Any] = list(links.get_linestyle())
    assert sum(pattern is not None for _, pattern in dashes) == 2
    _, *marks = (each for each in axes.collections if isinstance(each, PathCollection))
    assert len({np.asarray(each.get_edgecolor()).tobytes() for each in marks}) == 3
    names = [text.get_text() for text in some(axes.get_legend()).get_texts()]
    assert names[3:] == ["a", "b", "c", "link between machines"]
    assert "5 links, 2 of them between 3 machines, " in drawing.note


def test_numbers_fit_into_marks_and_a_large_network_names_the_ends_of_its_busiest_links() -> None:
    shown = {}
    for count in (20, 200, 1000):
        with styled():
            drawing = some(topology(_run(waxman(count, seed=3), 1)))
        texts = drawing.figure.axes[0].texts
        shown[count] = (len(texts), min(float(text.get_fontsize()) for text in texts) >= 5.0)
    assert shown[20] == (20, True)
    assert shown[200] == (200, True)
    assert shown[1000][1] and 5 <= shown[1000][0] <= 10


@pytest.mark.parametrize("count", [20, 100])
@pytest.mark.parametrize("style", STYLE_NAMES)
def test_no_name_of_a_node_hides_a_node_or_a_name(count: int, style: str) -> None:
    """The caption counts the names that have no room."""
    network = waxman(count, seed=3)
    nodes = [replace(node, name=f"router of the campus {node.id:03}") for node in network.nodes]
    with styled(STYLES[style]):
        drawing = some(topology(_run(replace(network, nodes=tuple(nodes)), 1)))
        drawing.figure.draw_without_rendering()
    axes = drawing.figure.axes[0]
    numbers, names = axes.texts[:count], axes.texts[count:]
    boxes = [name.get_window_extent() for name in names]
    marks = [each for each in axes.collections if isinstance(each, PathCollection)]
    half = math.sqrt(float(marks[0].get_sizes()[0])) / 2 * drawing.figure.dpi / 72
    for number in numbers:
        x, y = axes.transData.transform(number.xy)  # type: ignore[attr-defined]
        assert not Bbox.from_extents(x - half, y - half, x + half, y + half).count_overlaps(boxes)
    for position, box in enumerate(boxes):
        assert not box.count_overlaps(boxes[:position])
        assert drawing.figure.bbox.contains(*box.min) and drawing.figure.bbox.contains(*box.max)
    assert names and (len(names) == count or f"Of {count} names {count - len(names)} have" in drawing.note)


def _size_in(figure: Figure) -> tuple[float, float]:
    width, height = figure.get_size_inches().tolist()
    return width, height


def test_the_style_of_a_paper_has_columns_a_serif_face_and_fonts_that_venues_take(tmp_path: Path) -> None:
    assert tuple(STYLES) == STYLE_NAMES
    with styled(STYLES["paper"]):
        narrow, axes = new_figure(6.2, 2.6)
        axes.set_xlabel("experiment time (s)")
        wide, _ = new_figure(9.6, 6.2)
        with styled():
            assert _size_in(new_figure(6.2, 2.6)[0]) == _size_in(narrow)
        path = save_pdf(narrow, tmp_path, "narrow")
    assert _size_in(narrow) == pytest.approx((3.33, 3.33 * 0.55))
    assert _size_in(wide)[0] == pytest.approx(7.0)
    assert _size_in(new_figure(6.2, 2.6)[0]) == pytest.approx((6.2, 2.6))
    content = path.read_bytes()
    box = re.search(rb"/MediaBox \[ 0 0 ([0-9.]+) ([0-9.]+) \]", content)
    assert box is not None and float(box[1]) == pytest.approx(3.33 * 72)
    # A font of Type 3 has no /FontFile2, the embedded TrueType outline.
    assert b"/Subtype /Type3" not in content and b"/FontFile2" in content
    assert b"STIXGeneral" in content
    with styled(STYLES["paper"]):
        again, axes = new_figure(6.2, 2.6)
        axes.set_xlabel("experiment time (s)")
        assert zlib.crc32(save_pdf(again, tmp_path, "again").read_bytes()) == zlib.crc32(content)


@pytest.mark.parametrize("bandwidth", [0, 2])
def test_the_legend_of_the_use_of_links_fits_into_a_column_of_a_paper(bandwidth: int) -> None:
    share = [0.5, 0.25] if bandwidth else [None, None]
    table = pd.DataFrame(
        {"link": [0, 1], "from_node": [0, 1], "to_node": [1, 2], "bin_s": [0.0, 1.0], "utilisation": share}
    ).assign(bits_per_wall_s=[9000.0, 4000.0])
    with styled(STYLES["paper"]):
        drawing = some(utilisation(table, 4, bandwidth, 1.0))
        drawing.figure.draw_without_rendering()
        legend = drawing.figure.axes[0].get_legend()
        assert legend is not None
        assert legend.get_window_extent().x1 <= drawing.figure.bbox.x1


def test_frames_and_rates_of_subscriptions_are_told_apart_by_colour_and_within_the_figure() -> None:
    bins = pd.DataFrame({"type": ["PUB", "SUB", "OVERLOAD"], "bin_s": 0.0, "frames": 1, "frames_per_s": 1.0})
    points = pd.DataFrame({"t_s": [1.0, 2.0], **dict.fromkeys(SERVICE_RATES, 1.0)})
    for drawing in (frames_over_time(bins), rates(points, SERVICE_RATES, "per experiment second")):
        figure = some(drawing).figure
        figure.draw_without_rendering()
        axes = figure.axes[0]
        legend = some(axes.get_legend())
        colours = [line.get_color() for line in axes.lines] + [
            patch.get_edgecolor() for patch in axes.patches
        ]
        assert len(set(colours)) == len(colours) == 3
        assert legend.get_window_extent().x1 <= figure.bbox.x1
