"""The main job, whole and real: five routers, a ring with equal-cost paths, every frame accounted for."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import CBCB, Cbcb
from tests.support.paths import ROOT

pytestmark = pytest.mark.emulation


@pytest.fixture(scope="module")
def run_dir(emulated: Callable[..., Path]) -> Path:
    return emulated("ring5")


@pytest.fixture(scope="module")
def summary(run_dir: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((run_dir / "summary.json").read_text())
    return loaded


def test_the_run_has_real_deliveries(summary: dict[str, Any]) -> None:
    assert summary["messages_sent"] >= 20
    assert summary["deliveries_expected"] >= 20
    assert summary["deliveries_made"] >= 20


def test_every_documented_key_is_there(summary: dict[str, Any]) -> None:
    from captures.rundir.summary import SUMMARY_KEYS

    assert set(SUMMARY_KEYS) == set(summary)


def test_a_replay_gives_the_same_answers(run_dir: Path) -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "77"}
    done = subprocess.run(
        [*CBCB, "replay", str(run_dir)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Replay: 5 routers" in done.stdout
    assert "answers, counters and final tables equal the live run's" in done.stdout


@pytest.mark.parametrize(("scheme", "status"), [("pif", 0), ("pif-strict", 1)])
def test_the_papers_filter_loses_a_receiver(cbcb: Callable[..., Cbcb], scheme: str, status: int) -> None:
    run = cbcb("run", "covered", "--set", f"routing.scheme={scheme}", "--engine", "duckdb")
    assert ("1 expected deliveries missed after convergence" in run.ends(status)) == bool(status)
