"""The registry of reproductions, their statements, and their pages."""

from __future__ import annotations

import csv
import linecache
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from captures.accounting.direct import Direct
from testbed.cli.main import main
from testbed.evaluation.figures import KEPT_POINTS, measures
from testbed.evaluation.figures.advertisements import issued
from testbed.evaluation.figures.page import page_name, page_of
from testbed.evaluation.figures.picture import draw
from testbed.evaluation.figures.reproduction import (
    EMULATED,
    FIGURES,
    SEED,
    Case,
    Panel,
    Reproduction,
    Results,
    Statement,
    Table,
    common,
)
from testbed.evaluation.figures.runner import Origin, Reproduced, figure_job, write_data
from testbed.evaluation.sweeps import ENGINES
from testbed.evaluation.sweeps.folder import SweepFolder
from testbed.evaluation.sweeps.job import row_of, simulate_job
from testbed.experiments.config.hop_limit import load_checked
from testbed.experiments.config.load import find_experiment, load_experiment
from testbed.machine.versions import source_version
from testbed.results.report.style import styled
from tests.support.cases import cases_beside
from tests.support.figures import judged, measured_run, results_of, verdicts
from tests.support.simulated import judged_run


@pytest.mark.parametrize("name", FIGURES)
def test_the_cases_are_valid_experiments_with_labels_of_their_own(name: str, tmp_path: Path) -> None:
    figure, folder = FIGURES[name](), SweepFolder(tmp_path)
    for size in figure.sizes:
        cases = figure.cases(size)
        assert len({case.label for case in cases}) == len(cases) > 0
        # Of a large grid some.
        for case in cases[:: 1 + len(cases) // 6]:
            if figure.calculates:
                job = figure_job(figure, case, 1, "simulate")
                folder.keep(row_of(job, lambda _: ({}, {})))
                assert folder.rows([job])
            base = case.facts.get("base") if figure.calculates else None
            overrides = {**case.overrides, **case.facts.get("overrides", {})}
            # The trees of thousands of nodes take seconds, and are checked before a run.
            large = int(overrides.get("topology.nodes", 0)) > 400
            (load_experiment if large else load_checked)(find_experiment(str(base or "default")), overrides)


Measured = Mapping[str, Any] | Callable[[Case], Mapping[str, Any]]


def _judged(name: str, values: Measured) -> dict[str, Statement]:
    """Returns the statements of a figure of which each case has three runs with these values, by text."""
    return judged(FIGURES[name](), lambda case: 3 * [values(case) if callable(values) else values])


def _falling(case: Case) -> Mapping[str, Any]:
    """False positives as the paper has them: the fewer, the more SRs, and constant because of SRs."""
    policy, late = case.facts["policy"], case.facts["variant"] == "late first predicates"
    steady = {"SRs every 15 min": 0.12, "SRs every 10 min": 0.11, "SRs every 60 min": 0.14, "no SRs": 0.2}
    share = 0.1 if case.facts["changes"] == "static" else steady.get(policy, 0.115)
    found = {"steady": share, "floor": 0.1, "missed": 0, "rise": 0.3 if late else -0.01}
    return {**found, "above": share - 0.1, "drift": 0.05, "drift_above": 0.05 if policy == "no SRs" else 0.01}


def _limited(case: Case) -> Mapping[str, Any]:
    """Shares of RAs as the paper has them: nearly equal because of the limit."""
    facts = case.facts
    free, strict = (facts["variant"] == each for each in ("no limit", "pif-strict"))
    share = (0.45 if free else 0.3) if facts["changes"] == "every 5 min" else 0.2
    share -= 0.05 * (strict and facts["layer"] == "spt")
    every = {"every 10 min": 600, "every 5 min": 300}.get(facts["changes"])
    rate = issued(every, int(facts["nodes"] * 0.75 + 0.5), facts["variant"]) if every else 0.0
    return {"share": share, "share_after_first_window": 0.001, "issued_per_s": rate, "missed": 0.01}


def _asking(case: Case) -> Mapping[str, Any]:
    """SRs and URs by the formula."""
    period_s = float(case.overrides.get("protocol.sr_period_s", 0))
    rate = 25 * 48 / period_s if period_s else 0.5
    frames = 0 if case.facts["variant"] != "with messages" and not period_s else 5400 * rate
    return {"rate": rate, "rate_before": rate, "frames": frames}


#: Figure -> measurements of which no statement fails.
_GOOD: dict[str, Callable[[Case], Mapping[str, Any]]] = {
    "fn": lambda _: {"expected_after_5_s": 1000},
    "fp": _falling,
    "match": lambda _: {"middle": 0.7, "none": 0.2, "most": 0.2},
    "ra": _limited,
    "rules": lambda _: {"lost": 0, "saved": 0.1},
    "srur": _asking,
}


@pytest.mark.parametrize(("name", "changed", "fails"), cases_beside(__file__)["spoilt"])
def test_a_statement_fails_if_what_was_measured_does_not_fit_or_its_control_has_the_same_numbers(
    name: str, changed: Mapping[str, Any], fails: list[str]
) -> None:
    good = _GOOD[name]
    assert {each.holds for each in _judged(name, good).values()} <= {True, None}
    failed = {
        each.claim
        for each in _judged(name, lambda case: {**good(case), **changed}).values()
        if each.holds is False
    }
    for each in fails:
        assert [claim for claim in failed if claim.startswith(each)], each
    assert [claim for claim in failed if not claim.startswith(tuple(fails))] == []


def test_a_false_negative_after_the_last_advertisement_is_in_no_figure() -> None:
    """Each run is held against the distances in its own network."""
    near = {"last_miss_s": 0.009, "settled_s": 0.01, "missed_after_5_s": 0}
    far = {"last_miss_s": 0.019, "settled_s": 0.02, "missed_after_5_s": 0}

    def found(*runs: Mapping[str, Any]) -> Statement:
        claim = "none after the last RA has come to a sender"
        return judged(FIGURES["fn"](), lambda _: runs)[f"25 nodes, spt: {claim}"]

    assert (found(near, far).holds, found(near, far).measured) == (True, "1 ms before it, or earlier")
    assert found({**far, "last_miss_s": 0.02}).measured == "0 ms before it, or earlier"
    late = found({**near, "last_miss_s": 0.03}, far)
    assert (late.holds, late.measured) == (False, "20 ms after it")
    assert found({**near, "last_miss_s": 0.015}, far).holds is False
    # An emulation has no declared delays.
    with pytest.raises(KeyError, match="none after the last RA"):
        found({**near, "settled_s": None})


def test_runs_of_equal_seeds_are_compared() -> None:
    one, other = Case("one", {}), Case("other", {})
    results = Results(
        {
            one: [{"seed": 1, "x": 5}, {"seed": 2, "x": 7}, {"seed": 3, "x": None}],
            other: [{"seed": 2, "x": 1, "y": 2}, {"seed": 3, "x": 4}],
        }
    )
    assert results.pairs(one, "x", other) == [(7.0, 1.0)]
    assert results.pairs(one, "x", other, "y") == [(7.0, 2.0)]
    assert results.pairs(other, "x", one) == [(1.0, 7.0)]
    assert results.ratios(one, "x", other, "y") == [3.5]


def test_the_rate_of_requests_is_held_against_the_formula() -> None:
    """25 routers that ask every 600 s: 25 x 48 / 600 = 2 packets a second."""
    statements = _judged("srur", {"rate": 2.08, "rate_before": 2.2, "frames": 0})
    found = statements["25 nodes, spt, every 10 min: packets a second (to 5 %)"]
    assert (found.predicted, found.holds) == ("2", True)
    assert statements["25 nodes, spt, every 8 min: packets a second (to 5 %)"].holds is False
    assert statements["25 nodes, spt: packets of 8 min over those of 10 min (to 5 %)"].predicted == "1.25"
    stable = statements["25 nodes, spt, every 10 min: stable, the second part over the first (to 5 %)"]
    assert (stable.measured, stable.holds) == ("0.945 [0.945, 0.945]", False)
    # With a seed of four outside, no claim holds and none fails.
    runs = [dict.fromkeys(("rate", "rate_before", "frames"), 2.0)] * 3 + [{"rate": 0.5, "rate_before": 2.0}]
    of_seeds = verdicts(FIGURES["srur"](), lambda _: runs)
    claims = ("packets a second (to 5 %)", "a few packets", "stable")
    one = [text for text in of_seeds if text.startswith("25 nodes, spt, every 10 min: ")]
    assert [of_seeds[text] for claim in claims for text in one if claim in text] == 3 * [None]


@pytest.mark.parametrize(
    ("name", "of", "key", "text", "holds"),
    [
        ("srur", "8 min", "rate", "spt: packets of 8", {2.5: True, 2.62: True, 2.65: False, 2.0: False}),
        # Requests at exponential times are shown without a judgement.
        ("srur", "exponential", "rate", "exponential timers: ", {2.0: None, 20.0: None}),
        ("ra", "5 min", "share", "s: 5 and 10 min nearly", {0.2: True, 0.34: True, 0.36: False, 0.04: False}),
        ("fn", "change", "missed_after_5_s", "25 nodes, spt, pred", {0: True, 9: True, 10: False}),
    ],
)
def test_the_bar_of_a_statement(
    name: str, of: str, key: str, text: str, holds: Mapping[float, bool | None]
) -> None:
    """1.25 to 5 % of 8 minutes over 10; shares at most 15 points apart; below 1 % missed with changes."""

    def found(value: float) -> set[bool | None]:
        def values(case: Case) -> Mapping[str, Any]:
            return {**_GOOD[name](case), **({key: value} if of in case.label else {})}

        return {each.holds for claim, each in _judged(name, values).items() if text in claim}

    assert {value: found(value) for value in holds} == {value: {bar} for value, bar in holds.items()}


@pytest.mark.parametrize(
    ("values", "holds"),
    [
        ([0.1, 0.2, 0.3], True),
        ([0.0, 0.0, 0.0], False),
        ([0.5, 0.5], True),
        ([0.6, 0.7], False),
        # The 90 % quantile is 0.5.
        ([0.05, 0.55], None),
        ([-0.2, 0.2, 0.3], None),
        ([0.4, 0.6], None),
        ([], False),
    ],
)
def test_an_interval_that_includes_a_limit_is_undecided(values: list[float], holds: bool | None) -> None:
    """Above 0, and at most 0.5."""
    found = Statement.by_interval("a: b", "c", values, 0, 0.5)
    assert found.holds is holds
    assert ("undecided" in found.measured) is (holds is None)


class Toy(Reproduction):
    title = "Toy"
    paper = ("All is 1.",)

    def cases(self, size: str) -> list[Case]:
        return [Case(size, common(topology__nodes=4))]

    def run(self, case: Case, seed: int) -> Mapping[str, Any]:
        return {"value": 1 if case.label == "small" else seed, "curve": [(0, seed), (1, 2 * seed)]}

    def judge(self, results: Results) -> list[Statement]:
        (case,) = results
        return [Statement("all is 1", "1", results.band(case, "value"), results.median(case, "value") == 1)]

    def panels(self, results: Results) -> Sequence[Panel]:  # type: ignore[override]
        return [Panel("values", "value", {case.label: results.curves(case) for case in results})]


@pytest.mark.parametrize(
    ("size", "status", "verdict"), [("small", 0, "| 1 [1, 1] | yes |"), ("paper", 1, "**no**")]
)
def test_a_figure_is_a_class_and_a_registration(tmp_path: Path, size: str, status: int, verdict: str) -> None:
    FIGURES.register("toy", Toy, "A toy.")
    try:
        line = ["figure", "toy", "--size", size, "--seeds", "3", "--runs", str(tmp_path / "runs")]
        assert main([*line, "-o", str(tmp_path / "a")]) == status
        assert main([*line, "-o", str(tmp_path / "b")]) == status
        name = page_name("toy", size)
        data = str(tmp_path / "a" / "data" / f"{name}.json.gz")
        assert main(["figure", "toy", "--from", data, "-o", str(tmp_path / "c")]) == status
        for option in (("--size", size), ("--seeds", "3"), ("--engine", "simulate")):
            assert main(["figure", "toy", "--from", data, *option]) == 2
    finally:
        FIGURES.unregister("toy")
    page = (tmp_path / "a" / f"{name}.md").read_text()
    assert verdict in page
    assert f"Made by `cbcb figure toy --size {size} --seeds 3`." in page
    for suffix in ("md", "svg"):
        assert len({(tmp_path / each / f"{name}.{suffix}").read_bytes() for each in "abc"}) == 1


@pytest.mark.parametrize(
    ("figure", "cases", "said"),
    [
        ("fn", [], "data of the figure 'match', not 'fn'"),
        ("match", ["9 nodes"], "its cases are not those of the figure 'match'; run the figure"),
        ("match", None, "no data of a page: "),
    ],
)
def test_data_of_another_figure_or_of_other_cases_are_an_error(
    figure: str, cases: list[str] | None, said: str, tmp_path: Path, refused: Callable[..., str]
) -> None:
    path = tmp_path / "a.json.gz"
    own = FIGURES["match"]().cases("small")
    results = Results({case: [] for case in [Case(label, {}) for label in cases or ()] or own})
    write_data(path, FIGURES["match"](), Origin("match", "small", 1, "simulate"), Reproduced(results, []))
    if cases is None:
        path.write_bytes(path.read_bytes()[:-9])
    assert said in refused("figure", figure, "--from", path, "-o", tmp_path / "b")


def test_steps_are_drawn_by_their_corners() -> None:
    """The line has the values of the curve at every point of the grid, and few points."""
    curves = [[(0.0, 1.0), (100.0, 3.0), (399.0, 2.0)], [(0.0, 1.0), (250.0, 5.0)]]
    axes = Figure().add_subplot()
    draw(Panel("t", "y", {"a": curves}, percent=False), axes)
    (line,) = axes.lines
    x, y = np.array(line.get_xdata()), np.array(line.get_ydata())
    assert x.tolist() == [0, 99, 100, 249, 250, 398, 399]
    grid = np.arange(400.0)
    expected = np.select([grid < 100, grid < 250, grid < 399], [1.0, 2.0, 4.0], 3.5)
    assert np.interp(grid, x, y) == pytest.approx(expected)


@pytest.mark.parametrize(("least", "bottom"), [(-0.2, -0.2), (0.1, 0.0)])
def test_an_axis_begins_at_0_or_at_the_least_value_below(least: float, bottom: float) -> None:
    axes = Figure().add_subplot()
    draw(Panel("t", "saved", {"eon": [[(10.0, 0.8), (100.0, least)]]}, points=True), axes)
    assert axes.get_ylim()[0] == pytest.approx(bottom)


def test_a_panel_has_the_values_of_the_paper_and_the_last_of_each_curve() -> None:
    axes = Figure().add_subplot()
    curves = {"near": [[(1.0, 0.2), (9.0, 0.5)]], "on it": [[(1.0, 0.3), (9.0, 0.5)]]}
    draw(Panel("t", "y", curves | {"far": [[(9.0, 0.9)]]}, paper={"85 %": 0.85}, paper_x={"5": 5}), axes)
    level, at = axes.lines[-2:]
    assert (level.get_label(), *np.array(level.get_ydata())) == ("85 %", 0.85, 0.85)
    assert (at.get_label(), *np.array(at.get_xdata())) == ("5", 5, 5)
    assert [text.get_text() for text in axes.texts] == ["50%", "90%"]


def test_curves_beside_have_the_colour_of_their_label() -> None:
    axes, curves = Figure().add_subplot(), [[(0.0, 1.0), (9.0, 2.0)]]
    draw(Panel("t", "y", {"a": curves}, beside={"a": curves}), axes)
    own, other = axes.get_lines()
    assert (own.get_color(), own.get_linestyle(), other.get_linestyle()) == (other.get_color(), "-", "--")


@pytest.mark.parametrize(
    ("first", "greatest", "percent", "scales"),
    [
        (0, 4, True, ("symlog", "linear")),
        (1, 30, False, ("log", "linear")),
        (1, 40, False, ("log", "log")),
        (1, 40, True, ("log", "linear")),
    ],
)
def test_points_have_logarithmic_axes_with_a_place_for_0_and_numbers_of_a_decade(
    first: float, greatest: float, percent: bool, scales: tuple[str, str]
) -> None:
    axes = Figure().add_subplot()
    curves = {"a": [[(first, 4.0), (9.0, greatest)]], "b": [[(9.0, 0.0)]]}
    draw(Panel("t", "y", curves, points=True, percent=percent), axes)
    assert (axes.get_xscale(), axes.get_yscale()) == scales
    # The point is on the axis.
    assert np.isfinite(axes.transData.transform((first, 4))).all()


@pytest.mark.parametrize(("first", "last", "labels"), cases_beside(__file__)["log_axes"])
def test_a_log_axis_has_plain_numbers(first: float, last: float, labels: list[str], tmp_path: Path) -> None:
    """In the file, where a style shows a formula by its source text."""
    with styled():
        figure = Figure()
        draw(Panel("t", "y", {"a": [[(first, 0.5), (last, 0.5)]]}, points=True), figure.add_subplot())
        figure.savefig(tmp_path / "drawn.svg")
    found = re.findall(r"<text[^>]*>([^<]*)</text>", (tmp_path / "drawn.svg").read_text())
    assert [each for each in found if each[0].isdigit() and "%" not in each] == labels
    assert not any("$" in each for each in found)


@pytest.mark.parametrize("name", FIGURES)
def test_no_two_curves_of_a_panel_look_alike(name: str) -> None:
    figure = FIGURES[name]()
    for size in figure.sizes:
        for panel in figure.panels(results_of(figure, size=size)):
            axes = Figure().add_subplot()
            draw(replace(panel, curves={label: [[(1.0, 0.5)]] for label in panel.curves}), axes)
            looks = [(str(x.get_color()), str(x.get_marker()), x.get_linestyle()) for x in axes.lines]
            assert len(set(looks)) == len(looks) >= len(panel.curves), panel.title


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        *cases_beside(__file__)["no_figures"],
        (["fig99"], f"unknown figure 'fig99'; expected one of {', '.join(FIGURES)}"),
    ],
)
def test_a_figure_that_cannot_be_made_is_an_error(
    arguments: list[str], said: str, tmp_path: Path, refused: Callable[..., str]
) -> None:
    assert said in refused("figure", *arguments, "--runs", tmp_path)


def test_figure_11_needs_no_captures() -> None:
    """Without them a network of 3,200 nodes fits; what is measured is the same."""
    figure = FIGURES["fn"]()
    (case, *_) = figure.cases("small")
    short = replace(case, overrides={**case.overrides, "topology.nodes": "8", "duration_s": "4"})
    job = figure_job(figure, short, 1, "simulate")
    assert job.captures == "none"
    rows = [simulate_job(replace(job, captures=kept)) for kept in ("none", "all")]
    assert [row["error"] for row in rows] == [None, None]
    assert rows[0]["keys"] == rows[1]["keys"]
    assert rows[0]["keys"]["expected"] > 0


def test_what_comes_after_the_end_of_the_workload_is_not_in_figure_13(tmp_path: Path) -> None:
    """RAs that wait at the end are still issued."""
    case = next(each for each in FIGURES["ra"]().cases("small") if each.facts["changes"] == "every 5 min")
    overrides = {**case.overrides, "topology.nodes": "8", "duration_s": "1200"}
    experiment = load_experiment(find_experiment("default"), overrides)
    with Direct(judged_run(experiment, tmp_path).path) as direct:
        found = measures.advertisements(direct, experiment)
        curve = direct.table("control_share_curve")
        windows = list(zip(curve["t_s"].to_pylist(), curve["ra_fraction"].to_pylist(), strict=True))
        at = direct.inputs.clock.experiment_at
        frames = direct.sql("select issuer, seq, type, time_ns, kind from frames where type in ('RA', 'MSG')")
        outcomes = direct.sql("select sent_ns, missed from outcomes where expected").to_pylist()
    seconds = [(row, at(row["time_ns"])) for row in frames.to_pylist()]
    first: dict[tuple[int, int], float] = {}
    for row, at_s in seconds:
        if row["type"] == "RA":
            key = row["issuer"], row["seq"]
            first[key] = min(at_s, first.get(key, at_s))
    assert max(first.values()) > 1200
    assert found["issued_per_s"] == sum(600 <= at_s < 1200 for at_s in first.values()) / 600
    types = [row["type"] for row, at_s in seconds if row["kind"] == "link" and 600 <= at_s < 1200]
    assert found["share"] == pytest.approx(types.count("RA") / len(types))
    missed = [row["missed"] for row in outcomes if 600 <= at(row["sent_ns"]) < 1200]
    assert found["missed"] == pytest.approx(sum(missed) / len(missed))
    assert sum(missed) > 0
    whole = [(t, share) for t, share in windows if t <= 1200]
    assert (found["curve"][0], {*found["curve"]} - {*whole}) == (whole[0], set())
    assert 200 < len(found["curve"]) <= KEPT_POINTS < len(whole) < len(windows)


@pytest.mark.parametrize("calculates", [False, True])
def test_a_run_is_known_by_the_source_of_what_it_measures(
    calculates: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure = FIGURES["fn"]()
    monkeypatch.setattr(figure, "measure", "measured_here:count")
    monkeypatch.setattr(figure, "calculates", calculates)
    monkeypatch.syspath_prepend(tmp_path)
    found = []
    for source in ("count = len\n", "count = len\n", "count = sum\n"):
        (tmp_path / "measured_here.py").write_text(source, encoding="utf-8")
        monkeypatch.delitem(sys.modules, "measured_here", raising=False)
        linecache.clearcache()
        source_version.cache_clear()
        found.append(figure_job(figure, figure.cases("small")[0], 1, "simulate", 0).source["code"])
    assert (found[0] == found[1], found[0] != found[2]) == (True, True)


def test_a_run_that_misses_deliveries_after_5_s_is_measured_and_judged() -> None:
    """Routers that keep the RAs of changes back for 8 s."""
    figure = FIGURES["fn"]()
    case = next(each for each in figure.cases("small") if not each.facts["variant"])
    late = {
        "topology.nodes": "8",
        "protocol.ra_min_interval_s": "8",
        "workload.changing_receivers_percent": "100",
        "workload.predicate_change_interval_s": "5",
    }
    late_case = replace(case, overrides={**case.overrides, **late})
    run = measured_run(figure, late_case)
    statements = figure.judge(Results({late_case: [run]}))
    (last,) = (each for each in statements if each.text.endswith("before 5 s"))
    assert (last.holds, run["last_miss_s"] > 5) == (False, True)


def _page(
    folder: Path,
    statements: Sequence[Statement] = (),
    tables: Sequence[Table] = (),
    failures: Sequence[str] = (),
) -> tuple[list[str], list[dict[str, str]]]:
    """Returns the lines of a page of the toy, and the rows beside it."""

    class Judged(Toy):
        def judge(self, results: Results) -> list[Statement]:
            del results
            return list(statements)

        def tables(self, results: Results) -> list[Table]:
            del results
            return list(tables)

        def panels(self, results: Results) -> list[Panel]:
            del results
            return [Panel("t", "y", {})]

    done = Reproduced(Results({case: [{}] for case in Judged().cases("small")}), failures)
    path = page_of(Judged(), Origin("toy", "small", 1, "simulate"), done, folder)
    with path.with_suffix(".csv").open(encoding="utf-8") as file:
        return path.read_text().splitlines(), list(csv.DictReader(file))


def _cells(lines: Sequence[str], first: str) -> list[list[str]]:
    """Returns the rows of the table whose first column has a name."""
    begin = next(number for number, line in enumerate(lines) if line.startswith(f"| {first} |"))
    rows = lines[begin : lines.index("", begin)] if "" in lines[begin:] else lines[begin:]
    return [
        [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows[2:]
    ]


def test_a_page_has_the_short_tables_of_its_figure_and_the_csv_has_all(tmp_path: Path) -> None:
    long = Table("Long", ("n", "frames"), [(str(n), "1") for n in range(13)])
    hidden = Table("Hidden", ("n", "crossings"), [("1", "2")], on_page=False)
    memory = Table("Memory", ("n", "filters"), [("25", "1,234")])
    lines, rows = _page(tmp_path, tables=[memory, Table("Traffic", ("n", "x"), []), long, hidden])
    assert "Memory:\n\n| n | filters |\n| --- | --- |\n| 25 | 1,234 |" in "\n".join(lines)
    assert not [line for line in lines if line.startswith(("Traffic", "Long", "Hidden"))]
    found = [(row["part"], row["n"]) for row in rows if row["part"] not in ("cases", "statements")]
    assert found == [("Memory", "25"), *(("Long", str(n)) for n in range(13)), ("Hidden", "1")]
    assert rows[-1]["crossings"] == "2"


def test_a_claim_on_many_cases_is_a_row_with_the_least_and_the_greatest_median(tmp_path: Path) -> None:
    holds = [
        Statement(f"{n} nodes: few", f"at most {n}", f"{value} [0, 9] s of 5 to {n}", True)
        for n, value in ((25, "1e-3"), (50, "2"), (1_000, "-4"))
    ]
    fails = Statement("2000 nodes: few", "at most 2000", "9,000 [0, 9] s of 5 to 6", False)
    other = Statement("a: |M|", "p", "1 [0, 2]", None)
    lines, rows = _page(tmp_path, [*holds, fails, other])
    assert _cells(lines, "claim") == [
        ["few", "3 cases", "at most 25 to 1000", "-4 to 2 s of 5 to 1000", "yes"],
        ["few", "2000 nodes", "at most 2000", "9,000 [0, 9] s of 5 to 6", "**no**"],
        ["|M|", "a", "p", "1 [0, 2]", "shown"],
    ]
    columns = ("case", "claim", "predicted", "measured", "holds")
    assert [tuple(row[each] for each in columns) for row in rows if row["part"] == "statements"] == [
        *((each.subject, "few", each.predicted, each.measured, "yes") for each in holds),
        (fails.subject, "few", fails.predicted, fails.measured, "no"),
        ("a", "|M|", "p", "1 [0, 2]", "shown"),
    ]


@pytest.mark.parametrize(
    ("name", "size"),
    [(name, size) for name in FIGURES for size in FIGURES[name].sizes if size in ("small", EMULATED)],
)
def test_every_statement_and_table_is_beside_its_page_and_no_statement_holds_without_a_run(
    tmp_path: Path, name: str, size: str
) -> None:
    figure = FIGURES[name]()
    results = results_of(figure, size=size)
    statements = list(figure.judge(results))
    assert not any(each.holds for each in statements)
    assert figure.panels(results)
    origin = Origin(name, size, 1, "simulate")
    path = page_of(figure, origin, Reproduced(results, []), tmp_path)
    with path.with_suffix(".csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found = [
        row["case"] + ": " * bool(row["case"]) + row["claim"] for row in rows if row["part"] == "statements"
    ]
    assert found == [each.text for each in statements]
    assert all(len(set(table.columns)) == len(table.columns) for table in figure.tables(results))
    claims = _cells(path.read_text().splitlines(), "claim")
    assert {len(row) for row in claims} == {5}
    assert {row[0] for row in claims} == {each.claim for each in statements}


def test_a_page_has_the_runs_that_failed(tmp_path: Path) -> None:
    failure = "small, seed 2: RunError: verdict invalid: the machine was too slow"
    lines, _ = _page(tmp_path, failures=[failure])
    begin = lines.index("Runs that failed, and are in no number of this page:")
    assert lines[begin + 1 : begin + 3] == ["", f"- {failure}"]
    assert not [line for line in _page(tmp_path)[0] if "failed" in line]


def test_the_points_of_a_curve_are_of_one_seed_where_runs_failed() -> None:
    cases = [Case(f"{x}", facts={"x": x}) for x in (10, 20, 50)]
    values: list[dict[int, float | None]] = [{1: 0.1, 2: 0.2, 3: 0.3}, {3: 0.6, 2: 0.4}, {1: 0.7, 2: None}]
    results = Results(
        {
            case: [{SEED: seed, "key": value} for seed, value in of_seed.items()]
            for case, of_seed in zip(cases, values, strict=True)
        }
    )
    assert results.curves_over(cases, "x", "key") == [
        [(10, 0.1), (50, 0.7)],
        [(10, 0.2), (20, 0.4)],
        [(10, 0.3), (20, 0.6)],
    ]


def test_an_emulation_has_links_without_a_declared_delay_and_a_rate_of_its_own() -> None:
    figure = FIGURES["ra"]()
    case = figure.cases("small")[0]
    simulated, emulated = (figure_job(figure, case, 1, engine).experiment for engine in ENGINES)
    assert {link.delay_ms for link in simulated.topology.links} == {1.0}
    assert {link.delay_ms for link in emulated.topology.links} == {None}
    assert emulated.time_scale == figure.emulated_scale
