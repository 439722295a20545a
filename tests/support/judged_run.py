"""An emulation that the oracle has judged, without Spark."""

from __future__ import annotations

import subprocess
from pathlib import Path

from captures.rundir.layout import RunLayout
from testbed.experiments.config.load import load_experiment
from testbed.results.conclude import judge_run
from tests.support.command import CBCB
from tests.support.paths import ROOT


def judged_run(experiment: Path, runs: Path) -> Path:
    """Emulates an experiment file; returns its run folder, the only one in `runs`."""
    done = subprocess.run(
        [*CBCB, "run", str(experiment), "--no-account", "--runs", str(runs)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = runs.iterdir()
    judge_run(RunLayout(folder), load_experiment(experiment))
    return folder
