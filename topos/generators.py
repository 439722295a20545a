"""Generated topologies: regular shapes, and random graphs, such as those of the protocol paper's evaluation.

Standard library only: plain Mininet (the system's Python) loads it through `mn --custom`.
Lengths on the plane have no unit. `register` declares what each parameter is. Every function raises
`TopologyError` for a size it cannot make, and for a value that its declaration excludes. The arguments
determine a random graph on every Python and platform: drawing uses integers only.
"""

from __future__ import annotations

import inspect
import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cache, wraps
from itertools import accumulate
from random import Random
from typing import Any, TypeVar, cast

from router.options import Declaration, Option, option, parameters_of
from router.registry import Registry
from topos import LinkSpec, Node, Topology, checked
from topos.build import MAX_NODES, build, check_size, distance, distinct_points, placed

#: Weights of links are integers in units of 1 / _WEIGHT_UNIT, so that drawing needs no floating point.
_WEIGHT_UNIT = 10**12
#: Weights of degrees likewise.
_DEGREE_UNIT = 10**15
#: Distance between neighbours where a regular shape is drawn.
_SPACING = 100


_Make = TypeVar("_Make", bound=Callable[..., Topology])


@dataclass(frozen=True)
class Generator:
    """A generator as experiment files and command lines name it.

    Attributes:
        make: the function.
        parameters: its parameters as options, by name, in the order of the short form `NAME,VALUE,...`.
    """

    make: Callable[..., Topology]
    parameters: Mapping[str, Option]

    @property
    def options(self) -> tuple[Option, ...]:
        return tuple(self.parameters.values())

    def generate(self, values: Mapping[str, Any]) -> Topology:
        """Makes the topology of the values of options, by key.

        Raises:
            TopologyError: no topology can be made of them.
        """
        given = {name: values[each.key] for name, each in self.parameters.items() if each.key in values}
        return self.make(**given)


#: Generators by the name that experiment files give.
GENERATORS = Registry[Generator]("generator", "cbcb.generators")


def register(**parameters: Declaration) -> Callable[[_Make], _Make]:
    """Returns a decorator that adds a generator under the name of its function, and checks its arguments.

    The first sentence of the function's documentation is about its topologies.

    Args:
        parameters: what `router.options.option` declares of each of its parameters.
    """

    def add(make: _Make) -> _Make:
        declared, signature = parameters_of(make, parameters), inspect.signature(make)

        @wraps(make)
        def make_checked(*arguments: Any, **named: Any) -> Topology:
            values = signature.bind(*arguments, **named).arguments
            for name, value in values.items():
                values[name] = checked("", declared[name], value)
            return make(**values)

        doc = inspect.getdoc(make) or ""
        GENERATORS.register(make.__name__, Generator(make_checked, declared), doc.partition("\n")[0])
        return cast("_Make", make_checked)

    return add


_NODES = "Number of nodes: one router and one switch each."
_SOME = option(_NODES, key="nodes", low=1, high=MAX_NODES)
_PLANAR = {
    "plane": option("Side of the square in which the nodes are placed.", low=1, high=10**9),
    "cost": option(
        "Cost of a link, which broadcast trees minimise: its length on the plane, or 1.",
        choices=("distance", "unit"),
    ),
}
_SEED = option("Seed of the topology; default: that of the experiment.", low=0)
_LINKS = option("Links that each node brings.", low=1)


@register(n=_SOME)
def line(n: int) -> Topology:
    """Nodes in a row."""
    nodes = [placed(i, i * _SPACING, 0) for i in range(n)]
    return build(f"line-{n}", nodes, [LinkSpec(i, i + 1) for i in range(n - 1)])


@register(n=option(_NODES, key="nodes", low=3, high=MAX_NODES))
def ring(n: int) -> Topology:
    """Nodes in a circle.

    With an even n, opposite nodes have two equal-cost paths.
    """
    return build(f"ring-{n}", _circle(0, n), [LinkSpec(i, (i + 1) % n) for i in range(n)])


@register(n=_SOME)
def star(n: int) -> Topology:
    """Node 0 joined to all others."""
    nodes = [placed(0, 0, 0), *_circle(1, n - 1)]
    return build(f"star-{n}", nodes, [LinkSpec(0, leaf) for leaf in range(1, n)])


@register(rows=option("Rows of nodes.", low=1), columns=option("Nodes of a row.", low=1))
def grid(rows: int, columns: int) -> Topology:
    """A rectangular grid; node r * columns + c stands in row r and column c."""
    check_size(rows * columns)
    nodes = []
    links = []
    for row in range(rows):
        for column in range(columns):
            here = row * columns + column
            nodes.append(placed(here, column * _SPACING, row * _SPACING))
            if column + 1 < columns:
                links.append(LinkSpec(here, here + 1))
            if row + 1 < rows:
                links.append(LinkSpec(here, here + columns))
    return build(f"grid-{rows}x{columns}", nodes, links)


@register(depth=option("Levels below the root.", low=0), fanout=option("Children of a node.", low=1))
def tree(depth: int, fanout: int) -> Topology:
    """A complete tree, numbered level by level from root 0 on."""
    total = 0
    for level in range(depth + 1):
        total += fanout**level
        check_size(total)
    width = fanout**depth * _SPACING
    nodes: list[Node] = []
    links = []
    for level in range(depth + 1):
        size = fanout**level
        for position in range(size):
            node = len(nodes)
            nodes.append(placed(node, width * (2 * position + 1) / (2 * size), level * _SPACING))
            if node:
                links.append(LinkSpec((node - 1) // fanout, node))
    return build(f"tree-{depth}x{fanout}", nodes, links)


def _circle(first: int, count: int) -> list[Node]:
    radius = max(_SPACING, _SPACING * count / math.tau)
    turns = [math.tau * i / count for i in range(count)]
    return [placed(first + i, radius * math.cos(a), radius * math.sin(a)) for i, a in enumerate(turns)]


@register(
    n=_SOME,
    seed=_SEED,
    alpha=option("Waxman's alpha, as in BRITE; it cancels out.", low=0, high=1, above_low=True),
    beta=option("Waxman's beta, as in BRITE.", low=0, high=1, above_low=True),
    links_per_node=_LINKS,
    **_PLANAR,
)
def waxman(
    n: int,
    seed: int = 1,
    alpha: float = 0.15,
    beta: float = 0.2,
    links_per_node: int = 2,
    plane: int = 1000,
    cost: str = "distance",
) -> Topology:
    """A random graph after Waxman, grown as BRITE's router-level model grows it.

    Nodes are put at random on distinct points of a `plane` x `plane` square. Each joins in turn with
    `links_per_node` links to nodes that have joined, drawn with probability proportional to
    alpha * exp(-d / (beta * L)); d is the distance (rounded), L the diagonal of the square. The first
    `links_per_node` nodes have nobody to join; they choose among all nodes at the end. So the graph is
    connected and has n * links_per_node links, unless a small graph leaves the first nodes fewer nodes
    than that to choose from. Since the choice is normalised, `alpha` cancels out (in BRITE too); it is
    here because it is the model's parameter.

    Source: B. M. Waxman, "Routing of multipoint connections", IEEE JSAC 6(9), 1988; A. Medina et al.,
    "BRITE: An approach to universal topology generation", MASCOTS 2001; protocol paper, section 4.1.
    """
    random = Random(seed)
    points = distinct_points(random, n, plane)
    weight_of = _weights(alpha, beta, plane)
    neighbours: list[set[int]] = [set() for _ in points]
    links: list[tuple[int, int]] = []
    first = min(links_per_node, n - 1)
    for node, others in (*((node, node) for node in range(first, n)), *((node, n) for node in range(first))):
        candidates = [other for other in range(others) if other != node and other not in neighbours[node]]
        weights = [weight_of(distance(points[node], points[other])) for other in candidates]
        for _ in range(min(links_per_node, len(candidates))):
            totals = list(accumulate(weights))
            chosen = bisect_right(totals, random.randrange(totals[-1]))
            weights.pop(chosen)
            other = candidates.pop(chosen)
            links.append((node, other))
            neighbours[node].add(other)
            neighbours[other].add(node)
    return planar(f"waxman-{n}-seed-{seed}", points, links, cost)


def _weights(alpha: float, beta: float, plane: int) -> Callable[[int], int]:
    """round(alpha * exp(-d / (beta * L)) * _WEIGHT_UNIT), at least 1, of whole distances d.

    `Decimal.exp` is correctly rounded everywhere; `math.exp` depends on the platform's C library.

    Args:
        plane: side of the square, L its diagonal.
    """
    factor = Decimal(alpha) * _WEIGHT_UNIT
    with localcontext() as context:
        context.prec = 28
        scale = Decimal(beta) * Decimal(2 * plane * plane).sqrt()

    @cache
    def weight_of(distance: int) -> int:
        with localcontext() as context:
            context.prec = 28
            exact = factor * (-distance / scale).exp()
        return max(1, int(exact.to_integral_value()))

    return weight_of


@register(n=_SOME, seed=_SEED, links_per_node=_LINKS, **_PLANAR)
def barabasi_albert(
    n: int, seed: int = 1, links_per_node: int = 2, plane: int = 1000, cost: str = "distance"
) -> Topology:
    """A random graph grown by preferential attachment.

    Nodes are put at random on distinct points of a `plane` x `plane` square. Each joins in turn with
    `links_per_node` links to different nodes that have joined (to all of them if they are fewer), drawn with
    probability proportional to their numbers of links. The graph is connected and has
    n * links_per_node - links_per_node * (links_per_node + 1) / 2 links if n is larger than links_per_node.

    Source: A.-L. Barabasi, R. Albert, "Emergence of scaling in random networks", Science 286, 1999; BRITE's
    model RTBarabasi.
    """
    random = Random(seed)
    points = distinct_points(random, n, plane)
    links: list[tuple[int, int]] = []
    #: Each node as often as it has links.
    ends: list[int] = []
    for node in range(1, n):
        chosen: dict[int, None] = {}
        if node <= links_per_node:
            chosen = dict.fromkeys(range(node))
        while len(chosen) < min(links_per_node, node):
            chosen[ends[random.randrange(len(ends))]] = None
        for other in chosen:
            links.append((node, other))
            ends += (node, other)
    return planar(f"barabasi-albert-{n}-seed-{seed}", points, links, cost)


@register(
    n=_SOME,
    seed=_SEED,
    exponent=option("Exponent of the power law; routers of the Internet: about 2.2.", low=1, above_low=True),
    least_degree=option("Least degree of a node.", low=1),
    **_PLANAR,
)
def power_law(
    n: int,
    seed: int = 1,
    exponent: float = 2.2,
    least_degree: int = 2,
    plane: int = 1000,
    cost: str = "distance",
) -> Topology:
    """A random connected graph whose degrees are drawn from a power law.

    A node has degree k >= `least_degree` with probability proportional to k ** -exponent, at most
    2 * sqrt(n). A random tree within these degrees comes first, the nodes of largest degree before the
    others; the ends that are left over are joined at random. Pairs that would join a node to itself, or two
    nodes a second time, are dropped, so that some degrees are smaller than drawn. With `least_degree` 1 the
    tree may need more ends than were drawn; then a node joins a node in proportion to its degree.

    Source: M. Faloutsos, P. Faloutsos, C. Faloutsos, "On power-law relationships of the Internet topology",
    SIGCOMM 1999; tree first: C. Jin, Q. Chen, S. Jamin, "Inet: Internet topology generator", 2000.
    """
    random = Random(seed)
    points = distinct_points(random, n, plane)
    free = _degrees(random, n, exponent, least_degree)
    order = sorted(range(n), key=lambda node: -free[node])
    links: dict[tuple[int, int], None] = {}
    #: Each joined node as often as it has free ends, and as it had ends at first.
    open_ends: list[int] = []
    all_ends: list[int] = []
    for position, node in enumerate(order):
        all_ends += [node] * free[node]
        if position:
            if open_ends:
                at = random.randrange(len(open_ends))
                open_ends[at], open_ends[-1] = open_ends[-1], open_ends[at]
                other = open_ends.pop()
            else:
                other = all_ends[random.randrange(len(all_ends) - free[node])]
            links[node, other] = None
        open_ends += [node] * (free[node] - (position > 0))
    random.shuffle(open_ends)
    for u, v in zip(open_ends[::2], open_ends[1::2], strict=False):
        if u != v and (u, v) not in links and (v, u) not in links:
            links[u, v] = None
    return planar(f"power-law-{n}-seed-{seed}", points, list(links), cost)


def _degrees(random: Random, n: int, exponent: float, least: int) -> list[int]:
    degrees = range(least, max(least, min(n - 1, math.isqrt(4 * n))) + 1)
    with localcontext() as context:
        context.prec = 28
        # `Decimal` rounds correctly everywhere; `math.pow` depends on the platform's C library.
        weights = [max(1, int(Decimal(k) ** -Decimal(exponent) * _DEGREE_UNIT)) for k in degrees]
    totals = list(accumulate(weights))
    return [degrees[bisect_right(totals, random.randrange(totals[-1]))] for _ in range(n)]


def planar(
    name: str, points: Sequence[tuple[int, int]], links: Sequence[tuple[int, int]], cost: str
) -> Topology:
    """The topology of nodes at points of the plane; cost "distance": of a link at least 1, "unit": 1."""
    nodes = [placed(number, x, y) for number, (x, y) in enumerate(points)]
    specs = [
        LinkSpec(u, v, max(1, distance(points[u], points[v])) if cost == "distance" else 1) for u, v in links
    ]
    return build(name, nodes, specs)
