"""Exact values of alpha, and Monte Carlo estimates of the generic model.

In the generic model a predicate is a set of messages out of a finite universe, and its size is proportional
to the number of its messages: alpha is the size of the union over the sum of the sizes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def uniform(universe: int, size: int, predicates: int) -> float:
    """Returns E(alpha) of independent uniform subsets of `size` messages.

    A message is in none of them with probability (1 - h / |M|)^n. With h = 1 it is also alpha of conjunctions
    of one constraint each, drawn from `universe` kinds of which none covers another.
    """
    missed = (1 - size / universe) ** predicates
    return universe / (predicates * size) * (1 - missed)


def zipf_weights(universe: int) -> npt.NDArray[np.float64]:
    """Returns the probabilities of messages by rank, proportional to 1 / rank."""
    weights = 1.0 / np.arange(1, universe + 1)
    found: npt.NDArray[np.float64] = weights / weights.sum()
    return found


def weighted(weights: npt.NDArray[np.float64], size: int, predicates: int) -> float:
    """Returns E|P| / sum E|p_i| of predicates that are `size` draws of messages each, with replacement."""
    together = (1 - (1 - weights) ** (predicates * size)).sum()
    alone = (1 - (1 - weights) ** size).sum()
    return float(together / (predicates * alone))


def sample_uniform(universe: int, size: int, predicates: int, rng: np.random.Generator) -> float:
    """Returns alpha of one draw of uniform subsets.

    Subsets are drawn with replacement until no message is in one twice: `size` is small beside the universe.
    """
    drawn = rng.integers(0, universe, (predicates, size))
    while len(again := np.flatnonzero((np.diff(np.sort(drawn, axis=1), axis=1) == 0).any(axis=1))):
        drawn[again] = rng.integers(0, universe, (len(again), size))
    there = np.zeros(universe, np.bool_)
    there[drawn] = True
    return int(there.sum()) / (predicates * size)


def sample_weighted(
    weights: npt.NDArray[np.float64], size: int, predicates: int, rng: np.random.Generator
) -> tuple[int, int]:
    """Returns the size of the union, and the sum of the sizes, of one draw of weighted predicates."""
    ends = np.cumsum(weights)
    drawn = np.searchsorted(ends, rng.random((predicates, size)) * ends[-1], side="right")
    drawn = np.sort(np.minimum(drawn, len(weights) - 1), axis=1)
    alone = predicates + int((np.diff(drawn, axis=1) > 0).sum())
    return len(np.unique(drawn)), alone
