"""Connectivity of the nodes over time, and its changes, from the controller's log and the topology of a
run."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import networkx as nx

from captures.rundir.epochs import Epochs, epochs
from topos.model import Topology

#: The end of a change whose end is not in the log.
NEVER_NS = 2**63 - 1


@dataclass
class Connectivity:
    """The connected components of the network over time.

    Attributes:
        since: times (wall clock, ns) in order.
        parts: for each time, node -> number of its component from that time on. Before the first time, all
            nodes are connected.
    """

    since: list[int] = field(default_factory=list)
    parts: list[Mapping[int, int]] = field(default_factory=list)

    def connected(self, u: int, v: int, at_ns: int) -> bool:
        """Returns whether a path of links and nodes that are up joins two nodes; a node always reaches
        itself."""
        position = bisect_right(self.since, at_ns) - 1
        if u == v or position < 0:
            return True
        parts = self.parts[position]
        return u in parts and parts.get(u) == parts.get(v)


@dataclass(frozen=True)
class NetworkGraph:
    """Nodes, and the ends of links by index."""

    nodes: frozenset[int]
    links: Mapping[int, tuple[int, int]]

    @classmethod
    def of(cls, topology: Topology) -> NetworkGraph:
        """Returns the graph of a topology."""
        return cls(
            frozenset(node.id for node in topology.nodes),
            {link.index: (link.u, link.v) for link in topology.links},
        )

    def parts(self, down_links: set[int], down_nodes: set[int]) -> dict[int, int]:
        """Returns node -> the least node that it reaches; nodes that are down are left out."""
        graph = nx.Graph(link for index, link in self.links.items() if index not in down_links)
        graph.add_nodes_from(self.nodes)
        graph.remove_nodes_from(down_nodes)
        return {node: min(part) for part in nx.connected_components(graph) for node in part}


def connectivity(events: Iterable[Mapping[str, Any]], network: NetworkGraph) -> Connectivity:
    """Returns the connectivity that results from the controller's events (in order of time).

    Raises:
        KeyError: an event lacks a field.
    """
    log, found = Epochs(), Connectivity()
    for event in events:
        if log.take(event):
            found.since.append(int(event["t_ns"]))
            found.parts.append(network.parts(log.down_links, log.down_nodes))
    return found


def tree_changes(events: Iterable[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """Returns the intervals in which messages could be lost, from the controller's events in order of time.

    Returns:
        (from, to), wall clock in ns; disjoint and in order; NEVER_NS if the log ends within a change.

    Raises:
        KeyError: an event lacks a field.
    """
    return [
        (change.began_ns, NEVER_NS if change.committed_ns is None else change.committed_ns)
        for change in epochs(events).changes
    ]
