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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import networkx as nx
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from captures.accounting.run_tables import cost_graph
from topos.model import Link, Topology

#: A source and an epoch.
_Key = tuple[int, int]
#: The ways, as columns.
WAYS = ("broadcast", "unicast", "minimal")
#: Largest number of entries of the matrix of messages and nodes.
_CELLS = 20_000_000
_MESSAGES = pa.schema(
    [
        *(("source", pa.int64()), ("seq", pa.int64()), ("receivers", pa.int64())),
        *((way, pa.int64()) for way in WAYS),
    ]
)
_LINKS = pa.schema(
    [
        *(("link", pa.int32()), ("from_node", pa.int32()), ("to_node", pa.int32())),
        *((way, pa.int64()) for way in WAYS),
    ]
)


@dataclass(frozen=True)
class Tree:
    """A tree of nodes 0 to n-1 towards a source.

    Attributes:
        parent: node -> the next node towards the source; -1: the source, and nodes that are not in the tree.
        inwards: the nodes of the tree but the source, each after all nodes beyond it.
    """

    source: int
    parent: NDArray[np.int64]
    inwards: NDArray[np.int64]


@dataclass(frozen=True)
class Baselines:
    """Arrow tables with a row for each message of which the tree is known, and for each direction of a
    link."""

    baselines: pa.Table
    link_baselines: pa.Table


def tree_of(source: int, nodes: int, parents: Mapping[int, int]) -> Tree:
    """Returns the tree in which `parents` gives the next node towards the source.

    Nodes whose paths do not end at the source are left out.
    """
    children: dict[int, list[int]] = {}
    for node, parent in parents.items():
        if node != source:
            children.setdefault(parent, []).append(node)
    outwards, parent_of = [source], np.full(nodes, -1, dtype=np.int64)
    for node in outwards:
        for child in children.get(node, ()):
            parent_of[child] = node
            outwards.append(child)
    return Tree(source, parent_of, np.array(outwards[:0:-1], dtype=np.int64))


def _cheapest(source: int, nodes: int, graph: nx.Graph) -> Tree:
    """Returns the paths of least cost; of parents with equal cost, the lowest number is the parent."""
    before, _ = nx.dijkstra_predecessor_and_distance(graph, source, weight="cost")
    return tree_of(source, nodes, {node: min(parents) for node, parents in before.items() if parents})


def _along(tree: Tree, receivers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns for each message and node how many receivers are at the node or beyond it.

    Args:
        receivers: messages x nodes, 1 where a node is a receiver.
    """
    counts = receivers.T.copy()
    for node in tree.inwards.tolist():
        counts[tree.parent[node]] += counts[node]
    # Outside the tree nothing arrives, and the source needs no link.
    beyond = np.zeros_like(counts)
    beyond[tree.inwards] = counts[tree.inwards]
    return beyond.T


def count(
    broadcast: Tree, unicast: Tree, receivers: NDArray[np.int64]
) -> Iterator[tuple[str, Tree, NDArray[np.int64]]]:
    """Yields each way with its tree and its crossings: messages x nodes, of the link from a node's parent."""
    reached = np.zeros_like(receivers)
    reached[:, broadcast.inwards] = 1
    yield "broadcast", broadcast, reached
    yield "unicast", unicast, _along(unicast, receivers)
    yield "minimal", broadcast, np.minimum(_along(broadcast, receivers), 1)


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
) -> Baselines:
    """Returns the crossings of the three ways, message by message and link by link.

    Args:
        sent: the messages that applications sent.
        trees, oracle: the tables.
        seen: as for `message_epochs`.
    """
    links, nodes = topology.links, len(topology.nodes)
    graph = cost_graph(links)
    parents, dropped = parents_of(trees)
    expecting = _expecting(oracle)
    epochs = message_epochs(sent, trees, seen)
    groups: dict[tuple[int, int], list[int]] = {}
    columns = sent.select(["source", "seq"]).to_pydict()
    for source, seq in zip(*columns.values(), strict=True):
        epoch = epochs.get((source, seq))
        if epoch is not None and (source, epoch) in parents:
            groups.setdefault((source, epoch), []).append(seq)
    rows: list[tuple[int, ...]] = []
    totals = {way: np.zeros((len(links), 2), dtype=np.int64) for way in WAYS}
    ends = {(link.u, link.v): (link.index, 0) for link in links}
    ends |= {(link.v, link.u): (link.index, 1) for link in links}
    most = max(1, _CELLS // nodes)
    cheapest: dict[int, Tree] = {}
    for (source, epoch), seqs in sorted(groups.items()):
        tree = tree_of(source, nodes, parents[source, epoch])
        if source not in cheapest:
            cheapest = {source: _cheapest(source, nodes, graph)}
        for first in range(0, len(seqs), most):
            some = seqs[first : first + most]
            receivers = np.zeros((len(some), nodes), dtype=np.int64)
            for row, seq in enumerate(some):
                receivers[row, expecting.get((source, seq), [])] = 1
            crossed = {}
            for way, along, matrix in count(tree, cheapest[source], receivers):
                crossed[way] = matrix.sum(axis=1).tolist()
                of_node = matrix.sum(axis=0)
                for node in along.inwards.tolist():
                    if of_node[node]:
                        totals[way][ends[int(along.parent[node]), node]] += of_node[node]
            for off_tree in dropped.get((source, epoch), ()):
                totals["broadcast"][ends[off_tree]] += len(some)
                crossed["broadcast"] = [crossings + 1 for crossings in crossed["broadcast"]]
            there = receivers.sum(axis=1).tolist()
            rows += zip([source] * len(some), some, there, *(crossed[way] for way in WAYS), strict=True)
    return Baselines(_table(rows, _MESSAGES), _table(_link_rows(links, totals), _LINKS))


def parents_of(trees: pa.Table) -> tuple[dict[_Key, dict[int, int]], dict[_Key, list[tuple[int, int]]]]:
    """Returns, by source and epoch, node -> parent, and the directions of links whose ends drop frames."""
    parents: dict[_Key, dict[int, int]] = {}
    dropped: dict[_Key, list[tuple[int, int]]] = {}
    columns = trees.select(["source", "epoch", "node", "parent", "off_tree"]).to_pydict()
    for source, epoch, node, parent, off_tree in zip(*columns.values(), strict=True):
        of_tree = parents.setdefault((source, epoch), {})
        if parent is not None:
            of_tree[node] = parent
        if off_tree:
            dropped.setdefault((source, epoch), []).extend((node, each) for each in off_tree)
    return parents, dropped


def _expecting(oracle: pa.Table) -> dict[tuple[int, int], list[int]]:
    """Returns (source, seq) -> nodes with an application that expects the message."""
    found: dict[tuple[int, int], list[int]] = {}
    columns = oracle.select(["source", "seq", "node", "expected"]).to_pydict()
    for source, seq, node, expected in zip(*columns.values(), strict=True):
        if expected:
            found.setdefault((source, seq), []).append(node)
    return found


def _link_rows(links: Sequence[Link], totals: Mapping[str, NDArray[np.int64]]) -> Iterator[tuple[int, ...]]:
    for link in links:
        for direction, (u, v) in enumerate(((link.u, link.v), (link.v, link.u))):
            yield (link.index, u, v, *(int(totals[way][link.index, direction]) for way in WAYS))


def _table(rows: Iterable[tuple[int, ...]], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [() for _ in schema]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
