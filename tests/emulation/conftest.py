"""Fixtures of the emulation tests: run `cbcb` as a user does, and find the remains of a run."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.command import CBCB, Cbcb
from tests.support.paths import ROOT


def why_not_here() -> str | None:
    """Why this machine cannot emulate, or None if it can."""
    from testbed.machine.checks import check_machine

    missing = [check for check in check_machine() if check.required and not check.ok]
    return "; ".join(f"{check.name}: {check.detail}" for check in missing) or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason: str | None = None
    asked = False
    for item in items:
        if item.get_closest_marker("emulation"):
            if not asked:
                reason, asked = why_not_here(), True
            if reason:
                item.add_marker(pytest.mark.skip(reason=f"this machine cannot emulate: {reason}"))


@pytest.fixture
def cbcb(tmp_path: Path) -> Iterator[Callable[..., Cbcb]]:
    """Starts `cbcb COMMAND ARGS` in a session of its own; ends it and cleans up afterwards."""
    started: list[Cbcb] = []

    def start(command: str, *arguments: str) -> Cbcb:
        runs = ["--runs", str(tmp_path)] if command in {"run", "account", "report"} else []
        process = subprocess.Popen(
            [*CBCB, command, *arguments, *runs],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        started.append(Cbcb(process, tmp_path))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.kill()
        one.process.communicate()
    subprocess.run([*CBCB, "clean"], cwd=ROOT, check=True, capture_output=True)
