"""The links of a growing Waxman graph: their weights, and the draws.

Needs no NumPy: plain Mininet (the system's Python) loads it through `mn --custom`.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, localcontext
from importlib.util import find_spec
from itertools import accumulate
from random import Random
from typing import TYPE_CHECKING, Protocol

from topos.build import distance

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

#: Weights are integers in units of 1 / _WEIGHT_UNIT, so that drawing needs no floating point.
_WEIGHT_UNIT = 10**12
#: For fewer nodes, plain Python takes less time than loading NumPy.
_WORTH_ARRAYS = 1000
#: On a larger plane, the weights of all distances take more memory than the nodes. The square root of four
#: times a squared distance is exact in floating point up to a plane of 2 ** 24.
_PLANE_MAX = 1 << 18


class Weights:
    """round(alpha * exp(-d / (beta * L)) * _WEIGHT_UNIT), at least 1, for whole distances d.

    `Decimal.exp` is correctly rounded everywhere; `math.exp` depends on the platform's C library.

    Args:
        alpha, beta: the model's parameters.
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


class Growth(Protocol):
    """Draws the links of a growing Waxman graph.

    Attributes:
        links: the pairs of nodes, in the order in which they were drawn.
    """

    links: list[tuple[int, int]]

    def join(self, node: int, others: int, count: int) -> None:
        """Links `node` to `count` of the first `others` nodes that it has no link to (to all if fewer)."""


class PlainGrowth:
    """`Growth` that considers one pair of nodes after another."""

    def __init__(self, random: Random, points: Sequence[tuple[int, int]], weights: Weights) -> None:
        self._random = random
        self._points = points
        self._weights = weights
        self._neighbours: list[set[int]] = [set() for _ in points]
        self.links: list[tuple[int, int]] = []

    def join(self, node: int, others: int, count: int) -> None:
        here = self._points[node]
        taken = self._neighbours[node]
        candidates = [other for other in range(others) if other != node and other not in taken]
        weights = [self._weights(distance(here, self._points[other])) for other in candidates]
        for _ in range(min(count, len(candidates))):
            drawn = self._random.randrange(sum(weights))
            chosen = next(i for i, total in enumerate(accumulate(weights)) if drawn < total)
            other = candidates.pop(chosen)
            del weights[chosen]
            self.links.append((node, other))
            self._neighbours[node].add(other)
            self._neighbours[other].add(node)


class ArrayGrowth:
    """`Growth` by NumPy, with the same draws and links as `PlainGrowth`."""

    def __init__(self, random: Random, points: Sequence[tuple[int, int]], weights: Weights) -> None:
        import numpy as np

        self._random = random
        self._points = np.array(points, np.int64)
        self._weights = weights
        #: By distance; 0: not computed yet.
        self._known = np.zeros(0, np.int64)
        self._neighbours: list[set[int]] = [set() for _ in points]
        self.links: list[tuple[int, int]] = []

    def join(self, node: int, others: int, count: int) -> None:
        if not others:
            return
        taken = self._neighbours[node]
        weights = self._weights_from(node, others)
        # A node without weight is not drawn.
        weights[[other for other in (node, *taken) if other < others]] = 0
        totals = weights.cumsum()
        while count and (total := int(totals[-1])):
            count -= 1
            drawn = self._random.randrange(total)
            other = int(totals.searchsorted(drawn, side="right"))
            totals[other:] -= weights[other]
            weights[other] = 0
            self.links.append((node, other))
            taken.add(other)
            self._neighbours[other].add(node)

    def _weights_from(self, node: int, others: int) -> npt.NDArray[np.int64]:
        import numpy as np

        away = self._points[:others] - self._points[node]
        # As `topos.build.distance`.
        distances = (np.sqrt(4 * (away * away).sum(axis=1)).astype(np.int64) + 1) // 2
        most = int(distances.max())
        if most >= len(self._known):
            self._known = np.concatenate([self._known, np.zeros(most + 1 - len(self._known), np.int64)])
        found: npt.NDArray[np.int64] = self._known[distances]
        if not found.all():
            for each in np.unique(distances[found == 0]).tolist():
                self._known[each] = self._weights(each)
            found = self._known[distances]
        return found


def growth_of(random: Random, points: Sequence[tuple[int, int]], weights: Weights, plane: int) -> Growth:
    """Returns the links of a graph, without any yet, for nodes at points of a `plane` x `plane` square."""
    large = len(points) >= _WORTH_ARRAYS and plane <= _PLANE_MAX
    return (ArrayGrowth if large and find_spec("numpy") is not None else PlainGrowth)(random, points, weights)
