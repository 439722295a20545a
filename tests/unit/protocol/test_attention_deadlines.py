"""Values by their deadlines, against a sorted list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.protocol.attention.deadlines import Deadlines

#: A deadline to add; None: take the earliest; False: keep even values alone.
_STEPS = st.lists(st.one_of(st.floats(0, 5), st.floats(0, 1e9), st.none(), st.just(False)))


@given(_STEPS)
def test_values_are_taken_in_the_order_of_deadlines_and_of_their_addition(
    steps: list[float | bool | None],
) -> None:
    found: Deadlines[int] = Deadlines()
    expected: list[tuple[float, int]] = []
    for number, step in enumerate(steps):
        if step is False:
            found.keep_only(lambda value: value % 2 == 0)
            expected = [each for each in expected if each[1] % 2 == 0]
        elif step is not None:
            found.add(step, number)
            expected = sorted([*expected, (step, number)])
        elif expected:
            assert found.take() == expected.pop(0)[1]
        else:
            with pytest.raises(IndexError):
                found.take()
        assert len(found) == len(expected)
        if number % 2:
            assert found.next() == (expected[0][0] if expected else None)
    assert [found.take() for _ in expected] == [value for _, value in expected]
