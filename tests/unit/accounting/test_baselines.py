"""Broadcast, unicast and the minimal tree beside CBCB, on networks small enough to work out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from captures.accounting.account import account_directly
from captures.accounting.baselines import _cheapest, count, tree_of
from captures.accounting.run_tables import cost_graph
from captures.rundir.layout import RunLayout
from testbed.controller.trees import LAYERS
from testbed.experiments.config.load import load_experiment
from testbed.experiments.config.shipped import find_experiment
from testbed.results.conclude import hop_limit_of
from testbed.results.oracle.decide import write_oracle
from testbed.sim.simulation import simulate
from testbed.terminal.progress import Progress
from topos.build import LinkSpec, build
from topos.model import Node

#: Links 0-1, 1-2, 2-3 of cost 10 and 0-3 of cost 15.
_RING = build(
    "ring", [Node(n) for n in range(4)], [LinkSpec(0, 1, 10), LinkSpec(1, 2, 10), LinkSpec(2, 3, 10)]
)
_CLOSED = build("ring", _RING.nodes, [*(LinkSpec(n, n + 1, 10) for n in range(3)), LinkSpec(0, 3, 15)])


def test_the_cheapest_tree_takes_the_cheap_way() -> None:
    tree = _cheapest(0, 4, cost_graph(_CLOSED.links))
    assert tree.parent.tolist() == [-1, 0, 1, 0]
    assert sorted(tree.inwards.tolist()) == [1, 2, 3]


def test_nodes_that_do_not_lead_to_the_source_are_no_part_of_the_tree() -> None:
    tree = tree_of(0, 5, {1: 0, 2: 3, 3: 2, 4: 1})
    assert tree.parent.tolist() == [-1, 0, -1, -1, 1]
    assert tree.inwards.tolist() == [4, 1]


def test_crossings_of_the_three_ways() -> None:
    """Receivers 2 and 3: along the chain 3 links; unicast takes 0-1-2 and 0-3; the second goes nowhere."""
    chain = _cheapest(0, 4, cost_graph(_RING.links))
    receivers = np.array([[1, 0, 1, 1], [1, 0, 0, 0], [0, 1, 0, 0]])
    counted = {
        way: (matrix.sum(axis=1).tolist(), matrix.sum(axis=0).tolist())
        for way, _, matrix in count(chain, _cheapest(0, 4, cost_graph(_CLOSED.links)), receivers)
    }
    assert counted == {
        "broadcast": ([3, 3, 3], [0, 3, 3, 3]),
        "unicast": ([3, 0, 1], [0, 2, 1, 1]),
        "minimal": ([3, 0, 1], [0, 2, 1, 1]),
    }


def _accounted(folder: Path, **overrides: str) -> tuple[dict[str, Any], Path]:
    given = {"duration_s": "120", "topology.nodes": "12", "workload.first_message_s": "0"} | overrides
    experiment = load_experiment(find_experiment("default"), given)
    run = simulate(experiment, folder, Progress(Console(quiet=True)))
    write_oracle(RunLayout(run), experiment.oracle.in_flight_window_s, hop_limit_of(experiment))
    return account_directly(run, lambda _: None), run


@pytest.mark.parametrize("layer", LAYERS)
def test_flooding_crosses_what_broadcast_is_said_to(tmp_path: Path, layer: str) -> None:
    summary, run = _accounted(
        tmp_path, **{"routing.scheme": "flooding", "broadcast.layer": layer, "seed": "3"}
    )
    savings = pq.read_table(run / "parquet" / "savings")
    assert savings["cbcb"].to_pylist() == savings["broadcast"].to_pylist()
    links = pq.read_table(run / "parquet" / "link_savings")
    assert links["cbcb"].to_pylist() == links["broadcast"].to_pylist()
    crossings = summary["message_crossings"]
    assert crossings["messages"] == summary["messages_sent"] == savings.num_rows > 0
    assert crossings["cbcb"] == summary["frames_by_type"]["MSG"]


def test_cbcb_lies_between_the_minimal_tree_and_broadcast(tmp_path: Path) -> None:
    summary, run = _accounted(tmp_path, seed="4", duration_s="900")
    rows = pq.read_table(run / "parquet" / "savings").to_pylist()
    assert all(row["minimal"] <= row["cbcb"] <= row["broadcast"] for row in rows)
    assert all(row["minimal"] <= row["unicast"] for row in rows)
    crossings = summary["message_crossings"]
    assert 0 < crossings["minimal"] < crossings["cbcb"] < crossings["broadcast"]
    assert crossings["minimal"] < crossings["unicast"]
