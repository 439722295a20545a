"""Broadcast, unicast and the minimal tree: their crossings for the messages of a run, beside CBCB's.

Three ways, counted in crossings: a message on a link in one direction, whatever its fragments.

- broadcast: to every router, along the broadcast tree of the source (protocol paper, section 2), with the
  crossings that end at a router which drops them (reverse-path forwarding);
- unicast: a copy to each router with an application that expects the message, along the path of least cost;
- minimal: the part of the broadcast tree of the source that leads to these routers, and no more. No routing
  over the same trees that delivers to all of them crosses fewer links.

The routers that expect a message are those of the oracle, decided or not. The trees are those of the
captured TABLE frames, in the epoch of the message's frames; a message without a frame on a link has the last
epoch that was announced before its sending.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache

import networkx as nx
import pyarrow as pa

from captures.accounting.log_tables import as_table
from captures.accounting.run_tables import cost_graph
from topos import Topology

#: A source and an epoch.
_Key = tuple[int, int]
#: The ways, as columns.
WAYS = ("broadcast", "unicast", "minimal")
_MESSAGES = pa.schema([(name, pa.int64()) for name in ("source", "seq", "receivers", *WAYS)])
_LINKS = pa.schema(
    [
        *(("link", pa.int32()), ("from_node", pa.int32()), ("to_node", pa.int32())),
        *((way, pa.int64()) for way in WAYS),
    ]
)
#: A tree towards a source: node -> the next node; the source is left out.
Tree = Mapping[int, int]


def tree_of(source: int, parents: Mapping[int, int]) -> Tree:
    """Returns the tree in which `parents` gives the next node towards the source.

    Nodes whose paths do not end at the source are left out.
    """
    children: defaultdict[int, list[int]] = defaultdict(list)
    for node, parent in parents.items():
        if node != source:
            children[parent].append(node)
    tree: dict[int, int] = {}
    outwards = [source]
    for node in outwards:
        tree |= dict.fromkeys(children[node], node)
        outwards += children[node]
    return tree


def _cheapest(source: int, graph: nx.Graph) -> Tree:
    """Returns the paths of least cost; of parents with equal cost, the lowest number is the parent."""
    before, _ = nx.dijkstra_predecessor_and_distance(graph, source, weight="cost")
    return {node: min(parents) for node, parents in before.items() if parents}


def paths_to(tree: Tree, nodes: Iterable[int]) -> set[int]:
    """Returns the links of the paths from the source of a tree to nodes, each by its farther end."""
    found: set[int] = set()
    for node in nodes:
        while node in tree and node not in found:
            found.add(node)
            node = tree[node]
    return found


def message_epochs(sent: pa.Table, trees: pa.Table, seen: pa.Table) -> dict[tuple[int, int], int]:
    """Returns the epoch of each message sent: (source, seq) -> epoch.

    Args:
        seen: source, seq and epoch of the messages that the captures of links show.
    """
    columns = seen.to_pydict()
    found = dict(zip(zip(columns["source"], columns["seq"], strict=True), columns["epoch"], strict=True))
    told: dict[int, dict[int, int]] = {}
    announcements = trees.select(["source", "epoch", "told_ns"]).to_pydict()
    for source, epoch, told_ns in zip(*announcements.values(), strict=True):
        first = told.setdefault(source, {})
        first[epoch] = min(first.get(epoch, told_ns), told_ns)
    columns = sent.select(["source", "seq", "sent_ns"]).to_pydict()
    for source, seq, sent_ns in zip(*columns.values(), strict=True):
        announced = [epoch for epoch, at_ns in told.get(source, {}).items() if at_ns <= sent_ns]
        if (source, seq) not in found and announced:
            found[source, seq] = max(announced)
    return found


def compute(
    topology: Topology, sent: pa.Table, trees: pa.Table, oracle: pa.Table, seen: pa.Table
) -> dict[str, pa.Table]:
    """Returns the tables `baselines` and `link_baselines`: the crossings of the three ways.

    `baselines` has a row for each message of which the tree is known, `link_baselines` one for each
    direction of a link.

    Args:
        sent: the messages that applications sent.
        trees, oracle: the tables.
        seen: as for `message_epochs`.
    """
    graph = cost_graph(topology.links)
    # Of one source at a time: those of a large network take much memory.
    cheapest = lru_cache(maxsize=1)(lambda source: _cheapest(source, graph))
    broadcast, dropped = trees_of(trees)
    expecting = _expecting(oracle)
    epochs = message_epochs(sent, trees, seen)
    rows: list[tuple[int, ...]] = []
    # By the direction of a link: its two nodes.
    totals: dict[str, Counter[tuple[int, int]]] = {way: Counter() for way in WAYS}
    sendings: Counter[_Key] = Counter()
    columns = sent.select(["source", "seq"]).to_pydict()
    for source, seq in sorted(zip(*columns.values(), strict=True)):
        key = source, epochs.get((source, seq), -1)
        if key not in broadcast:
            continue
        sendings[key] += 1
        tree, cheap, receivers = broadcast[key], cheapest(source), expecting[source, seq]
        minimal = paths_to(tree, receivers)
        totals["minimal"].update((tree[node], node) for node in minimal)
        # A copy for each receiver, on links that several of them share.
        unicast = Counter[int]()
        for receiver in receivers:
            unicast.update(paths_to(cheap, (receiver,)))
        for node, copies in unicast.items():
            totals["unicast"][cheap[node], node] += copies
        flooded = len(tree) + len(dropped.get(key, ()))
        rows.append((source, seq, len(receivers), flooded, unicast.total(), len(minimal)))
    for key, messages in sendings.items():
        ends = [(parent, node) for node, parent in broadcast[key].items()]
        for end in (*ends, *dropped.get(key, ())):
            totals["broadcast"][end] += messages
    of_links = [
        (link.index, *ends, *(totals[way][ends] for way in WAYS))
        for link in topology.links
        for ends in ((link.u, link.v), (link.v, link.u))
    ]
    return {"baselines": as_table(rows, _MESSAGES), "link_baselines": as_table(of_links, _LINKS)}


def trees_of(trees: pa.Table) -> tuple[dict[_Key, Tree], dict[_Key, list[tuple[int, int]]]]:
    """Returns, by source and epoch, the tree, and the directions of links whose ends drop frames."""
    found: dict[_Key, Tree] = {}
    dropped: dict[_Key, list[tuple[int, int]]] = {}
    parents: defaultdict[_Key, dict[int, int]] = defaultdict(dict)
    columns = trees.select(["source", "epoch", "node", "parent", "off_tree"]).to_pydict()
    for source, epoch, node, parent, off_tree in zip(*columns.values(), strict=True):
        of_tree = parents[source, epoch]
        if parent is not None:
            of_tree[node] = parent
        if off_tree:
            dropped.setdefault((source, epoch), []).extend((node, each) for each in off_tree)
    while parents:
        key, of_tree = parents.popitem()
        found[key] = tree_of(key[0], of_tree)
    return found, dropped


def _expecting(oracle: pa.Table) -> defaultdict[tuple[int, int], set[int]]:
    """Returns (source, seq) -> nodes with an application that expects the message."""
    found: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
    columns = oracle.select(["source", "seq", "node", "expected"]).to_pydict()
    for source, seq, node, expected in zip(*columns.values(), strict=True):
        if expected:
            found[source, seq].add(node)
    return found
