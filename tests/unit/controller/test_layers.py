"""A broadcast layer is one function and one registration: files of experiments and the controller find it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.controller.trees import LAYERS, Forest, spanning_trees
from tests.support.simulated import simulated
from topos import Topology

_FILE = 'duration_s = 1\n[topology]\ngenerator = "ring"\nnodes = 4\n[broadcast]\nlayer = "dense"\n'
_called: list[str] = []


def _dense(topology: Topology, down_links: frozenset[int], down_nodes: frozenset[int]) -> Forest:
    _called.append(topology.name)
    return spanning_trees(topology, down_links, down_nodes)


@pytest.fixture
def dense() -> Iterator[None]:
    _called.clear()
    LAYERS.register("dense", _dense)
    yield
    LAYERS.unregister("dense")


@pytest.mark.usefixtures("dense")
def test_a_registered_layer_makes_the_trees_of_a_run(tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    path.write_text(_FILE)
    run = simulated(path, tmp_path / "runs", "none")
    log = [json.loads(line) for line in run.controller_log.read_text().splitlines()]
    assert [event["routers"] for event in log if event["event"] == "committed"] == [4]
    assert _called == ["ring-4"]
