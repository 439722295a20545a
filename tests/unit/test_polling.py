from __future__ import annotations

import pytest

from testbed.support.errors import RunError
from testbed.support.processes import wait_until


def test_it_returns_as_soon_as_nothing_differs() -> None:
    left = iter(["two left", "one left", None])
    wait_until(lambda: next(left), timeout_s=5, what="all done", interval_s=0)
    assert list(left) == []


def test_the_error_names_the_goal_and_the_last_difference() -> None:
    with pytest.raises(RunError, match=r"all done: not after 0 s; 3 of 5 are ready"):
        wait_until(lambda: "3 of 5 are ready", timeout_s=0, what="all done")
