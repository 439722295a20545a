"""Alpha: exact values, and the disjunction of conjunctions against the covering of predicates."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from router.matching.columns import to_predicates
from router.predicates import Predicate
from router.predicates.covering.algebra import PredicateBuilder
from router.wire.predicate import encode_filter, encode_predicate
from testbed.evaluation.figures import alpha as figure, alpha_conjunctions, alpha_draws
from testbed.evaluation.figures.alpha import Alpha
from testbed.evaluation.figures.alpha_conjunctions import (
    CODES,
    FIRST_STRING,
    WORDS,
    Conjunctions,
    alphas,
    draw,
    implies,
    kept,
    merged,
)
from testbed.evaluation.figures.alpha_draws import measure
from testbed.evaluation.figures.reproduction import SEED, Results
from testbed.experiments.siena_ff.generate import MatchingWorkload, draw_table
from tests.support.algebra import covers


def test_values_of_the_exact_formula() -> None:
    found = [round(alpha_draws.uniform(10_000, 10, n), 6) for n in (10, 100, 1_000, 10_000)]
    assert found == [0.995512, 0.952079, 0.632305, 0.099995]
    assert round(alpha_draws.uniform(10**6, 1, 10**6), 6) == 0.632121


def test_weighted_predicates_of_equal_weights_are_draws_with_replacement() -> None:
    even = np.full(100, 0.01)
    assert alpha_draws.weighted(even, 1, 50) == pytest.approx(alpha_draws.uniform(100, 1, 50))


def test_implication_is_that_of_the_predicates() -> None:
    rng = np.random.default_rng(3)
    pairs = rng.integers(0, CODES, (1_000, 2))
    # Equal words, and prefixes of each other, are rare among random pairs.
    pairs[:500, 1] = (pairs[:500, 0] + WORDS * rng.integers(0, 6, 500)) % CODES
    for code, other in pairs.tolist():
        narrow, wide = (Predicate((Conjunctions(*_row(each)).filters()[0],)) for each in (code, other))
        assert bool(implies()[code, other]) == covers(wide, narrow), (narrow, wide)


def _row(code: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    name = 1 if code >= FIRST_STRING else 0
    return np.array([[name]], np.int16), np.array([[code]], np.int16), np.array([1])


@pytest.mark.parametrize(("names", "zipf"), [(2, False), (6, False), (6, True), (50, True)])
@pytest.mark.parametrize("seed", range(4))
def test_a_conjunction_is_kept_if_no_other_covers_it(
    names: int, zipf: bool, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As of many conjunctions, whose pairs are not compared at once.
    monkeypatch.setattr(alpha_conjunctions, "_PAIRS", 500)
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
    assert alphas(Conjunctions(drawn.names[order], drawn.codes[order], drawn.sizes[order])) == alphas(drawn)
    assert set(alphas(drawn.part(0, 1)).values()) == {1.0}


def test_alpha_with_merging_is_that_of_a_routers_predicate() -> None:
    drawn = draw(600, 20, np.random.default_rng(4))
    union = PredicateBuilder()
    constraints = size = 0
    for each in drawn.filters():
        alone = PredicateBuilder(Predicate((each,))).predicate
        union.add(alone)
        constraints, size = constraints + sum(map(len, alone)), size + len(encode_predicate(alone))
    found = merged(drawn)
    held = PredicateBuilder(Predicate(tuple(drawn.filters()))).predicate
    assert found["constraints"] == pytest.approx(sum(map(len, held)) / constraints)
    assert found["bytes"] == pytest.approx(len(encode_predicate(held)) / size)
    dropped = alphas(drawn)
    assert 0 < found["constraints"] < dropped["constraints"] < 1
    assert 0 < found["bytes"] < dropped["bytes"] < 1


def test_bytes_are_those_of_the_wire_format() -> None:
    drawn = draw(300, 1_000, np.random.default_rng(9), zipf=True)
    assert drawn.wire_bytes().tolist() == [len(encode_filter(each)) for each in drawn.filters()]


def test_the_filters_of_a_table_are_conjunctions() -> None:
    """A name is its number in the table."""
    table = draw_table(MatchingWorkload(constraints=700, interfaces=3, seed=5))
    named = {f"a{number}": name.decode() for number, name in enumerate(table.names)}
    found = [
        {replace(constraint, name=named[constraint.name]) for constraint in each}
        for each in Conjunctions.of_columns(table).filters()
    ]
    assert found == [set(each) for own in to_predicates(table).values() for each in own]


@pytest.mark.parametrize(
    ("operator", "names", "size", "kinds"),
    [("equal", 50, 1, 5_000), ("less", 500, 1, 500), ("equal", 3, 2, 30_000), ("equal", 3, 3, 1_000_000)],
)
def test_integer_constraints_give_the_exact_value(operator: str, names: int, size: int, kinds: int) -> None:
    facts = {"model": "integers", "names": names, "operator": operator, "constraints": size, "n": 2_000}
    measured = measure(facts | {"kinds": kinds}, 7)
    found = measured["draws"]
    error = statistics.stdev(found) / math.sqrt(len(found))
    assert abs(statistics.fmean(found) - measured["exact"]) < 4 * error


def test_uniform_subsets_have_different_messages() -> None:
    """All messages are in the union of predicates of the whole universe."""
    rng = np.random.default_rng(2)
    assert alpha_draws.sample_uniform(6, 6, 20, rng) == 6 / (20 * 6)
    found = [alpha_draws.sample_uniform(50, 5, 20, rng) for _ in range(400)]
    error = statistics.stdev(found) / math.sqrt(len(found))
    assert abs(statistics.fmean(found) - alpha_draws.uniform(50, 5, 20)) < 4 * error


@pytest.fixture(scope="module")
def small() -> Iterator[Results]:
    """The small figure of one seed, with fewer conjunctions and points."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alpha_draws, "_DRAWN", 10_000)
        # So few conjunctions of three constraints would all be different.
        few = {label: (*row[:-1], (200, 2_000)) for label, row in figure._EXACT.items() if row[0] < 3}
        patch.setattr(figure, "_EXACT", few)
        patch.setattr(alpha_draws, "GRID", (10, 100, 1_000, 10_000))
        patch.setattr(alpha_draws, "MERGED_GRID", (100, 1_000))
        for module in (alpha_draws, figure):
            patch.setattr(module, "MERGED", 1_000)
        cases = Alpha().cases("small")
        facts = [{**each.facts, **({"nodes": 20} if "nodes" in each.facts else {})} for each in cases]
        yield Results({case: [{**measure(of, 1), SEED: 1}] for case, of in zip(cases, facts, strict=True)})


def test_every_statement_of_the_small_figure_holds(small: Results) -> None:
    """Without the error of few draws, and those shown only."""
    judged = list(Alpha().judge(small))
    open_ = [each.text for each in judged if not each.holds]
    shown = [
        f"DNF, uniform names, {each}: |A| 500: alpha"
        for each in ("1 constraint", "2 constraints", "3 constraints")
    ]
    assert [
        text for text in open_ if "greatest standard error" not in text and not text.startswith(tuple(shown))
    ] == []
    assert any("|M| 1000000, h 1, n 1000000" in each.text and "0.632121" in each.predicted for each in judged)


def test_entries_of_tables_are_near_the_curve_of_receivers_drawn_at_random(small: Results) -> None:
    cases = small.where(model="tables")
    assert len(cases) == 6
    for case in cases:
        (entries,), (drawn,) = small.curves(case), small.curves(case, "random")
        assert (entries[0], drawn[0]) == ((1, 1), (1, 1))
        assert max(abs(alpha - dict(drawn)[k]) for k, alpha in entries) < 0.2


def test_every_panel_has_few_curves_over_the_numbers_themselves(small: Results) -> None:
    panels = {panel.title: panel for panel in Alpha().panels(small)}
    assert all(panel.points and 0 < len(panel.curves) <= 6 for panel in panels.values())
    assert all(all(panel.curves.values()) for panel in panels.values())
    generic = panels["Generic model"]
    assert {label: line[-1][0] for label, line in generic.formulas.items()} == {
        f"{model}: |M| {universe}, h {h}": n
        for model in ("uniform", "Zipf")
        for universe, h, n in ((10_000, 10, 10_000), (1_000_000, 1, 1_000_000))
    }
    (curve,) = panels["DNF model, uniform names"].curves["|A| = 500"]
    assert [k for k, _ in curve] == [10, 100, 1_000, 10_000]


def test_bytes_and_merging_are_in_a_table(small: Results) -> None:
    (table,) = Alpha().tables(small)
    rows = {row[0]: [float(cell) for cell in row[1:]] for row in table.rows}
    assert set(rows) == {
        f"DNF, {how} names: |A| {names}" for how in ("uniform", "Zipf") for names in (50, 500)
    }
    for label, (dropped, _, merged_too, *_) in rows.items():
        assert 0 < dropped < 1, label
        assert 0 < merged_too < 1, label
