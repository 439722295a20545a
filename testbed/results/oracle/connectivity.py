"""Connectivity of the nodes over time, from the controller's log and the topology of a run, and the nodes
that a message reaches within its hop limit, on the broadcast trees of a network."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import networkx as nx

from captures.rundir.epochs import SWITCH_CONNECTED, SWITCH_DISCONNECTED, Epochs, epochs
from captures.rundir.faults import NEVER_NS, FaultRecord, cuts, killed_routers, lost_parts
from topos import Topology

#: Source, destination, indices of the links that are down, nodes that are down -> whether the hop limit of a
#: message is enough for the path between the two nodes, which are connected.
HopLimit: TypeAlias = Callable[[int, int, frozenset[int], frozenset[int]], bool]
#: Wall time in which the end of a part is noticed.
_NOTICED_NS = 2_000_000_000
_State: TypeAlias = tuple[int, Mapping[int, int], frozenset[int], frozenset[int]]
_SWITCH_EVENTS = {SWITCH_CONNECTED.name, SWITCH_DISCONNECTED.name}


@dataclass
class Connectivity:
    """The connected components of the network over time.

    Attributes:
        states: time (wall clock, ns), and from it on: node -> number of its component, indices of the links
            that are down, nodes that are down; in order. Before the first time, all nodes are connected.
        hop_limit: of the messages; None: messages reach every node that is connected.
    """

    states: list[_State] = field(default_factory=list)
    hop_limit: HopLimit | None = None

    def connected(self, u: int, v: int, at_ns: int) -> bool:
        """Returns whether a path of links and nodes that are up joins two nodes, and a message may take as
        many hops as the path on the broadcast tree has; a node always reaches itself."""
        if u == v:
            return True
        down_links = down_nodes = frozenset[int]()
        if position := bisect_right(self.states, at_ns, key=lambda state: state[0]):
            _, parts, down_links, down_nodes = self.states[position - 1]
            if u not in parts or parts.get(u) != parts.get(v):
                return False
        return self.hop_limit is None or self.hop_limit(u, v, down_links, down_nodes)


def parts(topology: Topology, down_links: set[int], down_nodes: set[int]) -> dict[int, int]:
    """Returns node -> the least node that it reaches; nodes that are down are left out."""
    graph = nx.Graph((link.u, link.v) for link in topology.links if link.index not in down_links)
    graph.add_nodes_from(node.id for node in topology.nodes)
    graph.remove_nodes_from(down_nodes)
    return {node: min(part) for part in nx.connected_components(graph) for node in part}


def connectivity(
    events: Iterable[Mapping[str, Any]], topology: Topology, hop_limit: HopLimit | None = None
) -> Connectivity:
    """Returns the connectivity that results from the controller's events (in order of time)."""
    log, found = Epochs(), Connectivity(hop_limit=hop_limit)
    for event in events:
        if log.take(event):
            own = parts(topology, log.down_links, log.down_nodes)
            down = frozenset(log.down_links), frozenset(log.down_nodes)
            found.states.append((int(event["t_ns"]), own, *down))
    return found


def tree_changes(events: Iterable[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """Returns the intervals in which messages could be lost, from the controller's events in order of time.

    Returns:
        (from, to), wall clock in ns; disjoint and in order; NEVER_NS if the log ends within a change.
    """
    return [
        (change.began_ns, NEVER_NS if change.committed_ns is None else change.committed_ns)
        for change in epochs(events).changes
    ]


def outages(events: Iterable[Mapping[str, Any]], faults: Sequence[FaultRecord]) -> list[tuple[int, int]]:
    """Returns the intervals in which a router or switches that were killed, or a tunnel, could lose messages,
    and the time from a little before a part was lost on.

    A router is back when an epoch has been committed that answers its restart, and switches when one has that
    answers their absence: a controller that was away at the time learns of it later.

    Args:
        events: of the controller, in order of time.
        faults: of the parts, in order of time.
    """
    changes = epochs(events).changes

    def end(since_ns: int, words: Set[str]) -> int:
        """When the next change with one of these events was answered."""
        answered = (each for each in changes if each.began_ns > since_ns and words & set(each.events))
        change = next(answered, None)
        return NEVER_NS if change is None else change.committed_ns or NEVER_NS

    found = [(t_ns, end(t_ns, {f"restart {node}"})) for node, t_ns in killed_routers(faults)]
    # Which switches went with a process is not known: the first event of any is that of the kill.
    switches = {
        words for each in changes for words in each.events if words.partition(" ")[0] in _SWITCH_EVENTS
    }
    for record in faults:
        if record["part"] in ("switches", "switch") and record["what"] == "killed":
            own = {f"{word} {record.get('node')}" for word in _SWITCH_EVENTS}
            words = own if record["part"] == "switch" else switches
            found.append((record["t_ns"], end(record["t_ns"], words)))
    return found + cuts(faults) + [(loss["t_ns"] - _NOTICED_NS, NEVER_NS) for loss in lost_parts(faults)]


def merged(intervals: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the union of intervals: disjoint and in order."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found
