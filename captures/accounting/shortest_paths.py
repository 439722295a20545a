"""Shortest paths over the topology as declared: what the paths taken are measured against."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import networkx as nx
import pyarrow as pa

from topos.model import Link

SHORTEST = pa.schema(
    [
        ("source", pa.int64()),
        ("node", pa.int32()),
        ("shortest_hops", pa.int32()),
        ("shortest_cost", pa.int64()),
    ]
)


def shortest_paths(links: Sequence[Link], sources: Iterable[int]) -> pa.Table:
    """Fewest hops and least cost from each source to each other node that it reaches over `links`.

    Columns: those of `SHORTEST`.
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
