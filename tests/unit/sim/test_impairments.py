"""Simulated runs whose links double or lose frames."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from captures.accounting.direct import Direct
from testbed.cli.main import main
from testbed.experiments.config.load import load_experiment
from testbed.results.oracle.decide import write_oracle
from tests.support.paths import ROOT
from tests.support.simulated import simulated

_RING = """
duration_s = 60
[topology]
generator = "ring"
nodes = 5
[workload]
senders_percent = 100
receivers_percent = 100
"""


@pytest.mark.parametrize(
    "doubling",
    [
        "[links]\nduplicate_percent = 40\n",
        '[[events]]\nat_s = 1\naction = "link_impair"\nduplicate_percent = 40\n',
    ],
)
def test_copies_of_frames_on_links_that_double_them_are_no_fault(tmp_path: Path, doubling: str) -> None:
    path = tmp_path / "doubling.toml"
    path.write_text(_RING + doubling)
    experiment = load_experiment(path)
    run = simulated(experiment, tmp_path / "runs")
    write_oracle(run, experiment.oracle.in_flight_window_s)
    with Direct(run.path) as direct:
        summary = direct.summary()
    assert summary["frames_repeated"] > 0
    assert summary["deliveries_made"] > 0
    assert summary["duplicate_deliveries"] == 0
    assert summary["verdict"] == "holds", summary["verdict_reasons"]


_FILE = str(ROOT / "examples" / "reliable-base.toml")


def _run(folder: Path, loss_percent: int, reliable: str) -> dict[str, Any]:
    """The summary of a run of 12 nodes whose links lose frames until predicates have converged."""
    chosen = {
        "links.loss_percent": loss_percent,
        "protocol.reliable_control": reliable,
        "workload.messages_per_minute": 60,
    }
    settings = [text for key, value in chosen.items() for text in ("--set", f"{key}={value}")]
    where = ["--runs", str(folder), "--engine", "duckdb", "--captures", "none"]
    status = main(["simulate", _FILE, "--topology", "waxman,12", *settings, *where])
    (path,) = folder.glob("*/summary.json")
    summary: dict[str, Any] = json.loads(path.read_text())
    assert (status == 0) == (summary["verdict"] == "holds")
    return summary


def test_confirmed_control_frames_bring_the_false_negatives_of_best_effort_to_zero(tmp_path: Path) -> None:
    missed = {}
    for reliable in ("false", "true"):
        summary = _run(tmp_path / reliable, 20, reliable)
        assert summary["deliveries_decided"] == 400
        missed[reliable] = summary["false_negatives_after_convergence"]
        reasons = [f"{missed[reliable]} expected deliveries missed after convergence"]
        assert summary["verdict_reasons"] == (reasons if missed[reliable] else [])
    assert missed["true"] == 0
    assert missed["false"] > 0
