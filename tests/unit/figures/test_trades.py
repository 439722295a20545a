"""The figure of trades: what is advertised, and its statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from testbed.evaluation.figures.floor import spread_of
from testbed.evaluation.figures.reproduction import Case
from testbed.evaluation.figures.trades import Trades, advertised
from testbed.experiments.config.load import find_experiment, load_experiment
from tests.support.cases import cases_beside
from tests.support.figures import judged, measured_run, results_of

_CASES = {case.label: case for case in Trades().cases("small")}


@pytest.mark.parametrize("layer", ["spt", "spanning-tree"])
def test_a_wider_predicate_leaves_less_in_the_open_and_crosses_more_links(layer: str) -> None:
    overrides = {**_CASES[f"{layer}, privacy exact"].overrides, "topology.nodes": "25", "seed": "3"}
    experiment = load_experiment(find_experiment("default"), overrides)
    plain = ("exact", "2 constraints a filter", "1 constraint a filter")
    exact, two, one = (advertised(experiment, what) for what in plain)
    names, slides, ranges = (advertised(experiment, what) for what in ("names", "slides", "ranges"))
    ((reached, wasted),) = spread_of(experiment, 0.0)
    assert exact["false_positives"] == wasted / reached
    assert exact["read"] == 1 > two["read"] > one["read"] > names["read"] > 0
    assert slides["read"] == ranges["read"] == 0
    assert exact["crossings"] < two["crossings"] < one["crossings"]
    assert exact["crossings"] < ranges["crossings"] <= slides["crossings"] <= names["crossings"]


def _good(case: Case) -> Mapping[str, Any]:
    of, what = case.facts["of"], case.facts["what"]
    found: dict[str, Any] = dict.fromkeys(("crossings", "requests", "RAs"), 10) | {"messages": 20}
    found |= {"RAs predicted": 10, "messages predicted": 20, "false_positives": 0.2, "floor": 0.1}
    match of:
        case "privacy":
            found |= {"read": 0, "crossings": 20 if what == "names" else 10}
        case "max_filters":
            found |= {"filters": 2 * what, "crossings": 30 if not what else 10}
    return found


@pytest.mark.parametrize(("of", "spoilt", "fails"), cases_beside(__file__)["spoilt"])
def test_a_statement_fails_if_what_was_measured_does_not_fit(
    of: str, spoilt: Mapping[str, Any], fails: list[str]
) -> None:
    def run(case: Case) -> Sequence[Mapping[str, Any]]:
        return 2 * [{**_good(case), **(spoilt if f", {of}" in case.label else {})}]

    found = judged(Trades(), run).values()
    failed = {each.claim for each in found if each.holds is False}
    assert [each for each in fails if not any(claim.startswith(each) for claim in failed)] == []
    assert [claim for claim in failed if not claim.startswith(tuple(fails))] == []


def test_requests_by_false_positives_are_shown_beside_the_floor() -> None:
    figure = Trades()
    _, asked = figure.tables(results_of(figure, lambda case: [_good(case)]))
    assert [asked.rows[0][0], *asked.rows[-1]] == ["never 0", "perfect tables", "", "10", "", "10"]
    assert {each[0] for each in asked.rows} > {"unwanted 5", "count 5"}


def test_what_crosses_links_is_near_its_formulas() -> None:
    """Two periods of 25 routers, without reuse: 2 x 25 x 24 SRs."""
    found = measured_run(Trades(), _CASES["spt, rate 0.5"])
    assert found["requests"] == 2400
    # Predicates change at random times.
    assert found["RAs"] == pytest.approx(found["RAs predicted"], rel=0.2)
    assert 1 <= found["messages"] / found["messages predicted"] < 1.5
