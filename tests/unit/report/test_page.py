from __future__ import annotations

import io
import json
import math
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from itertools import chain, combinations
from math import dist
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle, StepPatch
from rich.console import Console

from captures.accounting.texts import WINDOW_S
from captures.rundir import RunLayout
from captures.rundir.clock import CLOCK, ClockPiece
from captures.rundir.files import RunFolderError
from captures.rundir.inputs import read_topology, write_topology
from testbed import api
from testbed.results.report import sheets
from testbed.results.report.data import TABLES, read_run, sums
from testbed.results.report.figures import (
    curve,
    delays,
    frames_over_time,
    matches,
    recovery,
    stretch,
    utilisation,
)
from testbed.results.report.layout import layout, positions
from testbed.results.report.render import write_report
from testbed.results.report.style import save
from testbed.results.report.topology_figure import topology as topology_figure
from testbed.terminal import numbers
from testbed.terminal.summary import facts, print_summary
from tests.support.browser import contrasts, driven, needs_chromium
from tests.support.cases import cases_beside
from tests.support.optional import some
from topos import Link, LinkSpec, Node
from topos.build import build
from topos.generators import line, star

FIGURES = (
    *("topology", "false_negatives", "false_positives", "frames", "control_share", "rates", "utilisation"),
    *("delays", "stretch", "matches"),
)


_CASES = cases_beside(__file__)
SUMMARY: dict[str, Any] = _CASES["summary"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated run with requests of senders, accounted for."""
    settings = {"protocol.sr_policy": "periodic", "protocol.sr_period_s": 60, "duration_s": 300}
    experiment = api.experiment(topology="waxman,9", settings=settings)
    return api.simulate(experiment, runs=tmp_path_factory.mktemp("runs"), accounting="duckdb").path


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Callable[..., Path]:
    """Copies the run, with other values of some keys of its summary."""

    def copy(**changes: Any) -> Path:
        run = RunLayout(Path(tempfile.mkdtemp(dir=tmp_path)))
        shutil.copytree(finished, run.path, dirs_exist_ok=True)
        run.summary.write_text(json.dumps(json.loads(run.summary.read_text()) | changes))
        return run.path

    return copy


@pytest.fixture(scope="module")
def full_report(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("reported")
    shutil.copytree(finished, run, dirs_exist_ok=True)
    return write_report(run)


def put(run: Path, name: str, table: pd.DataFrame) -> None:
    """Replaces a table of a run."""
    folder = RunLayout(run).tables / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    table.to_parquet(folder / "part-0.parquet")


class Page(HTMLParser):
    """The parts of a page that the tests look at, and whether its elements are closed in order."""

    VOID = frozenset({"meta", "br", "hr", "img", "input", "link"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_report_of_a_full_run(full_report: Path) -> None:
    assert full_report.name == "report.html"
    text = full_report.read_text()
    page = Page(text)
    assert sum(tag == "svg" for tag, _ in page.tags) == len(FIGURES)
    described = [attributes for _, attributes in page.tags if attributes.get("role") == "img"]
    assert len(described) == len(FIGURES) and all(len(one["aria-label"] or "") > 30 for one in described)
    identifiers = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))
    for wanted in ("✓ Holds", "Load of the links", "experiment time (s)", "link-"):
        assert wanted in text
    assert {file.name for file in (full_report.parent / "figures").iterdir()} == {
        f"{name}.{suffix}" for name in FIGURES for suffix in ("svg", "png")
    }
    # The same run gives the same report.
    assert write_report(full_report.parent).read_text() == text


def test_changes_of_the_network_have_a_section_of_their_own(
    copied: Callable[..., Path], full_report: Path
) -> None:
    assert "Changes of the network" not in full_report.read_text()
    changes = [
        {"events": ["link_down 0-1"], "at_s": 100.0, "epoch": 2, "committed_s": 0.071, "advertised_s": 0.12},
        {"events": ["node_down 4", "link_up 0-1"], "at_s": 512.25, "epoch": 3, "committed_s": 0.25},
        {"events": ["node_up 4"], "at_s": 600.0, "epoch": None, "committed_s": None},
    ]
    run = copied(recovery_s=[{"advertised_s": None, **change} for change in changes], frames_repeated=0)
    text = write_report(run).read_text()
    page = Page(text)
    assert sum(tag == "svg" for tag, _ in page.tags) == len(FIGURES) + 1
    section = text[text.index("Changes of the network") : text.index("Can the numbers be trusted?")]
    assert "no message crossed a link twice in one direction" in section
    assert "New trees everywhere: at most 0.25 s; last advertisement: at most 0.12 s." in section
    rows = [re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", row) for row in section.split("<tr>")[2:]]
    assert rows == [
        ["link_down 0-1", "100 s", "2", "0.071 s", "0.12 s"],
        ["node_down 4, link_up 0-1", "512 s", "3", "0.25 s", "–"],
        ["node_up 4", "600 s", "–", "–", "–"],
    ]
    assert (run / "figures" / "recovery.svg").exists()
    looping = write_report(copied(recovery_s=changes[:1], frames_repeated=3)).read_text()
    assert "3 message frames crossed a link twice" in looping


DOUBLED = "router 4 refused 9 frames in the name of node 5: replayed"
REPLAYED = "router 0 refused 3 frames in the name of node 1: issuer_replayed"
DROPPED = "the switch of node 1 dropped 2 frames that no rule forwards"
REJECTED = "the controller refused 37 frames in the name of node 1: hello_rate"


def test_the_report_names_the_nodes_whose_frames_were_not_taken(
    copied: Callable[..., Path], full_report: Path
) -> None:
    assert "No frame came a second time" in full_report.read_text()
    refused = {"frames_rejected": [REJECTED], "frames_replayed": [DOUBLED, REPLAYED]}
    text = write_report(copied(frames_dropped_by_switches=[DROPPED], **refused)).read_text()
    Page(text)
    section = text[text.index("Frames that were not taken") : text.index('<h3 id="captures"')]
    assert re.findall(r"<li>([^<]*)</li>", section) == [DROPPED, REJECTED, REPLAYED, DOUBLED]


def test_the_terminal_names_the_nodes_whose_frames_were_not_taken() -> None:
    assert "not taken" not in printed({}, color_system=None)
    found = {"frames_replayed": [*[DOUBLED] * 11, REPLAYED], "frames_rejected": [REJECTED]}
    lines = printed(found, color_system=None).splitlines()
    (first,) = (number for number, line in enumerate(lines) if line.startswith("not taken"))
    assert [line.removeprefix("not taken").strip() for line in lines[first : first + 11]] == [
        *(REJECTED, REPLAYED, *[DOUBLED] * 8),
        "and 3 more",
    ]


def test_a_report_needs_nothing_from_elsewhere(full_report: Path) -> None:
    text = full_report.read_text()
    assert not re.findall(r"@import|url\((?![\"']?(?:#|data:))", text)
    page = Page(text)
    for tag, attributes in page.tags:
        assert tag not in {"link", "iframe", "img"}
        assert "src" not in attributes
        for name in ("href", "xlink:href"):
            assert (attributes.get(name) or "#").startswith(("#", "data:"))


def test_a_run_without_traffic_says_so(tmp_path: Path) -> None:
    run = RunLayout(tmp_path)
    write_topology(run, build("none", [Node(0)], []))
    run.summary.write_text("{}")
    text = write_report(tmp_path).read_text()
    Page(text)
    for sentence in (
        "Not judged",
        "No frames were captured",
        "No captures were recorded",
        "The topology has no links",
        "The run left no manifest",
    ):
        assert sentence in text


def test_a_run_without_captures_shows_no_number_of_a_link(tmp_path: Path) -> None:
    run = RunLayout(tmp_path)
    write_topology(run, build("pair", [Node(0), Node(1)], [LinkSpec(0, 1, 1)]))
    run.summary.write_text(json.dumps({"verdict": "holds", "links_captured": 0, "links": 1}))
    text = write_report(tmp_path).read_text()
    Page(text)
    assert "all counts agree" not in text
    assert "no link was captured" in text
    assert "the load of the links is not known" in text
    assert "frames on the link, both directions" not in text, "a scale without numbers"
    for name in ("No message crossed a link", "No router received a message", "No frames were captured"):
        assert name not in text
    assert sheets.links(read_run(tmp_path)).rows == []


def test_the_scale_of_the_load_counts_whole_frames(full_report: Path) -> None:
    drawing = some(topology_figure(read_run(full_report.parent)))
    (scale,) = (axes for axes in drawing.figure.axes if axes.get_ylabel().startswith("frames on the link"))
    drawing.figure.draw_without_rendering()
    assert all(tick == round(tick) for tick in scale.get_yticks())


def test_a_failed_run_shows_reasons_and_differences(copied: Callable[..., Path]) -> None:
    reconciliation = {
        "tshark": {"expected": 10, "found": 10, "differences": []},
        "routers": {
            "expected": 10,
            "found": 9,
            "differences": [{"where": "router 3: sent MSG", "expected": 5, "found": 4}],
        },
    }
    reasons = ["3 deliveries missed <after> convergence"]
    run = copied(verdict="fails", verdict_reasons=reasons, reconciliation=reconciliation)
    captures = read_run(run).tables["captures"]
    captures.loc[20, "dropped_by_kernel"] = 17
    put(run, "captures", captures)
    text = write_report(run).read_text()
    assert "✗ Fails" in text and "missed &lt;after&gt; convergence" in text
    assert "router 3: sent MSG: 5 there, 4 accounted" in text
    assert "not made" in text
    first = re.search(r"those with a fault first.*?<tbody>.*?<td>([^<]*)</td>(.*?)</tr>", text, re.DOTALL)
    assert first is not None and first[1] == captures["capture"][20]
    assert '<strong class="bad">17</strong>' in first[2]


@pytest.mark.parametrize("missing", ["summary", "topology"])
def test_a_folder_that_is_no_finished_run_is_refused(copied: Callable[..., Path], missing: str) -> None:
    run = copied()
    path = getattr(RunLayout(run), missing)
    path.unlink()
    with pytest.raises(RunFolderError, match=f"{path}: missing"):
        write_report(run)


def test_a_table_without_its_columns_is_an_error_that_names_both(copied: Callable[..., Path]) -> None:
    run = copied()
    put(run, "control_share_curve", pd.DataFrame({"t": [1.0]}))
    with pytest.raises(RunFolderError, match=r"control_share_curve: .*\bt_s\b"):
        write_report(run)


def test_link_load_sums_directions_and_types_and_leaves_host_links_out() -> None:
    rows = [(0, "MSG", 5), (0, "RA", 2), (0, "MSG", 1), (3, "MSG", 4), (None, "MSG", 100)]
    table = pd.DataFrame(rows, columns=["link", "type", "frames"])
    assert sums(table, ["link"], "frames") == {0: 8, 3: 4}


def test_positions_come_from_the_topology_or_from_its_links() -> None:
    links = [LinkSpec(0, 1)]
    assert positions(build("pair", [Node(0, 1, 2), Node(1, 3, 4)], links)) == {0: (1.0, 2.0), 1: (3.0, 4.0)}
    partly = build("pair", [Node(0, 1, 2), Node(1, None, 4)], links)
    laid_out = positions(partly)
    assert laid_out.keys() == {0, 1} and laid_out[0] != laid_out[1]
    assert laid_out == positions(partly)


_BINS = ["type", "bin_s", "frames", "frames_per_s"]


def test_frames_over_time_counts_empty_bins_as_zero() -> None:
    table = pd.DataFrame([("MSG", 0.0, 4, 2.0), ("MSG", 6.0, 2, 1.0), ("RA", 2.0, 6, 3.0)], columns=_BINS)
    drawing = some(frames_over_time(table))
    steps: list[Any] = [patch for patch in drawing.figure.axes[0].patches if isinstance(patch, StepPatch)]
    data = {patch.get_label(): patch.get_data() for patch in steps}
    assert list(data["MSG"].values) == [2.0, 0.0, 0.0, 1.0]
    assert list(data["RA"].values) == [0.0, 3.0, 0.0, 0.0]
    assert list(data["MSG"].edges) == [0.0, 2.0, 4.0, 6.0, 8.0]
    # Of bins that lie far apart as well, the width is the table's.
    sparse = frames_over_time(table[table["type"] == "MSG"])
    assert sparse is not None and sparse.note.startswith("Bins of 2 s.")


@pytest.mark.parametrize(("opening", "scale"), [(30, "linear"), (30_000, "symlog")])
def test_a_peak_does_not_leave_the_other_bins_at_the_foot_of_the_axis(opening: int, scale: str) -> None:
    frames = [opening, *[5, 8, 3] * 9]
    bins = pd.DataFrame({"type": "RA", "bin_s": map(float, range(28)), "frames": frames})
    drawing = some(frames_over_time(bins.assign(frames_per_s=bins["frames"].astype(float))))
    axes = drawing.figure.axes[0]
    assert axes.get_yscale() == scale
    assert ("Logarithmic" in drawing.note) == (scale == "symlog")
    assert axes.get_ylim()[0] == 0 and axes.get_ylim()[1] > opening
    if scale == "symlog":
        drawing.figure.draw_without_rendering()
        assert [each.get_text() for each in axes.get_yticklabels()] == [
            *("0", *(f"1{'0' * zeros}" for zeros in range(5)))
        ]


def _steps(figure: Figure) -> list[list[float]]:
    """The heights of each step plot of a figure."""
    patches = [patch for patch in figure.axes[0].patches if isinstance(patch, StepPatch)]
    assert len(patches) == len(figure.axes[0].patches)
    return [np.asarray(patch.get_data()[0]).tolist() for patch in patches]


def _heights(line: Line2D) -> list[float]:
    found: list[float] = np.asarray(line.get_ydata()).tolist()
    return found


def test_a_frame_with_a_time_far_off_draws_no_bins_in_between() -> None:
    rows = [("MSG", -1.7e10, 1, 2.0), ("MSG", 0.0, 2, 4.0), ("MSG", 0.5, 3, 6.0)]
    drawing = some(frames_over_time(pd.DataFrame(rows, columns=_BINS)))
    (steps,) = _steps(drawing.figure)
    assert steps == [2.0, 0.0, 4.0, 6.0]


def test_text_in_a_figure_is_neither_formula_nor_markup(tmp_path: Path) -> None:
    change = {"events": ["<script>$x_{"], "at_s": 1.0, "epoch": 2, "committed_s": None, "advertised_s": 0.5}
    drawing = some(recovery([change]))
    assert "&lt;script&gt;$x_{" in save(drawing.figure, tmp_path, "recovery")


def test_matches_are_put_into_bins_that_end_at_multiples_of_five_per_cent() -> None:
    drawing = some(matches([0.0, 0.0, 0.05, 3 / 20, 0.151, 0.02]))
    bars = [patch for patch in drawing.figure.axes[0].patches if isinstance(patch, Rectangle)]
    heights = [bar.get_height() for bar in bars]
    assert heights == pytest.approx([100 / 3, 100 / 3, 0, 100 / 6, 100 / 6])
    # The median of an even number lies between the middle two.
    assert "2 of 6 messages match no predicate. The median of the others is 10.0%." in drawing.note
    assert matches([]) is None


def test_a_part_is_drawn_where_it_is_not_the_whole() -> None:
    table = pd.DataFrame({"t_s": [2.0, 4.0], "fraction": [0.5, 0.25], "ra_fraction": [0.5, 0.125]})
    lines = []
    for ra_fraction in (table["ra_fraction"], table["fraction"]):
        drawing = some(
            curve(table.assign(ra_fraction=ra_fraction), "share", 3.0, ("ra_fraction", "RA alone"))
        )
        lines.append([_heights(line) for line in drawing.figure.axes[0].get_lines()])
    assert lines == [[[0.5, 0.25], [0.5, 0.125]], [[0.5, 0.25]]]


def test_a_part_that_exceeds_the_whole_is_drawn_and_named() -> None:
    """More rounds starve than are satisfied."""
    table = pd.DataFrame({"t_s": [2.0, 4.0], "fraction": [0.25, 0.0], "starved": [0.5, 0.75]})
    drawing = some(curve(table, "rounds satisfied (%)", math.inf, ("starved", "starved")))
    assert drawing.note == "At most 25.0%, at the end 0.0%; starved at most 75.0%, at the end 75.0%."
    bottom, top = drawing.figure.axes[0].get_ylim()
    assert (bottom, top > 0.75) == (0, True)
    # There is none without points.
    assert curve(pd.DataFrame({"t_s": [], "fraction": []}), "x (%)", 3.0) is None
    assert curve(pd.DataFrame({"t_s": [1.0], "fraction": [None]}), "x (%)", 3.0) is None


def printed(content: dict[str, Any], width: int = 110, **options: Any) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, **options)
    print_summary(console, content, Path("captures/runs/x/report.html"))
    return out.getvalue()


def test_the_terminal_says_the_same_without_colour() -> None:
    plain = printed(SUMMARY, color_system=None)
    assert "\x1b" not in plain and "captures/runs/x/report.html" in plain
    over_machines = printed(SUMMARY | {"clock_error_s": 0.0003}, color_system=None)
    assert "clocks of machines" not in plain and re.search(r"clocks of machines +0\.3 ms; ", over_machines)
    coloured = printed(SUMMARY, force_terminal=True, color_system="standard")
    assert "\x1b[" in coloured and re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


def test_page_and_terminal_have_every_fact_of_the_summary(full_report: Path) -> None:
    summary = read_run(full_report.parent).summary
    page, terminal = unescape(full_report.read_text()), printed(summary, width=400)
    assert summary["lasted_s"] <= summary["duration_s"] == 300
    for name, value, note in chain(*facts(summary).values()):
        assert f"<dt>{name}</dt><dd>{value} <small>{note}</small>" in page
        assert re.search(rf"{name[:12]}.* {re.escape(f'{value}; {note}')} *\n", terminal), name


def test_a_tile_and_a_figure_of_one_name_have_one_definition(tmp_path: Path) -> None:
    """The run is shorter than the window of the curves, so that their last points are of all of it."""
    run = read_run(api.simulate(api.experiment("ring5"), runs=tmp_path, accounting="duckdb").path)
    tables, shown = run.tables, {fact.name: fact for fact in chain(*facts(run.summary).values())}
    last = {name: table["fraction"].iloc[-1] for name, table in tables.items() if "fraction" in table}
    assert run.summary["duration_s"] < WINDOW_S
    assert shown["control share"].value == numbers.share(last["control_share_curve"], 1)
    everywhere = shown["false positives among messages from neighbours"].note
    assert f"included: {numbers.share(last['false_positive_curve'], 1)}, " in everywhere
    delay = f"{shown['deliveries made'].value} deliveries, half of them within "
    assert some(delays(tables["deliveries"])).note.startswith(delay + shown["median delivery delay"].value)
    assert f"average {shown['stretch in hops'].value} in hops" in some(stretch(tables["arrivals"])).note
    frames = sums(tables["type_bins"], ["type"], "frames")
    assert frames == sums(tables["link_totals"], ["type"], "frames")
    assert frames.items() <= run.summary["frames_by_type"].items()
    assert shown["frames on links"].value == str(sum(frames.values()))
    assert sheets.savings(run).rows[0]["CBCB"].text == shown["crossings of links by messages"].value
    peaks = [row["Peak kbit/s"].value or 0 for row in sheets.links(run).rows]
    note = some(utilisation(tables["link_utilisation"], 12, 0, 1.0)).note
    assert note.startswith(f"Highest: {numbers.significant(max(peaks) / 1000)} kbit/s")


def test_the_terminal_names_reasons_and_copes_with_an_empty_summary() -> None:
    failed: dict[str, Any] = {
        "verdict": "fails",
        "verdict_reasons": ["2 frames dropped in capture [link-0-1]"],
    }
    failed["reconciliation"] = {"ovs": {"expected": 9876, "found": 9000, "differences": []}}
    text = printed(failed, color_system=None)
    assert "Verdict: fails" in text and "2 frames dropped in capture [link-0-1]" in text
    assert "DIFFERS" in text
    assert "Verdict: not judged" in printed({}, color_system=None)


def test_a_verdict_names_the_share_that_is_undecided_and_its_key(copied: Callable[..., Path]) -> None:
    changes = {"deliveries_expected": 1234, "deliveries_decided": 592, "time_scale": 20}
    sentence = (
        "52 % of the 1 234 expected deliveries are undecided: sent before convergence, or within "
        "oracle.in_flight_window_s (1 s of wall time, 20 s of the experiment) of a change"
    )
    run = copied(**changes)
    assert f"<p>{sentence}.</p>" in write_report(run).read_text(encoding="utf-8")
    terminal = " ".join(printed(read_run(run).summary, color_system=None).split())
    assert f"Verdict: holds; {sentence}" in terminal
    assert "are undecided" not in printed(SUMMARY | {"deliveries_decided": 1234}, color_system=None)


def test_who_sent_and_asked_is_in_the_figure_and_not_who_was_drawn_to(copied: Callable[..., Path]) -> None:
    run = copied()
    put(run, "messages", pd.DataFrame({"source": [3, 3, 4]}))
    put(run, "predicates", read_run(run).tables["predicates"].query("node == 2"))
    put(run, "subscriptions", pd.DataFrame({"node": [8]}))
    data = read_run(run)
    assert (data.senders, data.receivers) == ({3, 4}, {2, 8})
    assert "2 senders, 2 receivers" in some(topology_figure(data)).note


def test_properties_of_links_are_a_table_by_time(copied: Callable[..., Path]) -> None:
    """The loss that a command gave a link for a while, required and measured."""
    run = copied()
    CLOCK.write(RunLayout(run), [ClockPiece(t_ns=10**9, monotonic_ns=0, experiment_s=0.0, rate=2.0)])
    manifest = json.loads(RunLayout(run).manifest.read_text())
    row = {"sender": 0, "receiver": 1, "since_ns": 2 * 10**9, "until_ns": 6 * 10**9, "frames": 1204}
    manifest["links"] = [{**row, "property": "loss_percent", "required": 20.0, "measured": 21.9}]
    RunLayout(run).manifest.write_text(json.dumps(manifest))
    text = write_report(run).read_text(encoding="utf-8")
    assert "{&#39;" not in text and "{'" not in text
    section = text[text.index('id="properties"') : text.index('id="savings"')]
    assert re.findall(r"<td[^>]*>([^<]*)</td>", section) == [
        *("2 s", "10 s", "0", "1", "loss_percent", "20", "21.9", numbers.count(1204)),
    ]


def test_numbers_in_words() -> None:
    assert numbers.count(1234567) == "1 234 567"
    assert numbers.count(None) == "–"
    assert numbers.seconds(0.4123) == "0.412 s"
    assert numbers.share(1, 0) == "–"
    assert [numbers.counted(each, "sender") for each in (0, 1, 2)] == ["0 senders", "1 sender", "2 senders"]
    # Neither exponents nor less than was given.
    assert [numbers.plain(scale) for scale in (0.5, 2.5, 60, 60.0, 1e6, None)] == [
        *("0.5", "2.5", "60", "60", "1 000 000", "–")
    ]
    assert [numbers.share(part, 1) for part in (0.0042, 0.0949, 0.99, 0.995, 1)] == [
        *("0.42 %", "9.5 %", "99 %", "100 %", "100 %")
    ]
    assert numbers.share(1, 10**8) == "0.000001 %"
    assert [numbers.milliseconds(delay) for delay in (0.0012345, 0.1234, 0.9996, 1.234, 61.7)] == [
        *("1.23 ms", "123 ms", "1 000 ms", "1 234 ms", "61 700 ms")
    ]
    assert numbers.milliseconds(1e-9) == "0.000001 ms"
    assert [numbers.seconds(time) for time in (0, 0.00001234, 99.96, 1234.4)] == [
        *("0 s", "0.0000123 s", "100 s", "1 234 s")
    ]


def test_neither_page_terminal_nor_figures_show_an_exponent(copied: Callable[..., Path]) -> None:
    values = {
        "time_scale": 0.5,
        "control_share": 0.999,
        "false_positives": 2873,
        "messages_received_by_routers": 2874,
        "delivery_delay": {"median_s": 1.234, "p99_s": 61.7},
    }
    run = copied(**values)
    tables = read_run(run).tables
    put(run, "deliveries", pd.DataFrame({"delay_wall_s": [0.5, 2.5, 4.5]}))
    put(run, "control_rate_curve", tables["control_rate_curve"].assign(ra_per_s=12345.6))
    put(run, "link_utilisation", tables["link_utilisation"].assign(bits_per_wall_s=1.234e8))
    page = re.sub(r"<style>.*?</style>|<svg.*?</svg>", "", write_report(run).read_text(), flags=re.DOTALL)
    terminal = printed(values, color_system=None)
    assert not re.findall(r"\S*\de[+-]\d+", page + terminal)
    for wanted in ("time scale 0.5", "<dd>100 %", "<dd>1 234 ms", "61 700 ms at 99 %"):
        assert wanted in page
    for note in ("half of them within 2 500 ms, the last after 4 500 ms", "RA at most 12 346"):
        assert note in page
    assert "Highest: 123 400 kbit/s" in page
    assert f"{numbers.milliseconds(1.234)}; {numbers.milliseconds(61.7)} at 99 %" in terminal


def test_a_layout_keeps_neighbours_near_and_nodes_apart() -> None:
    row = layout(line(6))
    assert dist(row[0], row[5]) == pytest.approx(5, rel=0.05)
    around = layout(star(7))
    leaves = [around[leaf] for leaf in range(1, 7)]
    assert min(dist(a, b) for a, b in combinations(leaves, 2)) > 0.3
    assert layout(line(1)).keys() == {0}


def limited(run: Path) -> tuple[Link, ...]:
    """Gives every second link 10 Mbit/s, and takes all frames of link 1 away; returns the links."""
    topology, table = read_topology(RunLayout(run)), read_run(run).tables["link_utilisation"]
    links = tuple(replace(link, bandwidth_mbps=10.0 if link.index % 2 else None) for link in topology.links)
    write_topology(RunLayout(run), replace(topology, links=links))
    table["utilisation"] = (table["bits_per_wall_s"] / 1e7).where(table["link"] % 2 == 1)
    put(run, "link_utilisation", table[table["link"] != 1])
    return links


#: Sorts a table by a heading, again and again; whether the page fits into its window, and the cells' values.
SORTING = Path(__file__).with_name("sorting.js").read_text()


@needs_chromium
def test_a_browser_sorts_the_tables_and_a_narrow_window_holds_the_page(
    copied: Callable[..., Path], tmp_path: Path
) -> None:
    """Links without a bandwidth, which have no peak, come last whichever way they are sorted."""
    run = copied()
    links = limited(run)
    with driven(write_report(run).as_uri(), tmp_path / "profile", "--window-size=500,900") as evaluate:
        fits, scrolls, most, least, dearest, falling, rising = evaluate(SORTING)
    assert fits
    assert [True, True] in scrolls and all(scrolling == said for scrolling, said in scrolls)
    rows = sheets.links(read_run(run)).rows
    sizes, costs = ([float(row[column].value or 0) for row in rows] for column in ("Bytes", "Cost"))
    assert [float(column[0]) for column in (most, least, dearest)] == [max(sizes), min(sizes), max(costs)]
    known = sum(link.bandwidth_mbps is not None for link in links)
    for column, down in ((falling, True), (rising, False)):
        peaks = [float(value) for value in column[:known]]
        assert peaks == sorted(peaks, reverse=down)
        assert column[known:] == [None] * (len(links) - known)


@needs_chromium
@pytest.mark.parametrize("dark", [False, True])
def test_every_text_is_legible(copied: Callable[..., Path], tmp_path: Path, dark: bool) -> None:
    run = copied(verdict="fails", verdict_reasons=["3 deliveries missed"])
    found = contrasts(write_report(run).as_uri(), tmp_path / "profile", dark)
    assert {"✗ Fails", "3 deliveries missed", "Key numbers", "routers"} <= set(found)
    assert {text: ratio for text, ratio in found.items() if ratio < 4.5} == {}


def test_the_delay_figure_ends_at_the_last_delivery() -> None:
    drawing = some(delays(pd.DataFrame({"delay_wall_s": [0.004, 0.002, 0.001, 0.008]})))
    (line, *_) = drawing.figure.axes[0].get_lines()
    assert np.asarray(line.get_xdata()).tolist() == [1, 1, 2, 4, 8]
    assert _heights(line) == [0, 25, 50, 75, 100]
    assert drawing.note == "4 deliveries, half of them within 3 ms, the last after 8 ms."
    assert delays(pd.DataFrame({"delay_wall_s": []})) is None


def test_stretch_counts_hops_and_cost() -> None:
    table = pd.DataFrame(
        {"hops": [1, 3, None], "cost": [10, 30, 1], "shortest_hops": [1, 2, 1], "shortest_cost": [10, 30, 1]}
    )
    drawing = some(stretch(table))
    assert "1.250 in hops and 1.000 in cost; at most 1.5" in drawing.note
    heights = {
        round(bar.get_x() + bar.get_width() / 2, 2): bar.get_height()
        for bar in drawing.figure.axes[0].patches
        if isinstance(bar, Rectangle) and bar.get_height()
    }
    assert heights == {0.98: 50, 1.48: 50, 1.02: 100}
    assert stretch(table.head(0)) is None


def test_use_of_links_counts_silent_bins_and_directions_as_zero() -> None:
    rows = [(0, 0, 1, 0.0, 4000.0, 0.4), (0, 1, 0, 0.0, 2000.0, 0.2), (0, 0, 1, 10.0, 9000.0, 0.9)]
    rows.append((0, 0, 1, 30.0, 1000.0, 0.1))
    table = pd.DataFrame(rows, columns=list(TABLES["link_utilisation"]))
    drawing = some(utilisation(table, 4, 4, 10.0))
    fullest, mean = _steps(drawing.figure)
    assert fullest == pytest.approx([40, 90, 0, 10])
    assert mean == pytest.approx([15, 22.5, 0, 2.5])
    assert drawing.note.startswith("Highest: 90 %, from 0 to 1 at 10 s")
    assert drawing.figure.axes[0].patches[1].get_label() == "mean over all directions"
    unlimited = utilisation(table.assign(utilisation=None), 4, 0, 10.0)
    assert unlimited is not None and unlimited.note.endswith("The topology declares no bandwidth.")


def test_links_without_a_bandwidth_are_no_part_of_the_use_of_those_with_one() -> None:
    rows = [(0, 0, 1, 0.0, 4000.0, 0.4), (0, 1, 0, 0.0, 2000.0, 0.2), (1, 1, 2, 0.0, 9000.0, None)]
    table = pd.DataFrame(rows, columns=list(TABLES["link_utilisation"]))
    drawing = some(utilisation(table, 8, 4, 10.0))
    fullest, mean = _steps(drawing.figure)
    assert fullest == pytest.approx([40])
    assert mean == pytest.approx([15])
    assert drawing.figure.axes[0].patches[1].get_label() == "mean over limited directions"
    assert drawing.note.endswith("4 directions without a bandwidth are left out.")
    silent = utilisation(table.tail(1), 8, 4, 10.0)
    assert silent is not None and silent.note.startswith("Highest: 9 kbit/s, from 1 to 2")
    assert silent.note.endswith("No link with a bandwidth carried a frame.")
    # Directions without a frame have rows, too.
    idle = [(0, 0, 1, 0.0, 0.0, 0.0), (0, 0, 1, 10.0, 0.0, 0.0), (1, 1, 2, 10.0, 0.0, None)]
    quiet = pd.concat([table.tail(1), pd.DataFrame(idle, columns=list(table.columns))])
    with_idle = utilisation(quiet, 8, 4, 10.0)
    assert with_idle is not None and with_idle.note == silent.note
    assert utilisation(quiet.tail(len(idle)), 8, 4, 10.0) is None


def test_a_link_without_a_bandwidth_has_no_utilisation(copied: Callable[..., Path]) -> None:
    run = copied()
    links = limited(run)
    sheet = sheets.links(read_run(run))
    peaks = {(row["u"].value, row["v"].value): row["Peak utilisation"] for row in sheet.rows}
    for link in links:
        peak = peaks[link.u, link.v]
        assert (peak.value is None) == (peak.text == "–") == (link.bandwidth_mbps is None)
    assert peaks[links[1].u, links[1].v].text == "0.0%"
    assert "nan" not in re.sub(r"<svg.*?</svg>", "", write_report(run).read_text(), flags=re.DOTALL)


def test_long_predicates_are_folded_and_short_ones_are_not() -> None:
    rows = [("RA", "a < 1", 1, 1, 5), ("UR", "b = 22 or " * 20 + "c", 2, 3, 500)]
    sheet = sheets.advertised(pd.DataFrame(rows, columns=list(TABLES["advertised"])))
    cells = [row["Predicate"] for row in sheet.rows]
    assert [cell.text + cell.rest for cell in cells] == [rows[1][1], rows[0][1]]
    assert [bool(cell.rest) for cell in cells] == [True, False]


def test_subscriptions_have_a_section_and_rows_of_the_terminal(
    copied: Callable[..., Path], full_report: Path
) -> None:
    """Only runs of the attention-limited service have them; a broken rule is highlighted."""
    assert 'id="subscriptions"' not in full_report.read_text(encoding="utf-8")
    run = copied(attention=_CASES["attention"])
    # A time bin in which no round ended is between two others.
    curve_rows = [
        (10.0, 5.0, 9.0, 2.0, 1.0, 0.0),
        (20.0, 5.0, 9.0, 0.0, None, None),
        (30.0, 5.0, 9.0, 1.0, 0.5, 0.5),
    ]
    put(run, "attention_curve", pd.DataFrame(curve_rows, columns=list(TABLES["attention_curve"])))
    text = write_report(run).read_text(encoding="utf-8")
    assert 'id="subscriptions"' in text
    assert "Of the rounds that ended in each time bin. At most 100.0%, at the end 50.0%; starved at " in text
    assert "81 %" in text
    assert f"<dd>{numbers.count(4321)} <small>publications that came to a home" in text
    assert f"25 % <small>{numbers.count(28_874)} crossings by publications that caches replaced" in text
    assert f'disseminated (DPT)</th><td class="n">{numbers.count(5678)}</td>' in text
    assert '<strong class="bad">2</strong>' in text
    assert "12 publications were evicted from caches" in text
    # Applications of this service send no messages.
    assert "messages sent" not in text and "Delivery delay" not in text and "control share" not in text
    terminal = printed({"attention": _CASES["attention"]})
    assert " sent" not in terminal
    assert "99 %; of the rounds that ended: 689 of 693, 0 open" in " ".join(terminal.split())
