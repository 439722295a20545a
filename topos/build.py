"""Building a valid topology, from checked nodes and links, and points of the plane.

Standard library only: plain Mininet (the system's Python) loads it through `mn --custom`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from random import Random

from router.options import check
from topos import Link, LinkSpec, Node, Topology, TopologyError

#: So many nodes can be asked for; a slip such as tree(10, 10) must not fill the memory.
MAX_NODES = 100_000


def distinct_points(random: Random, count: int, plane: int) -> list[tuple[int, int]]:
    """Draws `count` distinct points of a `plane` x `plane` square.

    Raises:
        TopologyError: they do not fit.
    """
    if count > plane * plane:
        raise TopologyError(f"{count} nodes do not fit on distinct points of a {plane} x {plane} plane")
    points: dict[tuple[int, int], None] = {}
    while len(points) < count:
        points[random.randrange(plane), random.randrange(plane)] = None
    return list(points)


def distance(a: tuple[int, int], b: tuple[int, int]) -> int:
    """Euclidean distance, rounded half up, in integers only."""
    squared = (a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2
    return (math.isqrt(4 * squared) + 1) // 2


def placed(identifier: int, x: float, y: float) -> Node:
    # Rounded, so that a drawing does not depend on the last bit of the platform's sine; + 0.0: no -0.0.
    return Node(identifier, round(float(x), 3) + 0.0, round(float(y), 3) + 0.0)


def check_size(nodes: int) -> None:
    """Raises TopologyError if there would be more than `MAX_NODES` nodes."""
    if nodes > MAX_NODES:
        raise TopologyError(f"that would be more than {MAX_NODES} nodes; expected fewer")


#: A topology may have so many links; the number of its nodes is bounded by `MAX_NODES`.
MAX_LINKS = 1_000_000
#: Greatest sum of the costs of all links, and so of the cost of any path. The sum of a path and a further
#: link (`testbed.controller.paths`) fit in a signed integer of 64 bits.
MAX_TOTAL_COST = 2**62 - 1
#: So many unreachable nodes are named in an error; the rest are counted.
_NAMED_AT_MOST = 10


#: Notes of loaders: on properties that they were not to take over, and on parallel links.
PROPERTIES_LEFT_OUT = (
    "bandwidths and delays of the file are left out; topology.keep_properties = true keeps them"
)
PARALLEL_LEFT_OUT = "{} parallel links are left out: of those between two nodes, {} is kept"


def build(
    name: str,
    nodes: Iterable[Node],
    links: Iterable[LinkSpec],
    *,
    where: Callable[[int], str] = "link {}".format,
    notes: Iterable[str] = (),
) -> Topology:
    """A topology of these nodes and links, with ports 1..k at each node in the order of `links`.

    Nodes may come in any order and are sorted by id. `where` says how an error names the link of an
    index (loaders give the line of the file); `notes` are those of `Topology`.

    Raises:
        TopologyError: there are more than `MAX_NODES` nodes or `MAX_LINKS` links, ids are not 0..n-1, two
            nodes have one name, a link is a self-loop, doubles another, names no node or has a property out
            of range, the costs add up to more than `MAX_TOTAL_COST`, or the graph is not connected.
    """
    given, specs = list(nodes), list(links)
    for found, most, things in ((len(given), MAX_NODES, "nodes"), (len(specs), MAX_LINKS, "links")):
        if found > most:
            raise TopologyError(f"{found} {things}; expected at most {most}")
    ordered = _check_nodes(given)
    _check_links(specs, len(ordered), where)
    _check_connected(specs, len(ordered))
    used: Counter[int] = Counter()
    built = []
    for index, spec in enumerate(specs):
        used[spec.u] += 1
        used[spec.v] += 1
        built.append(Link(**vars(spec), index=index, u_port=used[spec.u], v_port=used[spec.v]))
    return Topology(name, ordered, tuple(built), tuple(notes))


def _check_nodes(nodes: Iterable[Node]) -> tuple[Node, ...]:
    ordered = tuple(sorted(nodes, key=lambda node: node.id))
    if not ordered:
        raise TopologyError("no nodes; expected at least one")
    for expected, node in enumerate(ordered):
        if node.id == expected:
            continue
        if expected and node.id == ordered[expected - 1].id:
            raise TopologyError(f"node {node.id} is declared twice")
        raise TopologyError(
            f"node ids are not 0 to {len(ordered) - 1}: {expected} is missing, {node.id} comes instead"
        )
    check_names(ordered)
    return ordered


def number_of(name: str, nodes: int) -> int | None:
    """The node whose number a name is, of so many nodes; None: it is no number of a node."""
    number = int(name) if name.isascii() and name.isdigit() and len(name) <= 9 else nodes
    return number if number < nodes else None


def check_names(nodes: Sequence[Node]) -> None:
    """Checks that no two nodes have one name, and that no name is the number of another node.

    Raises:
        TopologyError: two nodes have one, or commands could mean two nodes by one.
    """
    named: dict[str, int] = {}
    for node in nodes:
        if node.name is not None and number_of(node.name, len(nodes)) not in (None, node.id):
            raise TopologyError(
                f"node {node.id} is named {node.name!r}, the number of another node; expected another name"
            )
        if node.name is not None and (other := named.setdefault(node.name, node.id)) != node.id:
            raise TopologyError(
                f"nodes {other} and {node.id} are both named {node.name!r}; expected two names"
            )


def _check_links(specs: Sequence[LinkSpec], node_count: int, where: Callable[[int], str]) -> None:
    seen: dict[tuple[int, int], int] = {}
    total_cost = 0
    for index, spec in enumerate(specs):
        label = f"{where(index)}: {spec.u}-{spec.v}"
        for end in (spec.u, spec.v):
            if not 0 <= end < node_count:
                raise TopologyError(f"{label}: there is no node {end}; expected 0 to {node_count - 1}")
        if spec.u == spec.v:
            raise TopologyError(f"{label}: joins a node to itself; expected two different nodes")
        pair = (min(spec.u, spec.v), max(spec.u, spec.v))
        if pair in seen:
            raise TopologyError(f"{label}: these nodes are joined already by {where(seen[pair])}")
        seen[pair] = index
        try:
            check(spec)
        except ValueError as error:
            raise TopologyError(f"{label}: {error}") from None
        if (problem := contradiction(spec)) is not None:
            raise TopologyError(f"{label}: {problem}")
        total_cost += spec.cost
        if total_cost > MAX_TOTAL_COST:
            raise TopologyError(
                f"{label}: with cost {spec.cost} the costs of all links add up to {total_cost} or more; "
                f"expected at most {MAX_TOTAL_COST}"
            )


def contradiction(link: LinkSpec) -> str | None:
    """Why the properties of a link contradict each other; None: they do not."""
    delay = link.delay_ms or 0.0
    if (link.jitter_ms or 0.0) > delay:
        return f"jitter_ms is {link.jitter_ms:g}; expected at most delay_ms, {delay:g}"
    if link.reorder_percent and not delay:
        return (
            f"reorder_percent is {link.reorder_percent:g}; expected 0 without delay_ms: nothing is overtaken"
        )
    return None


def _check_connected(specs: Iterable[LinkSpec], node_count: int) -> None:
    neighbours: list[list[int]] = [[] for _ in range(node_count)]
    for spec in specs:
        neighbours[spec.u].append(spec.v)
        neighbours[spec.v].append(spec.u)
    reached = {0}
    pending = [0]
    while pending:
        for neighbour in neighbours[pending.pop()]:
            if neighbour not in reached:
                reached.add(neighbour)
                pending.append(neighbour)
    if missing := [node for node in range(node_count) if node not in reached]:
        named = ", ".join(map(str, missing[:_NAMED_AT_MOST]))
        more = ", ..." if len(missing) > _NAMED_AT_MOST else ""
        raise TopologyError(f"not connected: {len(missing)} nodes have no path to node 0: {named}{more}")
