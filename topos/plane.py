"""Points of the plane, and the checks that generators share.

Standard library only: plain Mininet (the system's Python) loads it through `mn --custom`.
"""

from __future__ import annotations

import math
from random import Random

from topos.model import Node, TopologyError

#: So many nodes can be asked for; a slip such as tree(10, 10) must not fill the memory.
MAX_NODES = 100_000


def distinct_points(random: Random, count: int, plane: int) -> list[tuple[int, int]]:
    """Draws `count` distinct points of a `plane` x `plane` square."""
    points: dict[tuple[int, int], None] = {}
    while len(points) < count:
        points[random.randrange(plane), random.randrange(plane)] = None
    return list(points)


def distance(a: tuple[int, int], b: tuple[int, int]) -> int:
    """Euclidean distance, rounded half up, in integers only."""
    squared = (a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2
    return (math.isqrt(4 * squared) + 1) // 2


def placed(identifier: int, x: float, y: float) -> Node:
    """The node at a place."""
    # Rounded, so that a drawing does not depend on the last bit of the platform's sine; + 0.0: no -0.0.
    return Node(identifier, round(float(x), 3) + 0.0, round(float(y), 3) + 0.0)


def check_count(what: str, value: int, minimum: int) -> None:
    """Raises TopologyError unless the value is a whole number from `minimum` up to `MAX_NODES`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise TopologyError(f"{what} is {value!r}; expected a whole number from {minimum} up")
    check_size(value)


def check_size(nodes: int) -> None:
    """Raises TopologyError if there would be more than `MAX_NODES` nodes."""
    if nodes > MAX_NODES:
        raise TopologyError(f"that would be more than {MAX_NODES} nodes; expected fewer")


def check_seed(seed: int) -> None:
    """Raises TopologyError unless the seed is a whole number from 0 up."""
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise TopologyError(f"seed is {seed!r}; expected an integer, 0 or more")


def check_plane(plane: int, nodes: int) -> None:
    """Raises TopologyError unless `nodes` distinct points fit on a `plane` x `plane` square."""
    if isinstance(plane, bool) or not isinstance(plane, int) or plane < 1:
        raise TopologyError(f"plane is {plane!r}; expected a whole number from 1 up")
    if nodes > plane * plane:
        raise TopologyError(f"{nodes} nodes do not fit on distinct points of a {plane} x {plane} plane")


def check_cost(cost: str) -> None:
    """Raises TopologyError unless `link_cost` knows the way in which links cost."""
    if cost not in ("distance", "unit"):
        raise TopologyError(f"cost is {cost!r}; expected 'distance' or 'unit'")


def link_cost(a: tuple[int, int], b: tuple[int, int], cost: str) -> int:
    """The cost of a link between two points: "distance" (Euclidean, rounded, at least 1) or "unit" (1)."""
    return max(1, distance(a, b)) if cost == "distance" else 1
