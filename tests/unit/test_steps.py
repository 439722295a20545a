"""Steps of a clean-up: each runs whatever became of the others."""

from __future__ import annotations

import errno

import pytest

from testbed.support.processes import Steps


def test_every_step_runs_and_the_failed_ones_are_named() -> None:
    steps = Steps()
    done: list[int] = []

    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    assert steps.run("log", full) is None
    assert steps.run("bridges", done.append, 1) is None
    assert steps.run("devices", len, "abc") == 3
    assert done == [1]
    assert steps.failures == ["log: [Errno 28] No space left on device"]


def test_an_interrupt_is_no_failure() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Steps().run("wait", interrupted)
