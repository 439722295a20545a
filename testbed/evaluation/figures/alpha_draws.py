"""Monte Carlo of alpha: the draws of each model, and the means of the DNF model's curves."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np

from testbed.evaluation.alpha import formulas
from testbed.evaluation.alpha.conjunctions import (
    Conjunctions,
    Merged,
    alphas,
    draw,
    integer_constraints,
    merged,
)

GRID = [scale * 10**power for power in range(1, 7) for scale in (1, 2, 5)][:-2]
#: Conjunctions that are drawn in all, at least: the variance is greatest at some thousand, and falls behind.
_DRAWN = 200_000
#: Disjoint parts are taken until the standard error of their mean is below this, and so many at least.
ERROR, _DRAWS = 0.005, 30
#: Conjunctions that are merged in all, and at once: a predicate of as many takes seconds.
MERGED = 10_000
MERGED_GRID = (10, 100, 1_000, MERGED)
UNITS = ("constraints", "bytes")
_T = TypeVar("_T")


def measure(facts: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Returns the draws of a case with the exact value; of the DNF model the curves of `_dnf`."""
    model = facts["model"]
    if model == "tables":
        from testbed.evaluation.figures.alpha_tables import measure_tables

        return measure_tables(facts, seed)
    rng = np.random.default_rng([seed, *str(sorted(facts.items())).encode()])
    if model == "dnf":
        return _dnf(facts, rng)
    return {"draws": list(_draws(facts, rng)), "exact": exact(facts, int(facts["n"]))}


def exact(facts: Mapping[str, Any], n: int) -> float:
    """Returns the exact value of alpha(n) of a case's model."""
    if facts["model"] == "zipf":
        return formulas.weighted(formulas.zipf_weights(facts["universe"]), facts["h"], n)
    if facts["model"] == "uniform":
        return formulas.uniform(facts["universe"], facts["h"], n)
    return formulas.uniform(facts["kinds"], 1, n)


def _draws(facts: Mapping[str, Any], rng: np.random.Generator) -> Iterator[float]:
    n = int(facts["n"])
    times = 20 if n <= 1_000 else 4
    if facts["model"] == "integers":
        for _ in range(20):
            drawn = integer_constraints(n, facts["names"], rng, facts["operator"], facts["constraints"])
            yield alphas(drawn)["constraints"]
    elif facts["model"] == "uniform":
        for _ in range(times):
            yield formulas.sample_uniform(facts["universe"], facts["h"], n, rng)
    else:
        weights = formulas.zipf_weights(facts["universe"])
        alone = n * float((1 - (1 - weights) ** facts["h"]).sum())
        for _ in range(times):
            # E|P| over the expected sum: the ratio of expectations, as the formula.
            yield formulas.sample_weighted(weights, facts["h"], n, rng)[0] / alone


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
        taken = _taken(drawn, total, k, alphas, lambda each: each["constraints"])
        for unit in UNITS:
            found[unit].append((k, statistics.fmean(each[unit] for each in taken)))
        if len(taken) > 1:
            error = statistics.stdev(each["constraints"] for each in taken) / math.sqrt(len(taken))
            found["errors"].append((k, error))
        if k in MERGED_GRID and facts["merged"]:
            whole: list[Merged] = _taken(drawn, MERGED, k, merged, lambda each: each.constraints)
            for unit in UNITS:
                mean = statistics.fmean(getattr(each, unit) for each in whole)
                found[f"merged_{unit}"].append((k, mean))
            found["undecided"].append((k, statistics.fmean(each.undecided for each in whole)))
    return found


def _taken(
    drawn: Conjunctions, total: int, k: int, of: Callable[[Conjunctions], _T], value: Callable[[_T], float]
) -> list[_T]:
    """Returns what a function makes of disjoint parts of k conjunctions.

    Parts are taken until the mean of their values is known well enough, or none is left.
    """
    taken: list[_T] = []
    for start in range(0, total - k + 1, k):
        taken.append(of(drawn.part(start, k)))
        if len(taken) >= _DRAWS:
            values = [value(each) for each in taken]
            if statistics.stdev(values) < ERROR * math.sqrt(len(values)):
                break
    return taken
