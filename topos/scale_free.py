"""Random graphs whose degrees follow a power law: grown by preferential attachment, or of drawn degrees.

Standard library only: plain Mininet (the system's Python) loads it through `mn --custom`.
The arguments determine the graph on every Python and platform: drawing uses integers only.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from decimal import Decimal, localcontext
from itertools import accumulate
from random import Random

from topos import Topology, TopologyError
from topos.build import LinkSpec, build, check_count, distinct_points, link_cost, placed

#: Weights of degrees are integers in units of 1 / _WEIGHT_UNIT.
_WEIGHT_UNIT = 10**15


def barabasi_albert(
    n: int, seed: int = 1, links_per_node: int = 2, plane: int = 1000, cost: str = "distance"
) -> Topology:
    """A random graph grown by preferential attachment.

    Nodes are put at random on distinct points of a `plane` x `plane` square. Each joins in turn with
    `links_per_node` links to different nodes that have joined (to all of them if they are fewer), drawn with
    probability proportional to their numbers of links. The graph is connected and has
    n * links_per_node - links_per_node * (links_per_node + 1) / 2 links if n is larger than links_per_node.

    Args:
        n: nodes, >= 1.
        seed: of the pseudo-random generator.
        links_per_node: links that each node brings, >= 1.
        plane: side of the square, >= 1.
        cost: "distance" (Euclidean, rounded, at least 1) or "unit" (1).

    Source: A.-L. Barabasi, R. Albert, "Emergence of scaling in random networks", Science 286, 1999; BRITE's
    model RTBarabasi.
    """
    check_count("nodes", n, 1)
    check_count("links_per_node", links_per_node, 1)
    random = seeded(seed, n, plane, cost)
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

    Args:
        n: nodes, >= 1.
        seed: of the pseudo-random generator.
        exponent: of the power law, above 1; routers of the Internet: about 2.2.
        least_degree: >= 1.
        plane, cost: as for `barabasi_albert`.

    Source: M. Faloutsos, P. Faloutsos, C. Faloutsos, "On power-law relationships of the Internet topology",
    SIGCOMM 1999; tree first: C. Jin, Q. Chen, S. Jamin, "Inet: Internet topology generator", 2000.
    """
    check_count("nodes", n, 1)
    check_count("least_degree", least_degree, 1)
    if not 1 < exponent < math.inf:
        raise TopologyError(f"exponent is {exponent}; expected a number above 1")
    random = seeded(seed, n, plane, cost)
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
        weights = [max(1, int(Decimal(k) ** -Decimal(exponent) * _WEIGHT_UNIT)) for k in degrees]
    totals = list(accumulate(weights))
    return [degrees[bisect_right(totals, random.randrange(totals[-1]))] for _ in range(n)]


def seeded(seed: int, n: int, plane: int, cost: str) -> Random:
    """The generator of a seed, once the arguments that all graphs on the plane have are checked.

    Raises:
        TopologyError: the seed is no whole number from 0 up, `n` distinct points do not fit on a `plane` x
            `plane` square, or `link_cost` does not know the way in which links cost.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise TopologyError(f"seed is {seed!r}; expected an integer, 0 or more")
    if isinstance(plane, bool) or not isinstance(plane, int) or plane < 1:
        raise TopologyError(f"plane is {plane!r}; expected a whole number from 1 up")
    if n > plane * plane:
        raise TopologyError(f"{n} nodes do not fit on distinct points of a {plane} x {plane} plane")
    if cost not in ("distance", "unit"):
        raise TopologyError(f"cost is {cost!r}; expected 'distance' or 'unit'")
    return Random(seed)


def planar(
    name: str, points: Sequence[tuple[int, int]], links: Sequence[tuple[int, int]], cost: str
) -> Topology:
    """The topology of nodes at points of the plane; `cost` is that of `link_cost`."""
    nodes = [placed(number, x, y) for number, (x, y) in enumerate(points)]
    return build(name, nodes, [LinkSpec(u, v, link_cost(points[u], points[v], cost)) for u, v in links])
