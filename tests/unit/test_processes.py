"""Waiting for a condition, and the steps of a clean-up."""

from __future__ import annotations

import errno
from importlib import import_module

import pytest

from testbed.support.errors import LIBRARY_ERRORS, RunError
from testbed.support.processes import Steps, wait_until
from testbed.terminal import reported


def test_it_returns_as_soon_as_nothing_differs() -> None:
    left = iter(["two left", "one left", None])
    wait_until(lambda: next(left), timeout_s=5, what="all done", interval_s=0)
    assert list(left) == []


def test_the_error_names_the_goal_and_the_last_difference() -> None:
    with pytest.raises(RunError, match=r"all done: not after 0 s; 3 of 5 are ready"):
        wait_until(lambda: "3 of 5 are ready", timeout_s=0, what="all done")


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


@pytest.mark.parametrize("name", LIBRARY_ERRORS)
def test_an_error_of_a_library_ends_a_command_with_its_status(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    module, _, kind = name.partition(":")
    found = getattr(import_module(module), kind)

    def command() -> int:
        raise found("what is wrong")

    assert reported(command) == LIBRARY_ERRORS[name]
    assert capsys.readouterr().err == "cbcb: what is wrong\n"


def test_an_error_of_no_user_is_not_hidden() -> None:
    def command() -> int:
        raise ValueError("a fault")

    with pytest.raises(ValueError, match="a fault"):
        reported(command)
