"""The formulas for the memory of routing schemes, on networks small enough to count by hand."""

from __future__ import annotations

from testbed.controller.trees import spt_trees
from testbed.figures.scheme_memory import predicted
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
