"""Runs the cases of a reproduction with several seeds; what has ended is not repeated.

The data of a page is a file of what its runs measured, from which the page is judged and drawn a second time.
"""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from testbed.evaluation.figures.reproduction import EMULATED, FIGURES, SEED, Case, Reproduction, Results
from testbed.evaluation.sweeps import REFUSE
from testbed.evaluation.sweeps.folder import SweepFolder
from testbed.evaluation.sweeps.job import peak_memory
from testbed.evaluation.sweeps.runner import run_and_keep
from testbed.evaluation.sweeps.spec import Job, identity
from testbed.experiments.config.hop_limit import load_checked
from testbed.experiments.config.load import find_experiment
from testbed.machine.versions import source_version, states_of
from testbed.support.errors import InputError
from testbed.terminal.progress import Progress


@dataclass(frozen=True)
class Reproduced:
    """The results of a reproduction.

    Attributes:
        failures: a line for each run that failed.
        code: the states of the code that made the runs.
        costs: seconds `s` of all runs together, of a processor or, emulated, of wall time, and
            `peak_memory_bytes`, the greatest memory of a process that made a run.
    """

    results: Results
    failures: Sequence[str]
    code: Sequence[str] = ()
    costs: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Origin:
    """How a page was made: figure, size, seeds 1 to `seeds`, engine."""

    name: str
    size: str
    seeds: int
    engine: str


def keys_of(figure: Reproduction, cases: Iterable[Case], engine: str) -> dict[str, dict[str, str]]:
    """Returns label -> the keys of each case; of a case without an experiment, what its figure measures."""
    found = {}
    for case in cases:
        keys: dict[str, Any] = dict(figure.overrides(case, engine) or case.facts)
        keys |= keys.pop("overrides", {})
        found[case.label] = {key: str(value) for key, value in keys.items()}
    return found


def write_data(path: Path, figure: Reproduction, origin: Origin, done: Reproduced) -> None:
    """Writes the data of a page as JSON, compressed; equal data give equal bytes."""
    runs = {case.label: done.results.runs(case) for case in done.results}
    keys = keys_of(figure, done.results, origin.engine)
    rest = {"keys": keys, "failures": done.failures, "code": done.code, "costs": done.costs}
    text = json.dumps({**vars(origin), **rest, "runs": runs}, separators=(",", ":"))
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def read_data(path: Path) -> tuple[Origin, Reproduced]:
    """Returns what `write_data` wrote.

    Raises:
        InputError: the file cannot be read, or the figure now has other cases, or other keys of a case.
    """
    try:
        data = json.loads(gzip.decompress(path.read_bytes()))
        origin = Origin(*(data[key] for key in ("name", "size", "seeds", "engine")))
        figure, keys, runs = FIGURES[origin.name](), data["keys"], data["runs"]
        rest = data["failures"], data["code"], data["costs"]
    except (OSError, EOFError, ValueError, KeyError) as error:
        raise InputError(f"{path}: no data of a page: {error}; run the figure") from error
    cases = figure.cases(origin.size)
    if keys != keys_of(figure, cases, origin.engine):
        raise InputError(f"{path}: its cases are not those of the figure {origin.name!r}; run the figure")
    return origin, Reproduced(Results({case: runs[case.label] for case in cases}), *rest)


def reproduce(
    figure: Reproduction,
    origin: Origin,
    folder: Path,
    progress: Progress,
    *,
    master: str = "local[2]",
    other_code: str = REFUSE,
) -> Reproduced:
    """Runs every case with every seed.

    Args:
        folder: keeps the measurements of runs that have ended.
        master, other_code: as of a sweep.

    Raises:
        InputError: the figure has no experiments of this size, or none to emulate; runs were made by other
            code, or the code changed meanwhile.
        ExperimentError: a case is not a valid experiment.
        SessionError: as `testbed.evaluation.sweeps.runner.run_and_keep`.
    """
    size, engine = origin.size, origin.engine
    if size not in figure.sizes:
        raise InputError(f"size {size!r}: this figure has {' and '.join(figure.sizes)}")
    if engine == "run" and figure.calculates and not (figure.measure_emulated and size == EMULATED):
        raise InputError(
            f"engine 'run', size {size!r}: this figure is calculated, and has no network to emulate"
        )
    cases = figure.cases(size)
    measured: dict[Case, list[Mapping[str, Any]]] = {case: [] for case in cases}
    jobs: dict[str, tuple[Case, Job]] = {}
    calculated_s = 0.0
    for case in cases:
        for seed in range(1, origin.seeds + 1):
            begin_s = time.process_time()
            found = figure.run(case, seed)
            if found is not None:
                calculated_s += time.process_time() - begin_s
                measured[case].append({**found, SEED: seed})
            else:
                job = figure_job(figure, case, seed, engine, len(jobs))
                jobs[job.identity] = case, job
    place = SweepFolder(folder)
    rows = place.ended([job for _, job in jobs.values()], other_code, retry=True)
    missing = [job for _, job in jobs.values() if job.identity not in rows]
    rows |= run_and_keep(missing, place, "figure_s", master=master, progress=progress)
    failures = []
    for key, (case, job) in jobs.items():
        row = rows[key]
        if row["error"] is None:
            measured[case].append({**row["keys"], SEED: job.seed})
        else:
            failures.append(f"{case.label}, seed {job.seed}: {row['error']}")
    kept = [rows[key]["costs"] for key in jobs]
    read = [read_data(path)[1] for path in figure.read()]
    # An emulation waits for its clock.
    unit = "wall_s" if engine == "run" else "cpu_s"
    costs = {
        "s": calculated_s + sum(each[unit] for each in kept) + sum(each.costs["s"] for each in read),
        "peak_memory_bytes": max(
            (each.get("peak_memory_bytes", 0) for each in (*kept, *(each.costs for each in read))),
            default=peak_memory(),
        ),
    }
    made = [row["source"] for row in rows.values()]
    code = {
        *states_of(made or ([] if read else [source_version()])),
        *(code for each in read for code in each.code),
    }
    return Reproduced(Results(measured), failures, sorted(code), costs)


def figure_job(figure: Reproduction, case: Case, seed: int, engine: str, number: int = 0) -> Job:
    """Returns the run of a case with a seed, as an engine makes it."""
    overrides = {**figure.overrides(case, engine), "seed": str(seed)}
    # A case may name another experiment; one that is calculated simulates it by itself.
    base = case.facts.get("base")
    path = find_experiment(str(base or "default"))
    experiment = load_checked(path, overrides)
    parameters: dict[str, Any] = {"case": case.label}
    calculates = figure.calculates and engine == "simulate"
    measure = figure.measure if calculates or not figure.calculates else figure.measure_emulated
    facts: list[Any] = [engine, measure, sorted(figure.expected), experiment]
    if calculates:
        # The facts alone determine what is calculated, with the experiment that they name.
        engine, parameters = "simulate", dict(case.facts)
        facts = [measure, seed, sorted(case.facts.items()), None if base is None else experiment]
    return Job(
        number,
        identity(*facts),
        parameters,
        seed,
        engine,
        experiment,
        measure,
        calculates,
        figure.captures,
        figure.expected,
        source_version(measure),
    )
