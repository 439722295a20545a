"""The programs in examples/ on one emulated network, and the accounting of all that they did."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from captures.rundir.layout import RunLayout
from tests.support.command import STATE, Cbcb
from tests.support.paths import ROOT
from tests.support.polling import poll

pytestmark = pytest.mark.emulation

#: Example -> what it prints. The applications' order of arrival is not fixed; what they agree on is.
EXAMPLES = {
    "sensors.py": [
        "5 readings",
        'quantity = "temperature" and celsius > 23.0: [24.0, 31.5]',
        'quantity = "temperature" and room = "lab": [18.5, 24.0]',
    ],
    "monitoring.py": [
        "severity above 6: [('agent-0', 7), ('agent-0', 9), ('agent-1', 7), ('agent-1', 9)]",
        "severity above 8: [('agent-0', 9), ('agent-1', 9)]",
    ],
}


def _run(name: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, f"examples/{name}"],
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.splitlines()


def test_the_examples_work_and_are_accounted_for(cbcb: Callable[..., Cbcb], tmp_path: Path) -> None:
    experiment = tmp_path / "play.toml"
    experiment.write_text(
        'duration_s = 1\n[topology]\ngenerator = "ring"\nnodes = 5\n[oracle]\nin_flight_window_s = 0.05\n'
    )
    run = cbcb("run", str(experiment), "--hold", "--engine", "duckdb")
    state = run.state()
    control = STATE / state["tag"] / "control.sock"
    poll(lambda: control.exists() or None, 300, "the run takes commands")

    for name, expected in EXAMPLES.items():
        assert _run(name) == expected
    # Who leads at which price depends on who is faster; the bidder with the greatest limit wins.
    *bids, sold = _run("auction.py")
    assert sold.startswith("sold to bidder-1 for 2")
    assert all(line.startswith("bidder-") for line in bids)

    run.interrupt()
    status, printed = run.wait()
    assert status == 0, printed
    summary = json.loads(RunLayout(Path(state["run_dir"])).summary.read_text())
    assert summary["verdict"] == "holds"
    assert summary["messages_sent"] >= 5 + 2 * 2 * 6 + len(bids)
    assert summary["deliveries_decided"] > 0
