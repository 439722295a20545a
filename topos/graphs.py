"""Topologies from networkx graphs, and from GraphML, the form of the Internet Topology Zoo.

Source: U. Brandes, M. Eiglsperger, I. Herman et al., "GraphML progress report", Graph Drawing 2001;
S. Knight et al., "The Internet Topology Zoo", IEEE JSAC 29(9), 2011, section III (its attributes).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Any
from xml.etree.ElementTree import ParseError

import networkx as nx

from topos.build import PARALLEL_LEFT_OUT, PROPERTIES_LEFT_OUT, LinkSpec, build
from topos.model import Node, Topology, TopologyError

#: Attributes of an edge that give the cost of a link, and pairs of attributes that place a node.
_COSTS = ("cost", "weight", "length")
_PLACES = (("x", "y"), ("Longitude", "Latitude"))
_NAMES = ("name", "label")
#: Attribute of the Topology Zoo, in bit/s.
_ZOO_SPEED = "LinkSpeedRaw"
_PROPERTIES = ("bandwidth_mbps", "delay_ms", "loss_percent", _ZOO_SPEED)


def read_graphml(name: str, text: str, *, keep_properties: bool = False) -> Topology:
    """The topology in the text of a `.graphml` file; see `from_networkx`.

    Raises:
        TopologyError: the text is not GraphML, or its graph is no topology.
    """
    try:
        graph = nx.parse_graphml(text)
    except (ParseError, nx.NetworkXError, KeyError, ValueError, TypeError) as error:
        raise TopologyError(f"not valid GraphML: {error}") from error
    return from_networkx(graph, name=name, keep_properties=keep_properties)


def from_networkx(graph: nx.Graph, *, name: str | None = None, keep_properties: bool = True) -> Topology:
    """The topology of a networkx graph.

    Nodes are numbered in the order of the graph. The name of a node is its attribute `name` or `label`, else
    the node itself unless it is the number 0 to n-1; a name that several nodes share is followed by the node
    in parentheses. `x` and `y`, or `Longitude` and `Latitude`, place a node. Directions of edges, parallel
    edges beyond the first, and edges from a node to itself are left out. The cost of a link is the attribute
    `cost`, `weight` or `length` of its edge, rounded and at least 1, else 1.

    Args:
        name: of the topology; None: the graph's.
        keep_properties: take over `bandwidth_mbps` (or the Topology Zoo's `LinkSpeedRaw`, bit/s), `delay_ms`
            and `loss_percent`.

    Raises:
        TopologyError: an attribute is not a number, or see `build`.
    """
    ids: dict[Hashable, int] = {node: number for number, node in enumerate(graph)}
    names = _names(graph, ids)
    nodes = [Node(ids[node], *_place(node, data), names[node]) for node, data in graph.nodes(data=True)]
    specs: dict[tuple[int, int], LinkSpec] = {}
    parallel, declared = 0, False
    for u, v, data in graph.edges(data=True):
        ends = ids[u], ids[v]
        pair = min(ends), max(ends)
        declared |= any(data.get(key) is not None for key in _PROPERTIES)
        if u != v and pair not in specs:
            specs[pair] = _link(*ends, data, f"edge {u!r} - {v!r}", keep_properties)
        else:
            parallel += u != v
    notes = [PROPERTIES_LEFT_OUT] if declared and not keep_properties else []
    if parallel:
        notes.append(PARALLEL_LEFT_OUT.format(parallel, "the first"))
    title = name if name is not None else str(graph.name or "graph")
    return build(title, nodes, specs.values(), notes=notes)


def _names(graph: nx.Graph, ids: Mapping[Hashable, int]) -> dict[Hashable, str | None]:
    given: dict[Hashable, str] = {}
    for node, data in graph.nodes(data=True):
        label = next((str(data[key]) for key in _NAMES if data.get(key) not in (None, "")), str(node))
        given[node] = "".join(each for each in label if each.isprintable()) or str(node)
    shared = Counter(given.values())
    unique = {node: label if shared[label] == 1 else f"{label} ({node})" for node, label in given.items()}
    return {node: None if label == str(ids[node]) else label for node, label in unique.items()}


def _place(node: Hashable, data: Mapping[str, Any]) -> tuple[float | None, float | None]:
    for x, y in _PLACES:
        if data.get(x) is not None and data.get(y) is not None:
            return _number(f"node {node!r}", data, x), _number(f"node {node!r}", data, y)
    return None, None


def _link(u: int, v: int, data: Mapping[str, Any], where: str, keep_properties: bool) -> LinkSpec:
    key = next((key for key in _COSTS if data.get(key) is not None), None)
    cost = 1 if key is None else max(1, math.floor(_number(where, data, key) + 0.5))
    if not keep_properties:
        return LinkSpec(u, v, cost)
    bandwidth, delay, loss = (
        _number(where, data, key) if data.get(key) is not None else None
        for key in ("bandwidth_mbps", "delay_ms", "loss_percent")
    )
    if bandwidth is None and data.get(_ZOO_SPEED) is not None:
        bandwidth = _number(where, data, _ZOO_SPEED) / 1e6
    return LinkSpec(u, v, cost, bandwidth, delay, loss)


def _number(where: str, data: Mapping[str, Any], key: str) -> float:
    try:
        value = float(data[key])
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise TopologyError(f"{where}: {key} is {data[key]!r}; expected a number")
    return value
