"""The figure of what the papers' rules lose."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import networkx as nx
import pytest

from captures.accounting.direct import Direct
from testbed.evaluation.figures.rules import Rules, measured
from testbed.experiments.config.load import find_experiment, load_experiment
from tests.support.simulated import judged_run


@pytest.mark.parametrize(
    ("scheme", "verdict", "lost", "saved"), [("pif", "holds", 0, 0), ("pif-strict", "fails", 1 / 2, 1 / 8)]
)
def test_the_papers_filter_loses_a_receiver_of_five_nodes(
    tmp_path: Path, scheme: str, verdict: str, lost: float, saved: float
) -> None:
    """Two RAs have eight links to cross; the filter saves the crossing without which node 4 lacks node 2."""
    experiment = load_experiment(find_experiment("covered"), {"routing.scheme": scheme})
    with Direct(judged_run(experiment, tmp_path).path) as run:
        assert run.verdict()[0] == verdict
        found = measured(run, experiment)
    assert (found["lost"], found["saved"]) == (lost, saved)


@pytest.mark.parametrize("cost", ["unit", "distance"])
@pytest.mark.parametrize("seed", [1, 2])
def test_rewritten_paths_that_are_no_tree_are_counted(cost: str, seed: int) -> None:
    figure = Rules()
    cases = {case.label: case for case in figure.cases("small")}
    rewritten = cases[f"50 nodes, {cost} costs, rewritten paths"]
    overrides = {**rewritten.overrides, "seed": str(seed)}
    links = load_experiment(find_experiment("default"), overrides).topology.links
    graph = nx.Graph([(link.u, link.v, {"weight": link.cost}) for link in links])
    paths = dict(nx.all_pairs_dijkstra_path(graph))
    unions = (nx.Graph(step for v in graph for step in pairwise(paths[min(u, v)][max(u, v)])) for u in graph)
    share = sum(not nx.is_tree(union) for union in unions) / 50
    assert figure.run(rewritten, seed) == {"lost": share}
    assert share > 0 or cost == "distance"
    assert figure.run(cases[f"50 nodes, {cost} costs, ties broken by weights"], seed) == {"lost": 0}
