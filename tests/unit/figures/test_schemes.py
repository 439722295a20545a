"""The figure of the routing schemes: runs, judgements, tables, time of matching, formulas for memory."""

from __future__ import annotations

import random

import pytest

from captures.accounting.schemes import size_of
from router.predicates import Predicate
from router.predicates.covering.algebra import PredicateBuilder
from router.predicates.parser import parse_predicate
from testbed.controller.trees import spt_trees
from testbed.evaluation.figures.reproduction import Results
from testbed.evaluation.figures.scheme_memory import UNITS, measured_alpha, predicted, predicted_by_alpha
from testbed.evaluation.figures.schemes import _FULL, _NONE, _STATIC, SCHEMES, Schemes, _case
from tests.support.figures import measured_run, results_of
from topos.generators import line, ring


@pytest.fixture(scope="module")
def results() -> Results:
    """Every scheme on 12 nodes, with and without covering; drp on reverse paths, too."""
    cases = [_case(12, "spt", scheme, setting, 75, 50) for setting in (_NONE, _FULL) for scheme in SCHEMES]
    cases.append(_case(12, "rpf", "drp", _STATIC, 75, 50))
    return Results({case: [measured_run(Schemes(), case)] for case in cases})


def test_statements_of_a_run_of_each_scheme(results: Results) -> None:
    statements = {each.text: each for each in Schemes().judge(results)}
    for scheme in SCHEMES:
        assert statements[f"{scheme}: delivery function correct"].holds
        for unit in ("filters", "constraints", "bytes"):
            assert statements[f"{scheme}, {_NONE}: {unit} held / formula"].holds, (scheme, unit)
    (drp,) = (each for text, each in statements.items() if text.startswith("drp, spt, all settings"))
    # The slides say non-minimal.
    assert (drp.predicted, drp.holds) == ("more than 0", False)
    (ips,) = (each for text, each in statements.items() if ", ips, " in text and "bytes of the contr" in text)
    assert ips.holds
    reverse = statements[
        "drp, rpf, predicates that do not change: crossings beyond the minimal tree once converged"
    ]
    assert reverse.measured.startswith("0 to 0 in 1 runs")
    for scheme in ("psf", "ips"):
        for unit in ("filters", "constraints", "bytes"):
            (found,) = (
                text for text in statements if f", {scheme}, {_FULL}: {unit} held / formula with" in text
            )
            assert statements[found].measured.startswith(("0.9", "1"))


def test_a_wrong_memory_or_a_message_missed_is_a_statement_that_does_not_hold(results: Results) -> None:
    spoilt = Results(
        {case: [{**run, "bytes_ratio": 1.1, "missed": 1} for run in results.runs(case)] for case in results}
    )
    holds = {each.text: each.holds for each in Schemes().judge(spoilt)}
    assert holds[f"psf, {_NONE}: bytes held / formula"] is False
    assert holds["pif: delivery function correct"] is False


def test_a_run_whose_deliveries_are_missed_is_measured_and_fails_its_scheme() -> None:
    """Routers that keep their RAs back for 200 s, so that messages miss receivers after each change."""
    late = _case(12, "spt", "pif", _FULL, 75, 50, protocol__ra_min_interval_s=200)
    results = Results({late: [measured_run(Schemes(), late, 3)]})
    (found,) = (each for each in Schemes().judge(results) if each.text == "pif: delivery function correct")
    assert found.holds is False
    missed, _, _ = found.measured.partition(" missed, 0 of 1 verdicts hold; the first that fails: 12 nodes, ")
    assert int(missed) > 0
    assert found.measured.endswith(f", seed 3: {missed} expected deliveries missed after convergence")


@pytest.mark.parametrize("size", Schemes.sizes)
def test_every_scheme_runs_at_every_point_and_what_has_no_run_is_not_judged(size: str) -> None:
    figure = Schemes()
    cases = figure.cases(size)
    full = [case for case in cases if case.facts["setting"] == _FULL]
    for case in full:
        place = [other.label.replace(f" {other.facts['scheme']},", "") for other in full]
        assert place.count(case.label.replace(f" {case.facts['scheme']},", "")) == len(SCHEMES)
    settings = {case.facts["setting"] for case in cases}
    results = results_of(figure, size=size)
    texts = [each.text for each in figure.judge(results)]
    assert any(_NONE in text for text in texts) == (_NONE in settings)
    assert all(set(panel.curves) == set(SCHEMES) for panel in figure.panels(results))


def _equal(value: int) -> Predicate:
    return parse_predicate(f"x = {value}")


def test_each_unit_of_alpha_is_that_of_the_disjunctions() -> None:
    texts = ("x < 5 and name = 1", "x < 9", "x > 2 and longer = 3", "x < 3", "y = 1 or x >= 9", "z = 2")
    predicates = [parse_predicate(text) for text in texts]
    order = random.Random(7)
    found = measured_alpha(predicates, random.Random(7), draws=1)
    drawn = order.sample(range(6), 6)
    for k in range(1, 7):
        chosen = [predicates[number] for number in drawn[:k]]
        union = PredicateBuilder()
        for each in chosen:
            union.add(each)
        whole = size_of(union.predicate)._asdict()
        parts = [size_of(PredicateBuilder(each).predicate)._asdict() for each in chosen]
        expected = {unit: whole[unit] / sum(part[unit] for part in parts) for unit in UNITS}
        assert {unit: found[unit][k - 1] for unit in UNITS} == pytest.approx(expected)


def test_with_alpha_1_the_prediction_is_the_formula() -> None:
    forest = spt_trees(ring(5))
    predicates = {node: _equal(10 * node) for node in range(5)}
    by_alpha = predicted_by_alpha(forest, predicates, range(5), random.Random(1))
    exact = predicted(forest, dict.fromkeys(range(5), 1), range(5))
    expected = {**{name: exact[name] for name in ("psf", "ips", "pif")}, "pif by mean": exact["pif"]}
    size = size_of(_equal(10))
    assert by_alpha == {
        name: {"filters": value, "constraints": value, "bytes": value * size.bytes}
        for name, value in expected.items()
    }


def test_equal_predicates_take_one_filter_an_entry() -> None:
    """0 - 1 - 2 - 3, all receivers: an entry for each interface, of one filter."""
    by_alpha = predicted_by_alpha(
        spt_trees(line(4)), {node: _equal(1) for node in range(4)}, range(4), random.Random(1)
    )
    assert by_alpha["pif"]["filters"] == pytest.approx(6)
