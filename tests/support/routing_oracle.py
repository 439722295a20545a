"""The expected routing tables, from topology, trees and the predicates of the nodes only."""

from __future__ import annotations

from collections.abc import Mapping

from router.predicates import NOTHING, Predicate
from router.predicates.covering.algebra import PredicateBuilder
from router.wire.header import LOCAL_INTERFACE
from testbed.controller.trees import LAYERS
from tests.support.algebra import covers
from topos import Topology


def wrong_entries(
    topology: Topology,
    layer: str,
    tables: Mapping[int, Mapping[int, Predicate]],
    down_links: frozenset[int] = frozenset(),
    down_nodes: frozenset[int] = frozenset(),
) -> list[str]:
    """Returns the entries that differ from the predicates of the nodes beyond the interface on the router's
    tree.

    Args:
        layer: name of the broadcast layer.
        tables: node -> interface -> p_i; p0 is the node's predicate.
        down_links, down_nodes: indices of links, and nodes, that are down.

    Returns:
        One line for each.
    """
    forest = LAYERS[layer](topology, down_links, down_nodes)
    interface = {}
    for link in forest.links:
        interface[link.u, link.v], interface[link.v, link.u] = link.u_port, link.v_port
    wrong = []
    for source, tree in forest.trees().items():
        #: Node -> the child of the source that leads to it.
        first: dict[int, int] = {}
        wanted: dict[int, PredicateBuilder] = {}
        for node in tree.order[1:]:
            parent = tree.parents[node]
            first[node] = node if parent == source else first[parent]
            entry = wanted.setdefault(interface[source, first[node]], PredicateBuilder())
            entry.add(tables[node].get(LOCAL_INTERFACE, NOTHING))
        learnt = {i: p for i, p in tables[source].items() if i != LOCAL_INTERFACE}
        for number in sorted(learnt.keys() | wanted.keys()):
            has = learnt.get(number, NOTHING)
            wants = wanted[number].predicate if number in wanted else NOTHING
            if not covers(has, wants):
                wrong.append(f"node {source}, interface {number}: something is missing")
            elif not covers(wants, has):
                wrong.append(f"node {source}, interface {number}: something is too much")
    return wrong
