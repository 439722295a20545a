"""The main job, whole and real: five routers, a ring with equal-cost paths, every frame accounted for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Cbcb

pytestmark = pytest.mark.emulation


@pytest.fixture(scope="module")
def run_dir(emulated: Callable[..., Path]) -> Path:
    return emulated("ring5")


@pytest.fixture(scope="module")
def summary(run_dir: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((run_dir / "summary.json").read_text())
    return loaded


def test_every_documented_key_is_there(summary: dict[str, Any]) -> None:
    from captures.rundir.summary import SUMMARY_KEYS

    assert set(SUMMARY_KEYS) == set(summary)


@pytest.mark.parametrize(("scheme", "status"), [("pif", 0), ("pif-strict", 1)])
def test_the_papers_filter_loses_a_receiver(cbcb: Callable[..., Cbcb], scheme: str, status: int) -> None:
    run = cbcb("run", "covered", "--set", f"routing.scheme={scheme}", "--engine", "duckdb")
    assert ("1 expected deliveries missed after convergence" in run.ends(status)) == bool(status)
