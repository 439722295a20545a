"""Topologies from networkx graphs, and as texts for other programs.

Source of attributes: S. Knight et al., "The Internet Topology Zoo", IEEE JSAC 29(9), 2011, section III.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import nullcontext, suppress
from typing import Any

import networkx as nx

from topos import PROPERTIES, Link, LinkSpec, Node, Topology, TopologyError
from topos.build import MAX_NODES, PARALLEL_LEFT_OUT, PROPERTIES_LEFT_OUT, build, number_of

#: Attributes of an edge that give the cost of a link, and pairs of attributes that place a node.
_COSTS = ("cost", "weight", "length")
_PLACES = (("x", "y"), ("Longitude", "Latitude"))
_NAMES = ("name", "label")
#: Attribute of the Topology Zoo, in bit/s.
_ZOO_SPEED = "LinkSpeedRaw"
EDGE_PROPERTIES = (*PROPERTIES, _ZOO_SPEED)


def from_networkx(
    graph: nx.Graph, *, name: str | None = None, keep_properties: bool = True, largest: bool = False
) -> Topology:
    """The topology of a networkx graph.

    Nodes are numbered in the order of the graph. The name of a node is its attribute `name` or `label`, else
    the node itself unless it is the number 0 to n-1; a name that several nodes share, or that is the number
    of another node, is followed by the node in parentheses. `x` and `y`, or `Longitude` and `Latitude`, place
    a node. Directions of edges and edges from a node to itself are left out. Of parallel edges, the one of
    the greatest bandwidth is kept, else the first. The cost of a link is the attribute
    `cost`, `weight` or `length` of its edge, rounded and at least 1, else 1.

    Args:
        name: of the topology; None: the graph's.
        keep_properties: take over the properties of links, and for `bandwidth_mbps` the Topology Zoo's
            `LinkSpeedRaw` (bit/s; 0 is no bandwidth).
        largest: of a graph that is not connected, take the greatest component; a note says so.

    Raises:
        TopologyError: an attribute is not a number, or see `build`.
    """
    notes = []
    parts = list(nx.connected_components(graph.to_undirected(as_view=True)))
    if len(parts) > 1 and len(graph) <= MAX_NODES:
        if not largest:
            least = min(map(len, parts))
            raise TopologyError(
                f"not connected: {len(parts)} parts of {max(map(len, parts))} to {least} nodes;"
                " topology.largest = true takes the greatest"
            )
        kept = max(parts, key=len)
        notes.append(f"{len(graph) - len(kept)} nodes outside of the greatest connected part are left out")
        graph = graph.subgraph(kept)
    ids: dict[Hashable, int] = {node: number for number, node in enumerate(graph)}
    names = _names(graph, ids)
    nodes = [Node(ids[node], *_place(node, data), names[node]) for node, data in graph.nodes(data=True)]
    specs: dict[tuple[int, int], LinkSpec] = {}
    seen: set[tuple[int, int]] = set()
    parallel, declared = 0, False
    for u, v, data in graph.edges(data=True):
        ends = ids[u], ids[v]
        pair = min(ends), max(ends)
        declared |= any(data.get(key) is not None for key in EDGE_PROPERTIES)
        if u == v:
            continue
        spec = _link(*ends, data, f"edge {u!r} - {v!r}", keep_properties)
        # The two edges of a directed graph, one in each direction, are one link.
        ends = ends if graph.is_directed() else pair
        parallel += ends in seen
        seen.add(ends)
        if pair not in specs or (spec.bandwidth_mbps or 0) > (specs[pair].bandwidth_mbps or 0):
            specs[pair] = spec
    if declared and not keep_properties:
        specs = {pair: LinkSpec(spec.u, spec.v, spec.cost) for pair, spec in specs.items()}
        notes.append(PROPERTIES_LEFT_OUT)
    if parallel:
        notes.append(PARALLEL_LEFT_OUT.format(parallel, "the fastest, else the first,"))
    title = name if name is not None else str(graph.name or "graph")
    return build(title, nodes, specs.values(), notes=notes)


def _names(graph: nx.Graph, ids: Mapping[Hashable, int]) -> dict[Hashable, str | None]:
    given: dict[Hashable, str] = {}
    for node, data in graph.nodes(data=True):
        label = next((str(data[key]) for key in _NAMES if data.get(key) not in (None, "")), str(node))
        given[node] = "".join(each for each in label if each.isprintable()) or str(node)
    shared = Counter(given.values())
    taken = set(shared)
    unique: dict[Hashable, str] = {}
    for node, label in given.items():
        if shared[label] > 1 or number_of(label, len(ids)) not in (None, ids[node]):
            while label in taken:
                label += f" ({node})"
            taken.add(label)
        unique[node] = label
    return {node: None if label == str(ids[node]) else label for node, label in unique.items()}


def _place(node: Hashable, data: Mapping[str, Any]) -> tuple[float | None, float | None]:
    for x, y in _PLACES:
        if data.get(x) is not None and data.get(y) is not None:
            return _number(f"node {node!r}", data, x), _number(f"node {node!r}", data, y)
    return None, None


def _link(u: int, v: int, data: Mapping[str, Any], where: str, keep_properties: bool) -> LinkSpec:
    """The link of an edge; of properties that are to be left out, a text that is no number is none."""
    key = next((key for key in _COSTS if data.get(key) is not None), None)
    cost = 1 if key is None else max(1, math.floor(_number(where, data, key) + 0.5))
    found: dict[str, float] = {}
    for key in EDGE_PROPERTIES:
        if data.get(key) is not None:
            with nullcontext() if keep_properties else suppress(TopologyError):
                found[key] = _number(where, data, key)
    speed = found.pop(_ZOO_SPEED, None)
    if speed:
        found.setdefault("bandwidth_mbps", speed / 1e6)
    return LinkSpec(u, v, cost, **found)


def _number(where: str, data: Mapping[str, Any], key: str) -> float:
    try:
        value = float(data[key])
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise TopologyError(f"{where}: {key} is {data[key]!r}; expected a number")
    return value


def _attributes(link: Link) -> dict[str, float]:
    """The cost and the properties that a link has."""
    given = {name: getattr(link, name) for name in PROPERTIES}
    return {"cost": link.cost} | {name: value for name, value in given.items() if value is not None}


def to_graphml(topology: Topology) -> Iterator[str]:
    """The lines of a GraphML file, which `topos.loaders.load` reads with names, places, costs and properties.

    Links get the order of nodes: equal-cost paths may differ from those of the topology.
    """
    graph = nx.Graph(name=topology.name)
    for node in topology.nodes:
        given = {"name": node.name, "x": node.x, "y": node.y}
        graph.add_node(node.id, **{name: value for name, value in given.items() if value is not None})
    graph.add_edges_from((link.u, link.v, _attributes(link)) for link in topology.links)
    yield from nx.generate_graphml(graph)


def to_dot(topology: Topology) -> Iterator[str]:
    """The lines of a file of Graphviz; `neato` draws nodes at their places, in inches (`-sN`: N an inch)."""
    yield f"graph {_quoted(topology.name)} {{"
    for node in topology.nodes:
        place = "" if node.x is None or node.y is None else f' pos="{node.x:g},{node.y:g}!"'
        yield f"  {node.id} [label={_quoted(topology.label(node.id))}{place}];"
    for link in topology.links:
        yield f"  {link.u} -- {link.v} [label={_quoted(_words(link))}];"
    yield "}"


def to_mermaid(topology: Topology) -> Iterator[str]:
    """The lines of a diagram that Markdown shows between ```` ```mermaid ```` and ```` ``` ````."""
    yield "graph LR"
    for node in topology.nodes:
        name = topology.label(node.id).replace("#", "#35;").replace('"', "#quot;")
        yield f'  n{node.id}["{name}"]'
    for link in topology.links:
        label = f'|"{_words(link)}"|' if _words(link) else ""
        yield f"  n{link.u} ---{label} n{link.v}"


def _words(link: Link) -> str:
    """The properties of a link, and its cost unless it is 1."""
    return ", ".join(
        f"{name} {value:g}" for name, value in _attributes(link).items() if (name, value) != ("cost", 1)
    )


def _quoted(text: str) -> str:
    return '"{}"'.format(text.replace("\\", "\\\\").replace('"', '\\"'))


#: Form of a text -> the function that writes its lines.
WRITERS: dict[str, Callable[[Topology], Iterator[str]]] = {
    "graphml": to_graphml,
    "dot": to_dot,
    "mermaid": to_mermaid,
}
