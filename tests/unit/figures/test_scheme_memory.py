"""The formulas for the memory of routing schemes, on networks small enough to count by hand."""

from __future__ import annotations

import random

import pytest

from captures.accounting.schemes import size_of
from captures.rundir.routing_tables import TableRow
from router.predicates import Predicate
from router.predicates.covering.algebra import PredicateBuilder
from router.predicates.parser import parse_predicate
from testbed.controller.trees import spt_trees
from testbed.evaluation.figures.scheme_memory import (
    UNITS,
    index_bits,
    measured_alpha,
    predicted,
    predicted_by_alpha,
)
from topos.generators import line, ring


def test_on_a_line() -> None:
    """0 - 1 - 2: node 2 has three filters, node 1 one."""
    forest = spt_trees(line(3))
    assert predicted(forest, {2: 3, 1: 1}, [0]) == {
        "psf": 2 * 3 + 1,
        "ips": 2 * 3 + 1,
        "pif": 2 * 4,
        # Node 2 is never between a source and node 1.
        "pif-classes": 2 * 3 + 1,
        "drp": 4,
    }
    # From 1 there is one hop to 2, with the same receivers below as from 0.
    assert predicted(forest, {2: 3, 1: 1}, [0, 1]) == {
        "psf": 10,
        "ips": 7,
        "pif": 8,
        "pif-classes": 7,
        "drp": 4 + 3,
    }


def test_on_a_ring_the_receivers_below_depend_on_the_source() -> None:
    forest = spt_trees(ring(5))
    sizes = dict.fromkeys(range(5), 1)
    # From each source two nodes are one hop away and two are two.
    assert predicted(forest, sizes, range(5)) == {
        "psf": 5 * 6,
        "ips": 10 * 1 + 10 * 2,
        "pif": 5 * 4,
        "pif-classes": 5 * 4,
        "drp": 5 * 4,
    }


def _equal(value: int) -> Predicate:
    return parse_predicate(f"x = {value}")


def test_alpha_of_equal_and_of_unrelated_predicates() -> None:
    equal = measured_alpha([_equal(1)] * 4, random.Random(1))
    assert equal == {unit: [1, 1 / 2, 1 / 3, 1 / 4] for unit in UNITS}
    # Merged into one filter only in pairs that differ by 1: these do not.
    unrelated = measured_alpha([_equal(10 * n) for n in range(4)], random.Random(1))
    assert unrelated == {unit: [1, 1, 1, 1] for unit in UNITS}


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
