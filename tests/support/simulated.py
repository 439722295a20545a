"""Simulated runs, without a word on the terminal."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from captures.rundir import RunLayout
from captures.rundir.capture_list import Kept
from testbed.experiments.config import Experiment
from testbed.experiments.config.load import load_experiment
from testbed.results.conclude import judge_run
from testbed.sim.simulation import simulate
from testbed.terminal.progress import Progress


def simulated(experiment: Experiment | Path, runs: Path, captures: Kept = "all") -> RunLayout:
    """Simulates an experiment, or that of a file; returns its folder, which is new in `runs`."""
    made = load_experiment(experiment) if isinstance(experiment, Path) else experiment
    return RunLayout(simulate(made, runs, Progress(Console(quiet=True)), captures))


def judged_run(experiment: Experiment | Path, runs: Path, captures: Kept = "all") -> RunLayout:
    """As `simulated`, with the answers of the oracle."""
    run = simulated(experiment, runs, captures)
    judge_run(run, load_experiment(run.experiment))
    return run
