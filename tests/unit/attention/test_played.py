"""The workload of table 1 in experiment files, and played under exhaustive semantics."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from captures.rundir.counters import read_routers_counters
from testbed.controller.trees import spt_trees
from testbed.experiments.config import AttentionWorkload
from testbed.experiments.config.load import load_experiment
from testbed.experiments.config.schema import ExperimentError, dump_experiment
from testbed.experiments.workload.attention import Demand
from testbed.experiments.workload.generate import generate
from tests.support.exhaustive_cost import cost_of
from tests.support.simulated import simulated

_FILE = """
seed = 3
duration_s = 40
[topology]
generator = "barabasi_albert"
nodes = 12
links_per_node = 1
[routing]
scheme = "psf"
[workload.attention]
events = 6
subscriptions = 30
publications = 600
lifetime_s = 100
"""


def _file(folder: Path, text: str = _FILE) -> Path:
    path = folder / "small.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_section_takes_the_place_of_the_random_workload(tmp_path: Path) -> None:
    experiment = load_experiment(_file(tmp_path), {"workload.attention.max": "20"})
    assert experiment.workload is None
    assert experiment.attention == AttentionWorkload(
        events=6, subscriptions=30, publications=600, max=20, lifetime_s=100.0
    )
    assert "[workload.attention]\nevents = 6\n" in dump_experiment(experiment, "topology.json")
    with pytest.raises(
        ExperimentError, match=r"\[workload\] senders_percent: and \[workload.attention\] exclude"
    ):
        load_experiment(_file(tmp_path, f"{_FILE}\n[workload]\nsenders_percent = 20\n"))
    with pytest.raises(
        ExperimentError, match=r"\[workload.attention\] subscription: unknown|unknown key 'subscription'"
    ):
        load_experiment(_file(tmp_path), {"workload.attention.subscription": "1"})


def test_items_are_generated_in_order_at_each_iteration(tmp_path: Path) -> None:
    experiment = load_experiment(_file(tmp_path), {"workload.attention.lifetime_s": "4"})
    items = generate(experiment).items
    assert list(items) == list(items)
    assert all(a.at_s <= b.at_s for a, b in pairwise(items))
    counts = Counter(item.action for item in items)
    assert counts["send_message"] == 600
    assert counts["subscribe"] == 30
    assert 15 < counts["unsubscribe"] <= 30
    assert len([*items]) == counts.total()


def test_exhaustive_service_has_the_traffic_of_the_baseline(tmp_path: Path) -> None:
    """A simulated network with minimal delivery crosses the links that the baseline counts."""
    experiment = load_experiment(_file(tmp_path))
    counters = read_routers_counters(simulated(experiment, tmp_path, "none"))
    received = sum(each["frames_received"].get("MSG", 0) for each in counters.values())
    cost = cost_of(Demand.of(experiment), spt_trees(experiment.topology), 12)
    assert received == cost.publication_crossings > 500
