"""The nodes of several machines: sizes, repetition, and the cut beside that of breadth-first order."""

from __future__ import annotations

from collections.abc import Sequence

import networkx as nx
from hypothesis import given, settings, strategies as st

from testbed.emulation.machines.cut import shares, tunnels
from topos import Link, Node, Topology
from topos.generators import grid, line, waxman

_topologies = st.one_of(
    st.builds(line, st.integers(6, 40)),
    st.builds(grid, st.integers(2, 7), st.integers(3, 7)),
    st.builds(waxman, st.integers(6, 60), st.integers(1, 9)),
)


@settings(max_examples=40)
@given(_topologies, st.lists(st.floats(0.1, 100), min_size=1, max_size=6))
def test_shares_have_the_size_asked_for_and_cut_few_links(
    topology: Topology, capacities: list[float]
) -> None:
    found = shares(topology, capacities)
    nodes = [node for share in found for node in share]
    assert sorted(nodes) == [node.id for node in topology.nodes]
    assert all(share == tuple(sorted(share)) != () for share in found)
    for share, capacity in zip(found, capacities, strict=True):
        exact = len(nodes) * capacity / sum(capacities)
        # Machines with few nodes may take some of those with many.
        assert exact - len(capacities) < len(share) < max(exact, 1) + 1
    assert found == shares(topology, capacities)

    graph = nx.Graph((link.u, link.v) for link in topology.links)
    order = [0, *(node for _, node in nx.bfs_edges(graph, 0, sort_neighbors=sorted))]
    plain = [[order.pop(0) for _ in share] for share in found]
    assert len(capacities) > 2 or _tunnels(topology, found) <= _tunnels(topology, plain)


def _tunnels(topology: Topology, found: Sequence[Sequence[int]]) -> int:
    places = {node: f"10.0.0.{number}" for number, share in enumerate(found) for node in share}
    return sum(map(len, tunnels(topology, places, "cbcb").values())) // 2


def test_known_cuts_and_a_network_in_pieces() -> None:
    assert shares(grid(3, 4), [1, 1]) == [(2, 3, 6, 7, 10, 11), (0, 1, 4, 5, 8, 9)]
    assert [len(share) for share in shares(line(10), [5, 3, 1, 0.001])] == [5, 3, 1, 1]
    links = tuple(Link(*ends, index=ends[0], u_port=1, v_port=1) for ends in ((0, 3), (1, 2)))
    pieces = Topology("pieces", tuple(map(Node, range(4))), links)
    assert _tunnels(pieces, shares(pieces, [1, 1])) == 0
