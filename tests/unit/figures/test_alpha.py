"""Alpha: exact values, and the disjunction of conjunctions against the covering of predicates."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest

from router.predicates.covering.algebra import covers
from router.predicates.model import Predicate
from testbed.alpha import constraints, formulas
from testbed.alpha.conjunctions import Conjunctions, alpha, draw, kept, one_integer_constraint
from testbed.figures.alpha import Alpha, measure
from testbed.figures.reproduction import Results


def test_values_of_the_exact_formula() -> None:
    found = [round(formulas.uniform(10_000, 10, n), 6) for n in (10, 100, 1_000, 10_000)]
    assert found == [0.995512, 0.952079, 0.632305, 0.099995]
    assert round(formulas.uniform(10**6, 1, 10**6), 6) == 0.632121


def test_weighted_predicates_of_equal_weights_are_draws_with_replacement() -> None:
    even = np.full(100, 0.01)
    assert formulas.weighted(even, 1, 50) == pytest.approx(formulas.uniform(100, 1, 50))


def test_implication_is_that_of_the_predicates() -> None:
    rng = np.random.default_rng(3)
    pairs = rng.integers(0, constraints.CODES, (3_000, 2))
    # Equal words, and prefixes of each other, are rare among random pairs.
    pairs[:1_000, 1] = (pairs[:1_000, 0] + constraints.WORDS * rng.integers(0, 6, 1_000)) % constraints.CODES
    for code, other in pairs.tolist():
        narrow, wide = (Predicate((Conjunctions(*_row(each)).filters()[0],)) for each in (code, other))
        assert bool(constraints.implies()[code, other]) == covers(wide, narrow), (narrow, wide)


def _row(code: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    name = 1 if code >= constraints.FIRST_STRING else 0
    return np.array([[name]], np.int16), np.array([[code]], np.int16), np.array([1])


@pytest.mark.parametrize(("names", "zipf"), [(2, False), (6, False), (6, True), (50, True)])
@pytest.mark.parametrize("seed", range(4))
def test_a_conjunction_is_kept_if_no_other_covers_it(names: int, zipf: bool, seed: int) -> None:
    drawn = draw(150, names, np.random.default_rng(seed), zipf=zipf, high=min(names, 6))
    filters = [Predicate((each,)) for each in drawn.filters()]
    needed = [
        row
        for row, own in enumerate(filters)
        if not any(covers(other, own) and other != own for other in filters) and own not in filters[:row]
    ]
    assert sorted(map(str, (filters[row] for row in kept(drawn).tolist()))) == sorted(
        map(str, (filters[row] for row in needed))
    )


def test_the_order_of_conjunctions_makes_no_difference() -> None:
    drawn = draw(2_000, 20, np.random.default_rng(5))
    order = np.random.default_rng(6).permutation(2_000)
    assert alpha(Conjunctions(drawn.names[order], drawn.codes[order], drawn.sizes[order])) == alpha(drawn)
    assert alpha(drawn.first(1)) == 1.0


@pytest.mark.parametrize(("operator", "names", "kinds"), [("equal", 50, 5_000), ("less", 500, 500)])
def test_one_constraint_each_gives_the_exact_value(operator: str, names: int, kinds: int) -> None:
    rng = np.random.default_rng(7)
    found = [alpha(one_integer_constraint(2_000, names, rng, operator)) for _ in range(30)]
    error = statistics.stdev(found) / math.sqrt(len(found))
    assert abs(statistics.fmean(found) - formulas.uniform(kinds, 1, 2_000)) < 4 * error


def test_every_statement_of_the_small_figure_holds() -> None:
    """Without that of alpha(r / Delta), which is too large, and that of the error, great with two draws."""
    figure = Alpha()
    results = Results(
        {
            case: [
                measure(case.facts, seed) for seed in ((1,) if case.facts["model"] == "tables" else (1, 2))
            ]
            for case in figure.cases("small")
        }
    )
    judged = figure.judge(results)
    open_ = [each.text for each in judged if not each.holds]
    assert [text for text in open_ if "alpha(r / Delta)" not in text and "standard error" not in text] == []
    assert sum("alpha(k) of each entry" in each.text for each in judged) == 6
    assert all(panel.curves and all(panel.curves.values()) for panel in figure.panels(results))
