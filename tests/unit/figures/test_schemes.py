"""The figure of the routing schemes: runs, judgements, tables, time of matching, formulas for memory."""

from __future__ import annotations

import random
from typing import Any

import pytest

from captures.accounting.schemes import size_of
from captures.rundir.routing_tables import TableRow
from router.predicates import Message, Predicate
from router.predicates.covering.algebra import PredicateBuilder
from router.predicates.parser import parse_predicate
from testbed.controller.trees import spt_trees
from testbed.evaluation.figures.reproduction import SEED, Case, Results
from testbed.evaluation.figures.runner import _job
from testbed.evaluation.figures.scheme_memory import (
    UNITS,
    index_bits,
    matching_cost,
    measured_alpha,
    predicted,
    predicted_by_alpha,
)
from testbed.evaluation.figures.schemes import (
    _COMPARED,
    _FULL,
    _NONE,
    _STATIC,
    SCHEMES,
    Schemes,
    _case,
)
from testbed.evaluation.sweeps.job import simulate_job
from topos.generators import line, ring


@pytest.fixture(scope="module")
def results() -> Results:
    """Every scheme on 12 nodes, with and without covering; drp on reverse paths, too."""
    figure = Schemes()
    cases = [_case(12, "spt", scheme, setting, 75, 50) for setting in (_NONE, _FULL) for scheme in SCHEMES]
    cases.append(_case(12, "rpf", "drp", _STATIC, 75, 50))
    found: dict[Case, list[dict[str, Any]]] = {}
    for case in cases:
        row = simulate_job(_job(figure, case, 1, "simulate", 0))
        assert row["error"] is None, row["trace"]
        found[case] = [{**row["keys"], SEED: 1}]
    return Results(found)


def test_statements_of_a_run_of_each_scheme(results: Results) -> None:
    statements = {each.text: each for each in Schemes().judge(results)}
    for scheme in SCHEMES:
        assert statements[f"{scheme}: delivery function correct"].holds
        for unit in ("filters", "constraints", "bytes"):
            assert statements[f"{scheme}, {_NONE}: {unit} held / formula"].holds, (scheme, unit)
    (drp,) = (each for text, each in statements.items() if text.startswith("drp, spt, all settings"))
    assert drp.holds
    assert drp.predicted == "0"
    (ips,) = (each for text, each in statements.items() if text.startswith("ips: bytes of the controller"))
    assert ips.holds
    reverse = statements[
        "drp, rpf, predicates that do not change: crossings beyond the minimal tree once converged"
    ]
    assert (reverse.predicted, reverse.holds) == ("0", True)
    for scheme in ("psf", "ips"):
        for unit in ("filters", "constraints", "bytes"):
            assert statements[
                f"{scheme}, covering: {unit} held / formula with alpha(k) of each entry, medians of 1 cases"
            ].measured.startswith(("0.9", "1"))


def test_only_ips_has_an_index_of_its_classes(results: Results) -> None:
    bits = {case.facts["scheme"]: results.values(case, "index_bits") for case in results.where(setting=_FULL)}
    assert {scheme for scheme, found in bits.items() if found} == {"ips"}
    # 12 sources, at least a bit for each of the 22 ends of a tree's links.
    assert bits["ips"][0] >= 12 * 22


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
    row = simulate_job(_job(Schemes(), late, 3, "simulate", 0))
    assert row["error"] is None, row["trace"]
    results = Results({late: [{**row["keys"], "seed": 3}]})
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
    assert len({case.label for case in cases}) == len(cases)
    for case in full:
        place = [other.label.replace(f" {other.facts['scheme']},", "") for other in full]
        assert place.count(case.label.replace(f" {case.facts['scheme']},", "")) == len(SCHEMES)
    settings = {case.facts["setting"] for case in cases}
    texts = [each.text for each in figure.judge(Results({case: [] for case in cases}))]
    assert any(_NONE in text for text in texts) == (_NONE in settings)
    panels = figure.panels(Results({case: [] for case in cases}))
    assert all(set(panel.curves) == set(SCHEMES) for panel in panels)


def test_a_message_carries_its_destinations_with_drp_alone(results: Results) -> None:
    header = {
        case.facts["scheme"]: results.median(case, "header_bytes_each")
        for case in results
        if case.facts["setting"] == _FULL
    }
    # Ethernet and CBCB header.
    assert {header[scheme] for scheme in SCHEMES if scheme != "drp"} == {46}
    assert header["drp"] > 46


def test_the_table_has_a_winner_for_each_key(results: Results) -> None:
    (best,) = Schemes().tables(results)
    assert all(len(row) == len(best.columns) for row in best.rows)
    assert [row[:3] for row in best.rows] == [["spt", what, "1"] for what in _COMPARED.values()]
    assert all("1" in row[3:] for row in best.rows)
    (crossings,) = (row for row in best.rows if row[1] == _COMPARED["crossings"])
    # The minimal schemes are equal.
    assert crossings[3 + SCHEMES.index("psf")] == crossings[3 + SCHEMES.index("drp")] == "1"


def _row(interface: int | None, predicate: str, **more: Any) -> TableRow:
    return {"interface": interface, "scope": "", "predicate": predicate, "part": "forwarding", **more}  # type: ignore[typeddict-item]


def test_matching_asks_the_entries_of_the_source_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """0 - 1 - 2, at node 1: interface 1 leads to 0 and 2 to 2."""
    topology = line(3)
    asked: list[list[int]] = []

    def best_us(_matcher: object, _message: Message, among: list[int]) -> float:
        asked.append(among)
        return 7.0

    monkeypatch.setattr("testbed.evaluation.figures.scheme_memory.best_us", best_us)
    message = Message({"x": 1})

    def cost(rows: list[TableRow], source: int) -> int:
        asked.clear()
        found, size = matching_cost({1: rows}, topology, spt_trees(topology), {1: [(source, message)]}, {0})
        assert found == sum(7.0 for _ in asked)
        return size

    towards = {neighbour: port for port, neighbour in topology.neighbours(1).items()}
    pif = [_row(0, "x = 1", part="local"), _row(towards[0], "x = 2"), _row(towards[2], "x = 3")]
    assert cost(pif, 0) > 0
    assert asked == [[0, 2]]
    # Sources that do not send have no entries.
    psf = [_row(towards[2], "x = 3", sources=[0, 2], copies=True)]
    cost(psf, 0)
    assert asked == [[1]]
    cost(psf, 2)
    assert asked == []


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


def test_the_index_of_ips_has_a_class_or_none_for_each_source_and_interface() -> None:
    def row(interface: int, sources: list[int] | None, part: str = "forwarding") -> TableRow:
        return TableRow(interface=interface, scope="", predicate="x = 1", part=part, sources=sources)

    tables = {
        0: [row(1, [0]), row(1, [2, 3]), row(1, [4]), row(2, [1]), row(0, None, "local")],
        1: [row(1, [0, 2]), row(1, None, "rib")],
    }
    # Three classes or none: two bits; one or none: one bit.
    assert index_bits(tables, 5) == 5 * (2 + 1 + 1)
