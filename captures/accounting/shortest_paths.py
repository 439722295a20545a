"""Shortest paths over the topology as declared, with which the paths taken are compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import networkx as nx
import pyarrow as pa

from captures.accounting.inputs import Inputs
from captures.tables.catalogue import TABLES
from topos.model import Link

SHORTEST = TABLES["shortest_paths"].schema


def shortest_path_table(inputs: Inputs) -> pa.Table:
    """The shortest paths from the nodes that sent messages."""
    return shortest_paths(inputs.links, inputs.senders)


def shortest_paths(links: Sequence[Link], sources: Iterable[int]) -> pa.Table:
    """The table `shortest_paths`: fewest hops and least cost from each source to each other node.

    A node that `links` do not connect with a source has no row for it.
    """
    graph = nx.Graph()
    graph.add_weighted_edges_from(((link.u, link.v, link.cost) for link in links), weight="cost")
    tables = [SHORTEST.empty_table()]
    for source in sorted(set(sources) & set(graph)):
        hops = nx.single_source_shortest_path_length(graph, source)
        costs = nx.single_source_dijkstra_path_length(graph, source, weight="cost")
        others = [node for node in hops if node != source]
        columns = ([source] * len(others), others, [hops[v] for v in others], [costs[v] for v in others])
        tables.append(pa.table(dict(zip(SHORTEST.names, columns, strict=True)), schema=SHORTEST))
    return pa.concat_tables(tables)
