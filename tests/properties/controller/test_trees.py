"""The conditions of CBCB on a broadcast layer, for each layer; and the tables describe the trees."""

from __future__ import annotations

import random
from functools import cache

import networkx as nx
import pytest
from hypothesis import given, settings, strategies as st

from router.wire.frames import BroadcastTable
from testbed.controller.classes import NO_PARENT, _keys, hops_of
from testbed.controller.trees import LAYERS, Forest, Tree, broadcast_tables, hops_on_trees, spt_trees
from tests.support.costs import calls_of, memory_of
from tests.support.tree_entries import TreeEntry, entries_of, sources_of
from topos import LinkSpec, Node, Topology
from topos.build import MAX_TOTAL_COST, build


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


@cache
def subtrees(tree: Tree) -> dict[int, frozenset[int]]:
    """The nodes of each node's subtree, by the definition: those whose path goes through it."""
    paths = {node: path(tree, node) for node in tree.order}
    return {node: frozenset(other for other in paths if node in paths[other]) for node in paths}


def beyond(tree: Tree, node: int) -> frozenset[int]:
    return subtrees(tree)[node]


def hung_beyond(tree: Tree, router: int, neighbour: int) -> frozenset[int]:
    """Returns the nodes of a tree beyond a router's interface towards `neighbour`, by the definition."""
    return beyond(tree, neighbour) if tree.parents[neighbour] == router else frozenset()


def graph_of(forest: Forest) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from(forest.sources.tolist())
    graph.add_weighted_edges_from(((link.u, link.v, link.cost) for link in forest.links), weight="cost")
    return graph


def check_forest(forest: Forest) -> None:
    graph = graph_of(forest)
    trees = forest.trees()
    for source, tree in trees.items():
        component = nx.node_connected_component(graph, source)
        # Tree: spans the component exactly, by links in use, without a cycle.
        assert set(tree.order) == component
        assert len(tree.order) == len(component)
        assert tree.order[0] == source
        assert [n for n in component if tree.parents[n] == NO_PARENT] == [source]
        for node in component:
            walk = path(tree, node)
            assert walk[-1] == source
            # Symmetry.
            assert walk == path(trees[node], source)[::-1]
            # Subpaths agree: the part from any router on is that of the router's own tree.
            for position, router in enumerate(walk):
                assert walk[: position + 1] == path(trees[router], node)


def check_shortest(topology: Topology, forest: Forest) -> None:
    """Each tree is that of the definition: the shortest paths by the weights cost << m | 1 << index."""
    m = len(topology.links)
    graph = nx.Graph()
    graph.add_nodes_from(forest.sources.tolist())
    graph.add_weighted_edges_from((k.u, k.v, k.cost << m | 1 << k.index) for k in forest.links)
    for source, tree in forest.trees().items():
        paths = nx.single_source_dijkstra_path(graph, source)
        assert {node: path(tree, node)[::-1] for node in tree.order} == paths


def check_minimum(topology: Topology, forest: Forest) -> None:
    """All trees have the same links: those of the one spanning tree of least weight."""
    m = len(topology.links)
    weighted = nx.Graph()
    weighted.add_nodes_from(forest.sources.tolist())
    for link in forest.links:
        weighted.add_edge(link.u, link.v, weight=link.cost << m | 1 << link.index)
    wanted = {frozenset(edge) for edge in nx.minimum_spanning_edges(weighted, "prim", data=False)}
    for tree in forest.trees().values():
        used = {frozenset((node, tree.parents[node])) for node in tree.order[1:]}
        assert used == {edge for edge in wanted if edge <= set(tree.order)}


def check_tables(topology: Topology, forest: Forest, tables: dict[int, BroadcastTable]) -> None:
    assert set(tables) == set(forest.sources.tolist())
    graph, trees = graph_of(forest), forest.trees()
    for router, table in tables.items():
        port_to = {neighbour: port for port, neighbour in topology.neighbours(router).items()}
        neighbours = [(port_to[node], node) for node in graph[router]]
        assert table.neighbours == tuple(sorted(neighbours))
        reached = sorted(nx.node_connected_component(graph, router))
        assert sources_of(table) == reached
        numbers: dict[int, tuple[int, frozenset[int]]] = {}
        for entry in entries_of(table):
            tree, own = trees[entry.source], trees[router]
            parent = tree.parents[router]
            on_tree = [node for node in graph[router] if tree.parents[node] == router]
            sent_to = on_tree if not forest.floods else [node for node in graph[router] if node != parent]
            sent_to.sort(key=port_to.__getitem__)
            assert entry == TreeEntry(
                entry.source,
                0 if parent == NO_PARENT else port_to[parent],
                tuple(port_to[node] for node in sent_to),
                entry.downstream,
                reusable=tuple(
                    port_to[node]
                    for node in sent_to
                    if hung_beyond(tree, router, node) == hung_beyond(own, router, node)
                ),
                off_tree=tuple(port_to[node] for node in sent_to if node not in on_tree),
            )
            if entry.source == router:
                assert entry.reusable == entry.children
            assert table.subtrees is not None
            row = table.subtrees[entry.downstream - 1]
            below = {other for other in reached if row[table.class_of[other] - 1]}
            assert below == beyond(tree, router)
            hung = (entry.parent, beyond(tree, router))
            assert numbers.setdefault(entry.downstream, hung) == hung, "one number, two node sets"
        assert len(set(numbers.values())) == len(numbers), "one node set, two numbers"
        assert set(numbers) == set(range(1, len(table.classes) + 1))


def check(topology: Topology, down_links: frozenset[int], down_nodes: frozenset[int]) -> None:
    forests = {name: layer(topology, down_links, down_nodes) for name, layer in LAYERS.items()}
    for forest in forests.values():
        assert set(forest.sources.tolist()) == {node.id for node in topology.nodes} - down_nodes
        check_tables(topology, forest, broadcast_tables(topology, forest, subtrees=True))
        check_forest(forest)
    check_shortest(topology, forests["spt"])
    check_minimum(topology, forests["spanning-tree"])
    # What holds for shortest paths holds for reverse-path forwarding: the accepted frames take the same.
    assert forests["rpf"].trees() == forests["spt"].trees()
    hops = hops_on_trees(topology, LAYERS["spt"], down_links, down_nodes)
    for source, tree in forests["spt"].trees().items():
        lengths = {node: len(path(tree, node)) - 1 for node in tree.order}
        assert hops[source].tolist() == [lengths.get(node.id, -1) for node in topology.nodes]


NONE: frozenset[int] = frozenset()


@cache
def atlas() -> list[nx.Graph]:
    return [graph for graph in nx.graph_atlas_g() if len(graph) and nx.is_connected(graph)]


def test_every_connected_graph_of_up_to_seven_nodes() -> None:
    assert len(atlas()) == 996
    for graph in atlas():
        check(topology_of(graph, None), NONE, NONE)


def test_every_connected_graph_of_up_to_six_nodes_with_random_costs() -> None:
    source = random.Random(7)
    for graph in atlas():
        if len(graph) < 7:
            check(topology_of(graph, source), NONE, NONE)


@settings(max_examples=150)
@given(topologies(), st.data())
def test_with_links_and_nodes_down(topology: Topology, data: st.DataObject) -> None:
    links = data.draw(
        st.frozensets(st.sampled_from([link.index for link in topology.links]), max_size=4)
        if topology.links
        else st.just(NONE)
    )
    nodes = data.draw(st.frozensets(st.integers(0, len(topology.nodes) - 1), max_size=2))
    check(topology, links, nodes)


_MOST, _PART = MAX_TOTAL_COST, MAX_TOTAL_COST // 4


@pytest.mark.parametrize(
    "links",
    [
        [(0, 1, _MOST)],
        [(0, 1, _MOST - 1), (1, 2, 1)],
        [(0, 1, _PART), (1, 2, _PART), (2, 3, _PART), (3, 4, _MOST - 3 * _PART)],
        # Rings: the last link is about as long as the way round.
        [(0, 1, _PART), (1, 2, _PART // 2), (2, 3, _PART // 2), (3, 0, _MOST - _PART - 2 * (_PART // 2))],
        [(0, 1, _PART + 1), (1, 2, _PART + 1), (2, 0, _MOST - 2 * (_PART + 1))],
    ],
)
def test_trees_at_the_greatest_sum_of_costs(links: list[tuple[int, int, int]]) -> None:
    assert sum(cost for *_, cost in links) == MAX_TOTAL_COST
    count = 1 + max(max(u, v) for u, v, _ in links)
    topology = build("t", [Node(node) for node in range(count)], [LinkSpec(*link) for link in links])
    check(topology, NONE, NONE)


def line(count: int) -> Forest:
    return spt_trees(topology_of(nx.path_graph(count), None))


def test_hops_are_computed_in_little_memory_beside_their_own() -> None:
    forest = line(800)
    hops, _, peak = memory_of(lambda: hops_of(forest.sources, forest.parents))
    assert hops[0].tolist() == list(range(800))
    assert peak < 4 * hops.nbytes


def test_the_trees_of_all_nodes_are_held_once() -> None:
    topology = topology_of(nx.path_graph(800), None)
    spt_trees(topology)  # Loads the compiled code.
    forest, _, peak = memory_of(lambda: spt_trees(topology))
    assert peak < 1.5 * forest.parents.nbytes


def test_a_deep_network_takes_few_calls_of_numpy() -> None:
    forest = line(512)
    # There are 8 slices; a call for each depth of each would make 4,000.
    assert calls_of(lambda: _keys(forest.sources, forest.parents)) < 1000
