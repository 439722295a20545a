"""Statements of figures on measurements that a test makes up, and measurements of simulated runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from testbed.evaluation.figures.reproduction import SEED, Case, Reproduction, Results, Statement
from testbed.evaluation.figures.runner import figure_job
from testbed.evaluation.sweeps.job import simulate_job

Runs = Callable[[Case], Iterable[Mapping[str, Any]]]


def results_of(figure: Reproduction, runs: Runs = lambda _: (), size: str = "small") -> Results:
    """Returns measurements of the runs of each case, of seeds 1, 2 and so on."""
    cases = figure.cases(size)
    return Results({case: [{**run, SEED: seed} for seed, run in enumerate(runs(case), 1)] for case in cases})


def judged(figure: Reproduction, runs: Runs, size: str = "small") -> dict[str, Statement]:
    """Returns the statements on `results_of`, by text."""
    return {each.text: each for each in figure.judge(results_of(figure, runs, size))}


def verdicts(figure: Reproduction, runs: Runs, size: str = "small") -> dict[str, bool | None]:
    """Returns whether the statements of `judged` hold."""
    return {text: each.holds for text, each in judged(figure, runs, size).items()}


def measured_run(figure: Reproduction, case: Case, seed: int = 1) -> dict[str, Any]:
    """Returns what a figure measures in a simulated run of a case."""
    row = simulate_job(figure_job(figure, case, seed, "simulate"))
    assert row["error"] is None, row["trace"]
    return {**row["keys"], SEED: seed}
