"""The cost of lost control frames for a whole run, best effort and confirmed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from testbed.cli.main import main
from tests.support.paths import ROOT

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
