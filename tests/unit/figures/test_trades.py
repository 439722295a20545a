"""The figure of trades: what is advertised, and its statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from testbed.evaluation.figures.floor import perfect_tables
from testbed.evaluation.figures.reproduction import Case
from testbed.evaluation.figures.trades import Trades, advertised
from testbed.experiments.config.load import find_experiment, load_experiment
from tests.support.figures import judged, measured_run

_CASES = {case.label: case for case in Trades().cases("small")}


@pytest.mark.parametrize("layer", ["spt", "spanning-tree"])
def test_a_wider_predicate_leaves_less_in_the_open_and_crosses_more_links(layer: str) -> None:
    overrides = {**_CASES[f"{layer}, privacy exact"].overrides, "topology.nodes": "25", "seed": "3"}
    experiment = load_experiment(find_experiment("default"), overrides)
    plain = ("exact", "2 constraints a filter", "1 constraint a filter")
    exact, two, one = (advertised(experiment, what) for what in plain)
    names, slides, ranges = (advertised(experiment, what) for what in ("names", "slides", "ranges"))
    assert exact["false_positives"] == perfect_tables(experiment)
    assert exact["read"] == exact["whole"] == 1 > two["read"] > one["read"] > names["read"] > 0
    assert slides["read"] == ranges["read"] == slides["whole"] == 0
    assert exact["crossings"] < two["crossings"] < one["crossings"]
    assert exact["crossings"] < ranges["crossings"] <= slides["crossings"] <= names["crossings"]


def _good(case: Case) -> Mapping[str, Any]:
    of, what = case.facts["of"], case.facts["what"]
    found: dict[str, Any] = {"crossings": 10.0, "control": 0.3, "predicted": 0.3, "requests": 0}
    match of:
        case "privacy":
            read, whole = {"2": (0.83, 0.67), "1": (0.5, 0.33)}.get(what[0], (0, 0))
            found |= {"read": read, "whole": whole, "crossings": 20 if what == "names" else 10}
        case "max_filters":
            found |= {"filters": 2 * what, "interfaces": 1, "crossings": 30 if not what else 10}
        case "nodes":
            found["SRs"] = 3 * what
        case "never" | "periodic":
            found |= {"false_positives": 0.4 if of == "never" else 0.1, "requests": 1000 if what else 0}
        case "count" | "unwanted":
            # `count` falls by 0.1 from 10 to 100 SRs; `unwanted` has a little less than it has.
            requests = {80: 10, 20: 32, 5: 100, 1: 500}[what]
            share = 0.3 - 0.1 * (requests > 99) - 0.01 * (of == "unwanted")
            found |= {"requests": requests, "false_positives": share}
    return found


@pytest.mark.parametrize(
    ("of", "spoilt", "fails"),
    [
        (None, {}, set()),
        ("privacy 1", {"read": 0.3}, {"share in the open, of constraints", "limited security"}),
        ("privacy 2", {"whole": 0.3}, {"share in the open, of filters"}),
        ("privacy names", {"crossings": 9}, {"limited security"}),
        # More SRs than every 10 minutes; more false positives than `count`.
        ("unwanted 5", {"requests": 1001}, {"with fewer SRs"}),
        ("unwanted 20", {"false_positives": 0.31}, {"fewer false positives than `count`"}),
        # More filters than 2 an interface and filter of the limit; as many crossings as flooding.
        ("max_filters 8", {"filters": 17, "interfaces": 0.9}, {"saves more of the filters"}),
        ("max_filters 2", {"crossings": 30}, {"saves more of the filters"}),
        ("nodes 100", {"SRs": 99 * 100}, {"grow by a lesser exponent"}),
        ("rate 0.5", {"predicted": 0.2}, {"control over C"}),
        ("rate 50", {"control": 0.51, "predicted": 0.51}, {"messages dominate"}),
    ],
)
def test_a_statement_fails_if_what_was_measured_does_not_fit(
    of: str | None, spoilt: Mapping[str, Any], fails: set[str]
) -> None:
    def run(case: Case) -> Sequence[Mapping[str, Any]]:
        return 2 * [{**_good(case), **(spoilt if of is not None and f", {of}" in case.label else {})}]

    found = judged(Trades(), run).values()
    failed = {each.claim for each in found if each.holds is not True}
    assert {each for each in fails if any(claim.startswith(each) for claim in failed)} == fails
    assert [claim for claim in failed if not claim.startswith(tuple(fails))] == []


def test_the_share_of_control_is_near_its_formula() -> None:
    """Two periods of 25 routers, without reuse: 2 x 25 x 24 SRs."""
    found = measured_run(Trades(), _CASES["spt, rate 0.5"])
    assert (found["SRs"], found["requests"]) == (1200, 2400)
    assert found["control"] == pytest.approx(found["predicted"], rel=0.1)
