"""The four properties that CBCB needs of the broadcast layer, and that the tables say what the trees are."""

from __future__ import annotations

import random
from functools import cache
from heapq import heappop, heappush

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.wire.frames import BroadcastTable, TreeEntry
from testbed.controller.trees import NO_PARENT, Forest, Tree, broadcast_tables, spt_trees
from topos.build import LinkSpec, build
from topos.model import Node, Topology


def topology_of(graph: nx.Graph, costs: random.Random | None) -> Topology:
    """A connected graph with nodes 0..n-1, as a topology; costs 1, or 1 to 4 from `costs`."""
    links = [LinkSpec(u, v, cost=1 if costs is None else costs.randint(1, 4)) for u, v in graph.edges]
    if costs is not None:
        costs.shuffle(links)
    return build("graph", [Node(node) for node in range(len(graph))], links)


@st.composite
def topologies(draw: st.DrawFn, max_nodes: int = 12) -> Topology:
    """Connected graphs with few different costs, so that most have many ties."""
    count = draw(st.integers(1, max_nodes))
    edges = {(draw(st.integers(0, v - 1)), v) for v in range(1, count)}
    if count > 1:
        pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
        extra = draw(st.lists(pairs, max_size=2 * count))
        edges |= {(min(pair), max(pair)) for pair in extra if pair[0] != pair[1]}
    order = draw(st.permutations(sorted(edges)))
    specs = [LinkSpec(u, v, cost=draw(st.integers(1, 3))) for u, v in order]
    return build("drawn", [Node(node) for node in range(count)], specs)


def path(tree: Tree, node: int) -> list[int]:
    """The nodes from `node` to the source."""
    found = [node]
    while tree.parents[found[-1]] != NO_PARENT:
        found.append(tree.parents[found[-1]])
        assert len(found) <= len(tree.parents), f"T_{tree.source} has a cycle: {found}"
    return found


def beyond(tree: Tree, node: int) -> frozenset[int]:
    """The nodes of `node`'s subtree, by the definition."""
    return frozenset(other for other in tree.order if node in path(tree, other))


def graph_of(forest: Forest) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from(forest.trees)
    graph.add_weighted_edges_from(((link.u, link.v, link.cost) for link in forest.links), weight="cost")
    return graph


def check_forest(forest: Forest) -> None:
    graph = graph_of(forest)
    for source, tree in forest.trees.items():
        component = nx.node_connected_component(graph, source)
        distances = nx.single_source_dijkstra_path_length(graph, source, weight="cost")
        # Tree: spans the component exactly, by links in use, without a cycle.
        assert set(tree.order) == component
        assert len(tree.order) == len(component)
        assert tree.order[0] == source
        assert [n for n in component if tree.parents[n] == NO_PARENT] == [source]
        for node in component:
            walk = path(tree, node)
            assert walk[-1] == source
            # Optimality.
            assert nx.path_weight(graph, walk, "cost") == distances[node]
            # Symmetry.
            assert walk == path(forest.trees[node], source)[::-1]
            # Subpaths agree: the part from any router on is that of the router's own tree.
            for position, router in enumerate(walk):
                assert walk[: position + 1] == path(forest.trees[router], node)


def check_tables(topology: Topology, forest: Forest, tables: dict[int, BroadcastTable]) -> None:
    assert set(tables) == set(forest.trees)
    graph = graph_of(forest)
    for router, table in tables.items():
        port_to = {neighbour: port for port, neighbour in topology.neighbours(router).items()}
        neighbours = [(port_to[node], node) for node in graph[router]]
        assert table.neighbours == tuple(sorted(neighbours))
        reached = sorted(nx.node_connected_component(graph, router))
        assert [entry.source for entry in table.entries] == reached
        numbers: dict[int, tuple[int, frozenset[int]]] = {}
        for entry in table.entries:
            tree = forest.trees[entry.source]
            parent = tree.parents[router]
            children = sorted(port_to[n] for n in graph[router] if tree.parents[n] == router)
            expected_parent = 0 if parent == NO_PARENT else port_to[parent]
            assert entry == TreeEntry(entry.source, expected_parent, tuple(children), entry.downstream)
            hung = (entry.parent, beyond(tree, router))
            assert numbers.setdefault(entry.downstream, hung) == hung, "one number, two node sets"
        assert len(set(numbers.values())) == len(numbers), "one node set, two numbers"
        assert set(numbers) == set(range(len(numbers)))


def big_integer_parents(topology: Topology, forest: Forest, source: int) -> list[int]:
    """The tree by the definition: Dijkstra on the weights cost << m | 1 << index."""
    m = len(topology.links)
    adjacency: dict[int, list[tuple[int, int]]] = {node.id: [] for node in topology.nodes}
    for link in forest.links:
        weight = link.cost << m | 1 << link.index
        adjacency[link.u].append((link.v, weight))
        adjacency[link.v].append((link.u, weight))
    parents = [NO_PARENT] * len(topology.nodes)
    done: set[int] = set()
    heap = [(0, source, NO_PARENT)]
    while heap:
        distance, node, parent = heappop(heap)
        if node in done:
            continue
        done.add(node)
        parents[node] = parent
        for neighbour, weight in adjacency[node]:
            if neighbour not in done:
                heappush(heap, (distance + weight, neighbour, node))
    return parents


def check(topology: Topology, down_links: frozenset[int], down_nodes: frozenset[int]) -> None:
    forest = spt_trees(topology, down_links, down_nodes)
    assert set(forest.trees) == {node.id for node in topology.nodes} - down_nodes
    check_forest(forest)
    check_tables(topology, forest, broadcast_tables(topology, forest))
    for source, tree in forest.trees.items():
        assert list(tree.parents) == big_integer_parents(topology, forest, source)


NONE: frozenset[int] = frozenset()


@cache
def atlas() -> list[nx.Graph]:
    return [graph for graph in nx.graph_atlas_g() if len(graph) and nx.is_connected(graph)]


@pytest.mark.parametrize("costs", ["unit", "random"])
def test_every_connected_graph_of_up_to_seven_nodes(costs: str) -> None:
    assert len(atlas()) == 996
    source = random.Random(7)
    for graph in atlas():
        check(topology_of(graph, source if costs == "random" else None), NONE, NONE)


@settings(max_examples=150, deadline=None)
@given(topologies())
def test_random_graphs(topology: Topology) -> None:
    check(topology, NONE, NONE)


@settings(max_examples=150, deadline=None)
@given(topologies(), st.data())
def test_with_links_and_nodes_down(topology: Topology, data: st.DataObject) -> None:
    links = data.draw(
        st.frozensets(st.sampled_from([link.index for link in topology.links]), max_size=4)
        if topology.links
        else st.just(NONE)
    )
    nodes = data.draw(st.frozensets(st.integers(0, len(topology.nodes) - 1), max_size=2))
    check(topology, links, nodes)


@settings(max_examples=100, deadline=None)
@given(topologies(), st.data())
def test_a_failed_link_leaves_the_trees_that_do_not_use_it(topology: Topology, data: st.DataObject) -> None:
    if not topology.links:
        return
    failed = data.draw(st.sampled_from(topology.links))
    before = spt_trees(topology)
    after = spt_trees(topology, frozenset({failed.index}))
    for source, tree in before.trees.items():
        if tree.parents[failed.u] != failed.v and tree.parents[failed.v] != failed.u:
            assert after.trees[source].parents == tree.parents


def test_a_larger_graph_full_of_ties() -> None:
    graph = nx.convert_node_labels_to_integers(nx.grid_2d_graph(5, 5))
    check(topology_of(graph, None), NONE, NONE)


def test_the_tie_in_a_ring_of_four_goes_to_the_lower_links() -> None:
    ring = build("ring", [Node(n) for n in range(4)], [LinkSpec(n, (n + 1) % 4) for n in range(4)])
    forest = spt_trees(ring)
    # From 0 to 2 over links {0, 1} or {3, 2}: the set without the highest index is lighter.
    assert path(forest.trees[0], 2) == [2, 1, 0]
    assert path(forest.trees[2], 0) == [0, 1, 2]
    assert path(forest.trees[1], 3) == [3, 2, 1]
    assert broadcast_tables(ring, forest)[1].entries[0] == TreeEntry(
        source=0, parent=1, children=(2,), downstream=0
    )


def test_a_lone_node_has_a_table() -> None:
    lone = Topology("lone", (Node(0),), ())
    tables = broadcast_tables(lone, spt_trees(lone))
    assert tables == {0: BroadcastTable(neighbours=(), entries=(TreeEntry(0, 0, (), 0),))}
