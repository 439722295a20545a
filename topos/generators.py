"""Generated topologies: regular shapes, and Waxman graphs as the protocol paper's evaluation uses.

Standard library only: plain Mininet (the system's Python) loads it through `mn --custom`.
Lengths on the plane have no unit. Every function raises `TopologyError` for a size it cannot make.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, localcontext
from itertools import accumulate
from typing import Any

from router.options import Declaration, Option, option, parameters_of
from router.registry import Registry
from topos import Node, Topology, TopologyError
from topos.build import LinkSpec, build, check_count, check_size, distance, distinct_points, placed
from topos.scale_free import barabasi_albert, planar, power_law, seeded

#: Weights of links are integers in units of 1 / _WEIGHT_UNIT, so that drawing needs no floating point.
_WEIGHT_UNIT = 10**12
#: Distance between neighbours where a regular shape is drawn.
_SPACING = 100


def line(n: int) -> Topology:
    """`n` nodes in a row, n >= 1."""
    check_count("nodes", n, 1)
    nodes = [placed(i, i * _SPACING, 0) for i in range(n)]
    return build(f"line-{n}", nodes, [LinkSpec(i, i + 1) for i in range(n - 1)])


def ring(n: int) -> Topology:
    """`n` nodes in a circle, n >= 3.

    With an even n, opposite nodes have two equal-cost paths.
    """
    check_count("nodes", n, 3)
    return build(f"ring-{n}", _circle(0, n), [LinkSpec(i, (i + 1) % n) for i in range(n)])


def star(n: int) -> Topology:
    """Node 0 joined to each of the other n - 1, n >= 1."""
    check_count("nodes", n, 1)
    nodes = [placed(0, 0, 0), *_circle(1, n - 1)]
    return build(f"star-{n}", nodes, [LinkSpec(0, leaf) for leaf in range(1, n)])


def grid(rows: int, columns: int) -> Topology:
    """A rectangular grid, both >= 1; node r * columns + c stands in row r and column c."""
    check_count("rows", rows, 1)
    check_count("columns", columns, 1)
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


def tree(depth: int, fanout: int) -> Topology:
    """A complete tree: root 0, `depth` >= 0 levels of links, `fanout` >= 1 children; level by level."""
    check_count("depth", depth, 0)
    check_count("fanout", fanout, 1)
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

    The same arguments give the same graph on every Python and platform: drawing uses integers only.

    Args:
        n: nodes, >= 1.
        seed: of the pseudo-random generator.
        alpha, beta: the model's parameters, above 0 and at most 1.
        links_per_node: links that each node brings, >= 1.
        plane: side of the square, >= 1.
        cost: "distance" (Euclidean, rounded, at least 1) or "unit" (1).

    Source: B. M. Waxman, "Routing of multipoint connections", IEEE JSAC 6(9), 1988; A. Medina et al.,
    "BRITE: An approach to universal topology generation", MASCOTS 2001; protocol paper, section 4.1.
    """
    check_count("nodes", n, 1)
    check_count("links_per_node", links_per_node, 1)
    for parameter, value in (("alpha", alpha), ("beta", beta)):
        if not 0 < value <= 1:
            raise TopologyError(f"{parameter} is {value}; expected a number above 0 and at most 1")
    random = seeded(seed, n, plane, cost)
    points = distinct_points(random, n, plane)
    weight_of = _Weights(alpha, beta, plane)
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


class _Weights:
    """round(alpha * exp(-d / (beta * L)) * _WEIGHT_UNIT), at least 1, for whole distances d.

    `Decimal.exp` is correctly rounded everywhere; `math.exp` depends on the platform's C library.

    Args:
        plane: side of the square, L its diagonal.
    """

    def __init__(self, alpha: float, beta: float, plane: int) -> None:
        self._factor = Decimal(alpha) * _WEIGHT_UNIT
        with localcontext() as context:
            context.prec = 28
            self._scale = Decimal(beta) * Decimal(2 * plane * plane).sqrt()
        self._known: dict[int, int] = {}

    def __call__(self, distance: int) -> int:
        weight = self._known.get(distance)
        if weight is None:
            with localcontext() as context:
                context.prec = 28
                exact = self._factor * (-distance / self._scale).exp()
            weight = self._known[distance] = max(1, int(exact.to_integral_value()))
        return weight


def _circle(first: int, count: int) -> list[Node]:
    radius = max(_SPACING, _SPACING * count / math.tau)
    turns = [math.tau * i / count for i in range(count)]
    return [placed(first + i, radius * math.cos(a), radius * math.sin(a)) for i, a in enumerate(turns)]


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


def register(make: Callable[..., Topology], doc: str, **parameters: Declaration) -> None:
    """Adds a generator under the name of its function.

    Args:
        doc: one sentence about its topologies.
        parameters: what `router.options.option` declares of each of its parameters.
    """
    GENERATORS.register(make.__name__, Generator(make, parameters_of(make, parameters)), doc)


_NODES = "Number of nodes: one router and one switch each."
register(line, "Nodes in a row.", n=option(_NODES, key="nodes", low=1))
register(ring, "Nodes in a circle.", n=option(_NODES, key="nodes", low=3))
register(star, "Node 0 joined to all others.", n=option(_NODES, key="nodes", low=1))
register(
    grid,
    "A rectangular grid.",
    rows=option("Rows of nodes.", low=1),
    columns=option("Nodes of a row.", low=1),
)
register(
    tree,
    "A complete tree.",
    depth=option("Levels below the root.", low=0),
    fanout=option("Children of a node.", low=1),
)
_PLANAR = {
    "plane": option("Side of the square in which the nodes are placed.", low=1, high=10**9),
    "cost": option(
        "Cost of a link, which broadcast trees minimise: its length on the plane, or 1.",
        choices=("distance", "unit"),
    ),
}
_SEED = option("Seed of the topology; default: that of the experiment.", low=0)
_LINKS = option("Links that each node brings.", low=1)
register(
    waxman,
    "A random graph after Waxman, grown as BRITE grows it.",
    n=option(_NODES, key="nodes", low=1),
    seed=_SEED,
    alpha=option("Waxman's alpha, as in BRITE; it cancels out.", low=0, high=1, above_low=True),
    beta=option("Waxman's beta, as in BRITE.", low=0, high=1, above_low=True),
    links_per_node=_LINKS,
    **_PLANAR,
)
register(
    barabasi_albert,
    "A random graph grown by preferential attachment.",
    n=option(_NODES, key="nodes", low=1),
    seed=_SEED,
    links_per_node=_LINKS,
    **_PLANAR,
)
register(
    power_law,
    "A random connected graph whose degrees follow a power law.",
    n=option(_NODES, key="nodes", low=1),
    seed=_SEED,
    exponent=option("Exponent of the power law.", low=1, above_low=True),
    least_degree=option("Least degree of a node.", low=1),
    **_PLANAR,
)
