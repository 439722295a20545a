"""The formulas for the memory of routing schemes, on networks small enough to count by hand."""

from __future__ import annotations

import random

import pytest

from router.predicates.model import Predicate
from router.predicates.parser import parse_predicate
from testbed.controller.trees import spt_trees
from testbed.figures.scheme_memory import measured_alpha, predicted, predicted_by_alpha
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
    assert measured_alpha([_equal(1)] * 4, random.Random(1)) == [1, 1 / 2, 1 / 3, 1 / 4]
    # Merged into one filter only in pairs that differ by 1: these do not.
    assert measured_alpha([_equal(10 * n) for n in range(4)], random.Random(1)) == [1, 1, 1, 1]


def test_with_alpha_1_the_prediction_is_the_formula() -> None:
    forest = spt_trees(ring(5))
    predicates = {node: _equal(10 * node) for node in range(5)}
    by_alpha = predicted_by_alpha(forest, predicates, range(5), random.Random(1))
    exact = predicted(forest, dict.fromkeys(range(5), 1), range(5))
    assert by_alpha == {**{name: exact[name] for name in ("psf", "ips", "pif")}, "pif by mean": exact["pif"]}


def test_equal_predicates_take_one_filter_an_entry() -> None:
    """0 - 1 - 2 - 3, all receivers: an entry for each interface, of one filter."""
    by_alpha = predicted_by_alpha(
        spt_trees(line(4)), {node: _equal(1) for node in range(4)}, range(4), random.Random(1)
    )
    assert by_alpha["pif"] == pytest.approx(6)
