"""Runs the cases of a reproduction with several seeds; what has ended is not repeated."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from testbed.config.hop_limit import load_checked
from testbed.config.shipped import find_experiment
from testbed.errors import InputError
from testbed.figures.reproduction import EMULATED, SEED, Case, Reproduction, Results
from testbed.machine import probes
from testbed.sweeps.folder import SweepFolder
from testbed.sweeps.runner import run_and_keep
from testbed.sweeps.spec import Job, identity, keys_of
from testbed.terminal.progress import Progress


@dataclass(frozen=True)
class Reproduced:
    """The results of a reproduction; `failures` has a line for each run that failed."""

    results: Results
    failures: Sequence[str]


def reproduce(
    figure: Reproduction,
    size: str,
    seeds: Sequence[int],
    folder: Path,
    progress: Progress,
    *,
    engine: str = "simulate",
    master: str = "local[2]",
) -> Reproduced:
    """Runs every case with every seed.

    Args:
        folder: keeps the measurements of runs that have ended.
        engine, master: as of a sweep.

    Raises:
        InputError: the figure has no experiments of this size, or none to emulate, or the size is for
            emulations alone.
        ExperimentError: a case is not a valid experiment.
        SessionError: as `testbed.sweeps.runner.run_jobs`.
    """
    if size not in figure.sizes:
        raise InputError(f"size {size!r}: this figure has {' and '.join(figure.sizes)}")
    if size == EMULATED and engine != "run":
        raise InputError(f"size {size!r}: for engine 'run', not {engine!r}")
    if engine == "run" and figure.calculates:
        raise InputError("engine 'run': this figure is calculated, and has no network to emulate")
    datapath = probes.datapath() if engine == "run" else "user"
    cases = figure.cases(size)
    measured: dict[Case, list[Mapping[str, Any]]] = {case: [] for case in cases}
    jobs: dict[str, tuple[Case, Job]] = {}
    for case in cases:
        for seed in seeds:
            found = figure.run(case, seed)
            if found is not None:
                measured[case].append({**found, SEED: seed})
            else:
                job = _job(figure, case, seed, engine, len(jobs))
                jobs[job.identity] = case, job
    place = SweepFolder(folder)
    rows = {key: row for key, row in place.rows([j for _, j in jobs.values()]).items() if not row["error"]}
    missing = [job for _, job in jobs.values() if job.identity not in rows]
    rows |= run_and_keep(missing, place, "figure_s", master=master, progress=progress, datapath=datapath)
    failures = []
    for key, (case, job) in jobs.items():
        row = rows[key]
        if row["error"] is None:
            measured[case].append({**row["keys"], SEED: job.seed})
        else:
            failures.append(f"{case.label}, seed {job.seed}: {row['error']}")
    return Reproduced(Results(measured), failures)


def _measure(figure: Reproduction) -> tuple[str, str]:
    """Returns the name of what a figure measures, and the source of its module.

    A run that was measured by another source is repeated. What that module calls in others is not in it:
    after a change there, the folder of the figure has to be removed.
    """
    return figure.measure, inspect.getsource(import_module(figure.measure.partition(":")[0]))


def _job(figure: Reproduction, case: Case, seed: int, engine: str, number: int) -> Job:
    overrides = {**figure.overrides(case, engine), "seed": str(seed)}
    # A case that is calculated may name the experiment that it simulates by itself.
    base = case.facts.get("base") if figure.calculates else None
    path = find_experiment(str(base or case.base))
    parameters: dict[str, Any] = {"case": case.label}
    facts: list[Any] = [
        engine,
        *_measure(figure),
        list(figure.expected),
        keys_of(path),
        sorted(overrides.items()),
    ]
    if figure.calculates:
        # The facts alone determine what is calculated, with the experiment that they name.
        engine, parameters = "simulate", dict(case.facts)
        facts = [*_measure(figure), seed, sorted(case.facts.items())]
        if base is not None:
            facts.append(keys_of(path))
    experiment = load_checked(path, overrides)
    name = identity(*facts)
    return Job(
        number,
        name,
        parameters,
        seed,
        engine,
        experiment,
        figure.measure,
        figure.calculates,
        figure.captures,
        figure.expected,
    )
