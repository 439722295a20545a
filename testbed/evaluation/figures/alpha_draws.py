"""The measurements of alpha: the draws of each model, the curves of the DNF model, the tables of routers.

What routers hold are entries of the routing tables of a simulated run. An entry is the disjunction of the
predicates of k receivers. Its alpha is its number of filters over that of the k predicates, each simplified
alone. The curve beside it is alpha(k) of receivers drawn at random.
"""

from __future__ import annotations

import math
import random
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from captures.rundir.routing_tables import ROUTING_TABLES, by_predicate
from router.predicates import Operator
from router.predicates.covering.algebra import PredicateBuilder
from testbed.controller.trees import LAYERS
from testbed.evaluation.figures.alpha_conjunctions import Conjunctions, alphas, draw, merged
from testbed.evaluation.figures.scheme_memory import local_predicates, measured_alpha, receivers_below
from testbed.evaluation.figures.steady import simulated

GRID = [scale * 10**power for power in range(1, 7) for scale in (1, 2, 5)][:-2]
#: Conjunctions that are drawn in all, at least: the variance is greatest at some thousand, and falls behind.
_DRAWN = 200_000
#: Disjoint parts are taken until the standard error of their mean is below this, and so many at least.
ERROR, _DRAWS = 0.005, 30
#: Conjunctions that are merged in all, and at once: a predicate of as many takes seconds.
MERGED = 10_000
MERGED_GRID = (10, 100, 1_000, MERGED)
UNITS = ("constraints", "bytes")
_OPERATORS = {"equal": Operator.EQ, "less": Operator.LT}


def measure(facts: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Returns the draws of a case with the exact value; of the DNF model the curves of `_dnf`."""
    model = facts["model"]
    if model == "tables":
        return measure_tables(facts, seed)
    rng = np.random.default_rng([seed, *str(sorted(facts.items())).encode()])
    if model == "dnf":
        return _dnf(facts, rng)
    return {"draws": list(_draws(facts, rng)), "exact": exact(facts, int(facts["n"]))}


def exact(facts: Mapping[str, Any], n: int) -> float:
    """Returns the exact value of alpha(n) of a case's model."""
    if facts["model"] == "zipf":
        return weighted(zipf_weights(facts["universe"]), facts["h"], n)
    if facts["model"] == "uniform":
        return uniform(facts["universe"], facts["h"], n)
    return uniform(facts["kinds"], 1, n)


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
) -> int:
    """Returns the size of the union of one draw of weighted predicates."""
    ends = np.cumsum(weights)
    drawn = np.searchsorted(ends, rng.random((predicates, size)) * ends[-1], side="right")
    return len(np.unique(np.minimum(drawn, len(weights) - 1)))


def _draws(facts: Mapping[str, Any], rng: np.random.Generator) -> Iterator[float]:
    n = int(facts["n"])
    times = 20 if n <= 1_000 else 4
    if facts["model"] == "integers":
        size, operators = facts["constraints"], {_OPERATORS[facts["operator"]]: 1}
        integers: dict[str, Any] = {"strings_percent": 0, "integer_operators": operators}
        for _ in range(20):
            drawn = draw(n, facts["names"], rng, low=size, high=size, **integers)
            yield alphas(drawn)["constraints"]
    elif facts["model"] == "uniform":
        for _ in range(times):
            yield sample_uniform(facts["universe"], facts["h"], n, rng)
    else:
        weights = zipf_weights(facts["universe"])
        alone = n * float((1 - (1 - weights) ** facts["h"]).sum())
        for _ in range(times):
            # E|P| over the expected sum: the ratio of expectations, as the formula.
            yield sample_weighted(weights, facts["h"], n, rng) / alone


def _dnf(facts: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Returns curves (k, alpha) by unit of M.

    Returns:
        constraints, bytes: conjunctions that another one covers are dropped; errors: (k, standard error of
        `constraints`), where it is known; merged_constraints, merged_bytes: routers' predicates, to `MERGED`
        conjunctions; undecided: (k, searches that were cut off in a predicate, the mean).
    """
    n = int(facts["n"])
    total = max(n, _DRAWN)
    fewest, most = facts["constraints"]
    drawn = draw(total, facts["names"], rng, zipf=facts["zipf"], low=fewest, high=most)
    found: dict[str, Any] = {"errors": [], "undecided": [], **{unit: [] for unit in UNITS}}
    found |= {f"merged_{unit}": [] for unit in UNITS}
    for k in (k for k in GRID if k <= n):
        taken = _taken(drawn, total, k, alphas)
        for unit in UNITS:
            found[unit].append((k, statistics.fmean(each[unit] for each in taken)))
        if len(taken) > 1:
            error = statistics.stdev(each["constraints"] for each in taken) / math.sqrt(len(taken))
            found["errors"].append((k, error))
        if k in MERGED_GRID and facts["merged"]:
            whole = _taken(drawn, MERGED, k, merged)
            for key, of in (*((f"merged_{unit}", unit) for unit in UNITS), ("undecided", "undecided")):
                found[key].append((k, statistics.fmean(each[of] for each in whole)))
    return found


def _taken(
    drawn: Conjunctions, total: int, k: int, of: Callable[[Conjunctions], dict[str, float]]
) -> list[dict[str, float]]:
    """Returns what a function makes of disjoint parts of k conjunctions.

    Parts are taken until the mean of their alphas in constraints is known well enough, or none is left.
    """
    taken: list[dict[str, float]] = []
    for start in range(0, total - k + 1, k):
        taken.append(of(drawn.part(start, k)))
        if len(taken) >= _DRAWS:
            values = [each["constraints"] for each in taken]
            if statistics.stdev(values) < ERROR * math.sqrt(len(values)):
                break
    return taken


def measure_tables(facts: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Measures the entries of all routers after the opening of a simulated run.

    Args:
        facts: `scheme` (`pif`, `psf` or `ips`), `layer`, `nodes`.

    Returns:
        curve: (k, alpha) of the entries; random: (k, alpha) of receivers drawn at random, both in filters.
    """
    with simulated(facts, seed) as (experiment, run):
        tables = ROUTING_TABLES.read(run)
    forest = LAYERS[experiment.broadcast.layer](experiment.topology, frozenset(), frozenset())
    predicates = local_predicates(tables)
    sizes = {node: len(PredicateBuilder(predicate)) for node, predicate in predicates.items()}

    @cache
    def below(source: int) -> dict[tuple[int, int], int]:
        places = receivers_below(forest.tree(source), sizes)
        return {(parent, child): receivers for parent, child, receivers in places}

    together, alone = Counter[int](), Counter[int]()
    filters_of = by_predicate(len)
    for node, rows in tables.items():
        neighbours = experiment.topology.neighbours(node)
        for row in rows:
            interface, sources = row["interface"], row.get("sources")
            if row.get("part") == "forwarding" and interface is not None:
                # With `pif` the entry is what the router itself reaches through the interface.
                behind = below(node if sources is None else sources[0])[node, neighbours[interface]]
                k = behind.bit_count()
                together[k] += filters_of(row)
                alone[k] += sum(size for receiver, size in sizes.items() if behind >> receiver & 1)
    drawn = measured_alpha(list(predicates.values()), random.Random(seed))["filters"]
    return {
        "curve": [(k, together[k] / alone[k]) for k in sorted(together)],
        "random": list(enumerate(drawn, 1)),
    }
