"""The fluid model of figure 2, and CBR counted for each publication."""

from __future__ import annotations

import itertools
from dataclasses import replace

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.controller.trees import spt_trees
from testbed.experiments.config import AttentionWorkload
from testbed.experiments.workload.attention import Demand
from testbed.experiments.workload.attention_predictions import Fluid
from testbed.results.oracle.attention.baseline import crossings
from tests.support.exhaustive_cost import cost_of
from topos.generators import barabasi_albert

_TABLE_1 = AttentionWorkload()


def _fluid(most: int = 10) -> Fluid:
    return Fluid(replace(_TABLE_1, max=most), 100, 1000.0)


def test_exhaustive_deliveries() -> None:
    assert round(_fluid().exhaustive_deliveries()) == 692_269
    assert _fluid().active == pytest.approx(1000)
    assert _fluid().registrations == pytest.approx(20_000)


def test_without_publications_nothing_is_delivered() -> None:
    fluid = Fluid(replace(_TABLE_1, publications=0), 100, 1000.0)
    assert (fluid.limited_deliveries(), fluid.exhaustive_deliveries()) == (0.0, 0.0)


def test_saved_bandwidth_by_max() -> None:
    expected = {10: 0.87, 20: 0.76, 50: 0.57, 100: 0.43, 200: 0.30, 500: 0.16, 2000: 0.11, 5000: 0.11}
    assert {most: round(_fluid(most).saved_bandwidth(), 2) for most in expected} == expected


def test_control_at_max_10() -> None:
    assert _fluid().visited() == pytest.approx(1.2, abs=0.05)
    assert _fluid().control_share() == pytest.approx(0.006, abs=0.0005)
    # All caches together hold fewer publications of an event: SUBs visit all routers.
    assert _fluid(200_000).control_share() == pytest.approx(0.5)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 12), st.integers(0, 99), st.data())
def test_minimal_trees(nodes: int, seed: int, data: st.DataObject) -> None:
    topology = barabasi_albert(nodes, seed=seed, links_per_node=2)
    forest = spt_trees(topology)
    source = data.draw(st.integers(0, nodes - 1))
    receivers = data.draw(st.frozensets(st.integers(0, nodes - 1)))
    tree = nx.Graph((node, int(p)) for node, p in enumerate(forest.parents[source]) if p >= 0)
    tree.add_node(source)
    links = {
        frozenset(link)
        for node in receivers
        for path in [nx.shortest_path(tree, source, node)]
        for link in itertools.pairwise(path)
    }
    assert crossings(forest.parents[source].tolist(), source, receivers) == len(links)


def test_router_deliveries_of_table_1_are_those_of_the_model() -> None:
    """At a fifth of table 1's publications; the first lifetimes of the run have fewer subscriptions."""
    options = replace(_TABLE_1, publications=100_000)
    topology = barabasi_albert(100, seed=1, links_per_node=1)
    cost = cost_of(Demand(options, topology, 1000.0, 1), spt_trees(topology), 100)
    expected = Fluid(options, 100, 1000.0).exhaustive_deliveries()
    assert cost.router_deliveries == pytest.approx(expected, rel=0.06)
    assert cost.router_deliveries < expected
