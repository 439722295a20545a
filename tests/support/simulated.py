"""Simulated runs, without a word on the terminal."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from captures.rundir.capture_list import Kept
from captures.rundir.layout import RunLayout
from testbed.experiments.config.load import load_experiment
from testbed.experiments.config.model import Experiment
from testbed.sim.simulation import simulate
from testbed.terminal.progress import Progress


def simulated(experiment: Experiment | Path, runs: Path, captures: Kept = "all") -> RunLayout:
    """Simulates an experiment, or that of a file; returns its folder, which is new in `runs`."""
    made = load_experiment(experiment) if isinstance(experiment, Path) else experiment
    return RunLayout(simulate(made, runs, Progress(Console(quiet=True)), captures))
