"""The figure of what the papers' rules lose."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import networkx as nx
import pytest

from captures.accounting.direct import Direct
from testbed.evaluation.figures import measures
from testbed.evaluation.figures.floor import spread_of
from testbed.evaluation.figures.reproduction import FIGURES, Case
from testbed.evaluation.figures.rules import EXAMPLES, Rules, measured
from testbed.experiments.config.load import find_experiment, load_experiment
from tests.support.figures import results_of, verdicts
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


@pytest.mark.parametrize(("scheme", "verdict"), [("pif", "holds"), ("pif-strict", "fails")])
@pytest.mark.parametrize("source", [source for *_, source in EXAMPLES[1:]])
def test_a_rule_of_the_papers_loses_a_receiver(
    tmp_path: Path, source: str, scheme: str, verdict: str
) -> None:
    experiment = load_experiment(find_experiment(source), {"routing.scheme": scheme})
    with Direct(judged_run(experiment, tmp_path).path) as run:
        assert run.verdict()[0] == verdict


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


@pytest.mark.parametrize(
    ("lost", "asked", "holds"),
    [
        ((0.1, 0.0), (0.0, 0.0), True),
        # The second network loses with SRs, but not without.
        ((0.1, 0.0), (0.0, 0.2), True),
        ((0.1, 0.0), (0.1, 0.0), False),
        ((0.0, 0.0), (0.0, 0.0), None),
    ],
)
def test_what_srs_repair_is_judged_where_the_filter_loses(
    lost: tuple[float, ...], asked: tuple[float, ...], holds: bool | None
) -> None:
    strict, saved = "50 nodes, spt, pif-strict", (0.0, 0.0)
    found = _judged({strict: (lost, saved), f"{strict}, SRs every 600 s": (asked, saved)})
    assert [found[text] for text in found if "in networks that lose without SRs" in text] == [holds]


@pytest.mark.parametrize(
    ("nodes", "lost", "more", "holds"),
    [(50, 0, 0, True), (50, 0, 0.1, False), (50, 0.1, 0, False), (100, 0, 0.1, True), (100, 0, -0.1, False)],
)
def test_on_a_tree_the_papers_filter_saves_more_by_the_hop_limit_alone(
    nodes: int, lost: float, more: float, holds: bool
) -> None:
    found = _judged({f"{nodes} nodes, spanning-tree, pif-strict": ((lost,), (more,))})
    (verdict,) = (each for text, each in found.items() if text.startswith(f"{nodes} nodes, spanning-tree: "))
    assert verdict is holds


def _judged(given: dict[str, tuple[tuple[float, ...], tuple[float, ...]]]) -> dict[str, bool | None]:
    """Verdicts on shares of deliveries that are lost, and of RA frames that are saved; 0 of other cases."""

    def runs(case: Case) -> list[dict[str, float]]:
        pairs = zip(*given.get(case.label, ((0.0, 0.0), (0.0, 0.0))), strict=True)
        return [{"lost": lost, "saved": saved} for lost, saved in pairs]

    return verdicts(Rules(), runs, "paper" if any("100" in each for each in given) else "small")


# The floor of false positives: perfect tables, without a protocol.


@pytest.mark.parametrize("layer", ["spt", "spanning-tree"])
def test_a_network_with_static_predicates_lies_on_its_floor(tmp_path: Path, layer: str) -> None:
    """With settled tables, the simulated routers waste exactly the messages of the calculation."""
    workload = {"first_message_s": "60", "changing_receivers_percent": "0", "messages_per_minute": "12"}
    overrides = {"duration_s": "600", "topology.nodes": "14", "broadcast.layer": layer}
    overrides |= {f"workload.{key}": value for key, value in workload.items()}
    experiment = load_experiment(find_experiment("default"), overrides)
    with Direct(judged_run(experiment, tmp_path).path) as direct:
        summary = direct.summary()
    measured = summary["false_positives"] / summary["messages_received_by_routers"]
    ((processed, wasted),) = spread_of(experiment, 0.0)
    assert wasted / processed == measured > 0


def test_the_initial_peak_of_figure_12_ends_where_late_predicates_begin(tmp_path: Path) -> None:
    (case,) = results_of(FIGURES["fp"]()).where(variant="late first predicates")
    overrides = {**case.overrides, "topology.nodes": "8", "duration_s": "4200"}
    experiment = load_experiment(find_experiment("default"), overrides)
    with Direct(judged_run(experiment, tmp_path).path) as direct:
        found = measures.false_positives(direct, experiment)
    # Without predicates, every message is a false positive.
    assert (found["early"], found["rise"]) == (1, 1 - found["steady"])
    assert found["above"] == found["steady"] - found["floor"]


def test_the_page_of_figure_12_has_the_floor_of_each_network() -> None:
    figure = FIGURES["fp"]()
    results = results_of(figure, lambda case: [{"floor": 0.24 if case.facts["nodes"] == 100 else 0.15}])
    table, _ = figure.tables(results)
    floors = {"25": "15 %", "100": "24 %"}
    assert table.rows == [
        [f"{nodes}, {layer}", floor] for nodes, floor in floors.items() for layer in ("spt", "spanning-tree")
    ]
