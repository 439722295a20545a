"""A sweep from its file to its tables and plots; a sweep that was interrupted is continued."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from testbed.evaluation.sweeps import REFUSE
from testbed.evaluation.sweeps.folder import ERROR, POINTS, RUN, RUNS, SEED, SweepFolder
from testbed.evaluation.sweeps.job import Row
from testbed.evaluation.sweeps.runner import run_and_keep
from testbed.evaluation.sweeps.spec import Job, Spec
from testbed.evaluation.sweeps.statistics import point_table, save
from testbed.terminal.progress import Progress


@dataclass(frozen=True)
class Swept:
    """The result of a sweep.

    Attributes:
        table: the path of `runs.parquet`; `runs` is the table.
        plots: what a plot shows -> its file.
        complaints: a line for each run that failed, or whose verdict fails.
        unfinished: runs that have not ended.
    """

    table: Path
    runs: pa.Table
    plots: Mapping[str, Path]
    complaints: Sequence[str]
    unfinished: int


def sweep(
    spec: Spec,
    folder: Path,
    progress: Progress,
    *,
    master: str = "local[2]",
    datapath: str = "user",
    keep: bool = False,
    retry: bool = False,
    other_code: str = REFUSE,
) -> Swept:
    """Runs what a sweep has not run yet, and writes its tables and plots into its folder.

    Args:
        folder: of the sweep; rows of earlier calls are taken from it.
        master, datapath, keep: see `testbed.evaluation.sweeps.runner.run_jobs`.
        retry: run failed runs a second time.
        other_code: what becomes of runs that other code has made (`sweeps.OTHER_CODE`).

    Raises:
        InputError: an experiment of the sweep is not valid, or a plot cannot be drawn; runs were made by
            other code, or the code changed during the sweep.
        SessionError: as `testbed.evaluation.sweeps.runner.run_jobs`.
    """
    jobs = spec.jobs()
    place = SweepFolder(folder)
    rows = place.ended(jobs, other_code, retry=retry)
    # A combination may occur twice, as a topology file under two names.
    missing = list({job.identity: job for job in jobs if job.identity not in rows}.values())
    if len(missing) < len(jobs):
        progress.note(f"{len(jobs) - len(missing)} of {len(jobs)} runs have ended before")
    rows |= run_and_keep(
        missing, place, "sweep_s", master=master, progress=progress, datapath=datapath, keep=keep
    )
    runs = place.write_tables(jobs, rows)
    skip = dict.fromkeys((RUN, SEED, ERROR))
    unfinished = folder / f"{POINTS}.tmp"
    pq.write_table(point_table(runs, list(spec.grid), skip), unfinished)
    unfinished.replace(folder / POINTS)
    plots = {}
    # Of runs that have all failed there is nothing to draw, and the complaints say why.
    drawn = spec.plots if any(row["error"] is None for row in rows.values()) else []
    for number, plot in enumerate(drawn, 1):
        name = f"{plot.y} against {plot.x}" + (f" by {plot.by}" if plot.by else "")
        plots[name] = folder / f"plot-{number}.svg"
        save(runs, plot, plots[name])
    return Swept(
        folder / RUNS, runs, plots, _complaints(jobs, rows), sum(job.identity not in rows for job in jobs)
    )


def _complaints(jobs: Sequence[Job], rows: Mapping[str, Row]) -> list[str]:
    found = []
    for job in jobs:
        row = rows.get(job.identity)
        if row is None:
            continue
        where = ", ".join(f"{name} = {value}" for name, value in {**job.parameters, SEED: job.seed}.items())
        if row["error"] is not None:
            found.append(f"run {job.number} failed ({where}): {row['error']}")
        elif row["keys"].get("verdict") != "holds":
            found.append(f"run {job.number} ({where}): verdict {row['keys'].get('verdict')}")
    return found
