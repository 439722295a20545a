"""The floor of false positives: perfect tables, without a protocol."""

from __future__ import annotations

from pathlib import Path

import pytest

from captures.accounting.direct import Direct
from testbed.evaluation.figures import measures
from testbed.evaluation.figures.floor import perfect_tables
from testbed.evaluation.figures.reproduction import FIGURES
from testbed.experiments.config.load import find_experiment, load_experiment
from tests.support.figures import results_of
from tests.support.simulated import judged_run


@pytest.mark.parametrize("layer", ["spt", "spanning-tree"])
def test_a_network_with_static_predicates_lies_on_its_floor(tmp_path: Path, layer: str) -> None:
    """With settled tables, the simulated routers waste exactly the messages of the calculation."""
    overrides = {
        "duration_s": "600",
        "topology.nodes": "14",
        "workload.first_message_s": "60",
        "workload.changing_receivers_percent": "0",
        "workload.messages_per_minute": "12",
        "broadcast.layer": layer,
    }
    experiment = load_experiment(find_experiment("default"), overrides)
    with Direct(judged_run(experiment, tmp_path).path) as direct:
        summary = direct.summary()
    measured = summary["false_positives"] / summary["messages_received_by_routers"]
    assert perfect_tables(experiment) == measured > 0


def test_the_initial_peak_of_figure_12_ends_where_late_predicates_begin(tmp_path: Path) -> None:
    (case,) = results_of(FIGURES["fp"]()).where(variant="late first predicates")
    overrides = {**case.overrides, "topology.nodes": "8", "duration_s": "4200"}
    experiment = load_experiment(find_experiment("default"), overrides)
    with Direct(judged_run(experiment, tmp_path).path) as direct:
        found = measures.false_positives(direct, experiment)
    # Without predicates, every message is a false positive.
    assert (found["early"], found["rise"]) == (1, 1 - found["steady"])
    assert found["above"] == found["steady"] - found["floor"]


def test_figure_12_calculates_the_floor_of_networks_that_it_does_not_simulate() -> None:
    figure = FIGURES["fp"]()
    cases = figure.cases("small")
    alone = {case.label: figure.run(case, 1) for case in cases if case.label.endswith("floor alone")}
    assert list(alone) == [
        f"100 nodes, {layer}, predicates static, floor alone" for layer in ("spt", "spanning-tree")
    ]
    # On a spanning tree, only messages that nobody else receives are false positives.
    on_spt, on_tree = (found["floor"] for found in alone.values() if found is not None)
    assert on_spt > 0.2
    assert on_tree < 0.02
    assert [figure.run(case, 1) for case in cases if case.label not in alone] == [None] * (len(cases) - 2)


def test_the_page_of_figure_12_has_the_floor_of_each_network() -> None:
    figure = FIGURES["fp"]()
    results = results_of(figure, lambda case: [{"floor": 0.24 if case.facts["nodes"] == 100 else 0.15}])
    (table,) = figure.tables(results)
    floors = {"25": "15 [15, 15] %", "100": "24 [24, 24] %"}
    assert table.rows == [
        [f"{nodes}, {layer}", floor, "about 10 %"]
        for nodes, floor in floors.items()
        for layer in ("spt", "spanning-tree")
    ]
