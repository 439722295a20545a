"""A router's word about its subtree: what a lie changes is what the liar could do without one."""

from __future__ import annotations

from tests.support.lying import NODES, measure


def test_a_lie_cuts_off_nobody_whom_the_liar_could_not_drop() -> None:
    found = measure(range(3))
    assert found["expected"] == 3 * NODES * (NODES - 1)
    assert found["missed"] > 0
    assert found["beyond"] == 0
    assert found["further"] > 0
