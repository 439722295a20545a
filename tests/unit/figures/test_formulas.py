"""The slides' formulas of the routing schemes: what a run measures, what is judged, distances on graphs."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import networkx as nx
import numpy as np
import pytest

from testbed.evaluation.figures.formulas import Formulas, mean_hops, power_law_graph
from testbed.evaluation.figures.reproduction import Case
from tests.support.figures import measured_run, results_of, verdicts

_NODES = 25


@pytest.mark.parametrize(
    ("scheme", "slides"),
    [
        ("pif-classes", pytest.approx((_NODES - 1) / _NODES)),
        ("pif", pytest.approx((_NODES - 1) / _NODES**2)),
        ("psf", pytest.approx(1, abs=0.1)),
        ("drp", pytest.approx((_NODES - 1) / _NODES, abs=0.03)),
    ],
)
def test_a_run_without_covering_has_a_part_of_the_formula_of_the_slides(scheme: str, slides: float) -> None:
    figure = Formulas()
    (case,) = results_of(figure).where(scheme=scheme, nodes=_NODES, setting="alpha = 1")
    assert measured_run(figure, case)["slides"] == slides


def _judged(measured: Callable[[Case], dict[str, float]]) -> dict[str, bool | None]:
    """Returns the verdicts on three equal runs of each case, by text."""
    return verdicts(Formulas(), lambda case: 3 * [measured(case)], "paper")


def _growing(case: Case, slides: float = 1.04) -> dict[str, float]:
    log = math.log(case.facts["nodes"])
    if "scheme" in case.facts:
        return {"slides": slides}
    # d / log log n grows for each exponent.
    return {"d": 3 * math.log(log) - 1 if case.facts["exponent"] < 3 else 2 * log}


def test_each_statement_follows_what_was_measured() -> None:
    """A growth of d / log log n on a finite range is not judged: of exponents below 3, d is O(log log n)."""
    holds = _judged(_growing)
    growth = {text: verdict for text, verdict in holds.items() if ": growth of d / log log n" in text}
    assert len(growth) == 4
    assert set(growth.values()) == {None}
    line = "power law, exponent 3.5: d is a line in log log n rather than in log n"
    assert {text for text, verdict in holds.items() if verdict is False} == {line}


@pytest.mark.parametrize("setting", ["alpha = 1", "covering"])
def test_filters_are_those_of_the_slides_within_the_same_bar_with_covering_and_without(setting: str) -> None:
    for slides, expected in ((1.049, True), (0.951, True), (1.06, False), (0.94, False)):
        judged = _judged(partial(_growing, slides=slides))
        found = {holds for text, holds in judged.items() if f" {setting}: filters held / " in text}
        assert found == {expected}


def test_lines_that_fit_about_as_well_have_no_verdict() -> None:
    """Points that alternate about either line: the residuals are much the same."""

    def near(case: Case) -> dict[str, float]:
        if "scheme" in case.facts:
            return {"slides": 1}
        return {"d": math.log(case.facts["nodes"]) + 5 * (round(2 * math.log10(case.facts["nodes"])) % 2)}

    lines = [holds for text, holds in _judged(near).items() if "is a line in" in text]
    assert lines == [None] * 4


def test_distances_on_a_power_law_graph_are_those_of_networkx() -> None:
    nodes = 300
    start, ends = power_law_graph(nodes, 2.5, np.random.default_rng(1))
    graph = nx.Graph(
        (node, end) for node in range(nodes) for end in ends[start[node] : start[node + 1]].tolist()
    )
    graph.add_nodes_from(range(nodes))
    assert 2 * graph.number_of_edges() == len(ends)
    assert nx.number_of_selfloops(graph) == 0
    # More than half of the nodes have the least degree, and a link may be left out.
    degrees = sorted(degree for _, degree in graph.degree)
    assert degrees[nodes // 2] <= 2 < 20 < degrees[-1]
    sources = [0, 7, nodes - 1]
    known = [nx.single_source_shortest_path_length(graph, source) for source in sources]
    hops = [hops for found in known for hops in found.values() if hops]
    assert mean_hops(start, ends, np.array(sources)) == pytest.approx(sum(hops) / len(hops))
    # Two links, and a node without: 1 hop each.
    assert mean_hops(np.array([0, 1, 2, 2, 3, 4]), np.array([1, 0, 4, 3]), np.array([0, 2, 4])) == 1
