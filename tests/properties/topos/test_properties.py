"""Properties of every generated topology."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import networkx as nx
from hypothesis import given, strategies as st

from topos import LinkSpec, Node, Topology
from topos.build import build
from topos.generators import grid, line, ring, star, tree, waxman
from topos.loaders import from_json, to_json

_seeds = st.integers(0, 2**64)
_waxman = st.builds(
    waxman,
    st.integers(1, 40),
    _seeds,
    links_per_node=st.integers(1, 4),
    plane=st.integers(7, 2000),
    cost=st.sampled_from(["distance", "unit"]),
)
_topologies = st.one_of(
    st.builds(line, st.integers(1, 20)),
    st.builds(ring, st.integers(3, 20)),
    st.builds(star, st.integers(1, 20)),
    st.builds(grid, st.integers(1, 6), st.integers(1, 6)),
    st.builds(tree, st.integers(0, 3), st.integers(1, 3)),
    _waxman,
)


@given(_topologies)
def test_connected_simple_and_numbered(topology: Topology) -> None:
    graph = nx.Graph()
    graph.add_nodes_from(node.id for node in topology.nodes)
    graph.add_edges_from((link.u, link.v) for link in topology.links)
    assert nx.is_connected(graph)
    assert nx.number_of_selfloops(graph) == 0
    assert graph.number_of_edges() == len(topology.links)
    assert [node.id for node in topology.nodes] == list(range(len(topology.nodes)))
    assert [link.index for link in topology.links] == list(range(len(topology.links)))
    for node in graph.nodes:
        ports = topology.neighbours(node)
        assert list(ports) == list(range(1, graph.degree[node] + 1))
        assert set(ports.values()) == set(graph.neighbors(node))


@given(st.integers(1, 40), _seeds, st.integers(1, 5))
def test_waxman_has_as_many_links_as_asked_for(nodes: int, seed: int, links_per_node: int) -> None:
    topology = waxman(nodes, seed, links_per_node=links_per_node)
    # In a small graph the first nodes may find, at the end, fewer nodes that they are not joined to.
    assert len(topology.links) <= nodes * links_per_node
    if nodes > links_per_node:
        assert len(topology.links) >= (nodes - links_per_node) * links_per_node
    degrees = Counter(end for link in topology.links for end in (link.u, link.v))
    assert all(degrees[node.id] >= min(links_per_node, nodes - 1) for node in topology.nodes)


@given(_waxman, st.data())
def test_properties_of_links_survive_json(topology: Topology, data: st.DataObject) -> None:
    percents = st.none() | st.floats(0, 100)
    drawn = st.builds(
        LinkSpec,
        *(st.just(0), st.just(0)),
        bandwidth_mbps=st.none() | st.floats(0.001, 1e6),
        delay_ms=percents,
        loss_percent=percents,
    )
    specs = [replace(data.draw(drawn), u=link.u, v=link.v, cost=link.cost) for link in topology.links]
    nodes = [Node(node.id) for node in topology.nodes]
    declared = build(data.draw(st.text()), nodes, specs)
    assert from_json(to_json(declared)) == declared
