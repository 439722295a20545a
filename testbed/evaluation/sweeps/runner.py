"""A sweep from its file to its tables and plots; a sweep that was interrupted is continued.

Simulations are tasks of Spark. Emulations run one after the other, on each machine of a cluster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
from py4j.protocol import Py4JError

from captures.rundir import RunLayout
from captures.spark import internals
from captures.spark.machines import SETTINGS
from captures.spark.session import Session, SessionError, spark_session
from testbed.emulation.run.emulation import emulate
from testbed.evaluation.sweeps import REFUSE
from testbed.evaluation.sweeps.folder import POINTS, RUNS, SEED, SweepFolder
from testbed.evaluation.sweeps.job import Measured, Row, accounted, kept, row_of, simulate_in_worker
from testbed.evaluation.sweeps.machines import Machines, cleaned
from testbed.evaluation.sweeps.plots import save
from testbed.evaluation.sweeps.spec import Job, Spec
from testbed.evaluation.sweeps.statistics import point_table
from testbed.machine.checks import require_machine
from testbed.machine.probes import datapath
from testbed.machine.versions import code_digest
from testbed.results.report.render import SWEEP_PAGE, write_page
from testbed.support.errors import InputError
from testbed.terminal.progress import Progress

#: Wall seconds after which the progress is shown although no simulation has ended.
_SHOWN_S = 2.0


def run_and_keep(
    jobs: Sequence[Job],
    place: SweepFolder,
    stage: str,
    *,
    master: str,
    progress: Progress,
    keep: bool = False,
) -> dict[str, Row]:
    """Runs jobs, keeps each row in its folder when the run has ended, and shows the progress.

    Args:
        place: its folder `runs` keeps run folders, those of simulations only on request.
        master: Spark's master URL: simulations are its tasks. Its machines emulate, if it is that of a
            cluster; otherwise this machine does, and accounts for the runs on it.
        keep: keep the run folders of simulations; the workers must reach `place`.

    Returns:
        The rows by identity.

    Raises:
        SessionError: Spark does not start, or ends by itself; the rows so far are kept.
        MachineError: a machine cannot emulate what is to be emulated.
        InputError: sources of the testbed changed meanwhile.
    """
    rows: dict[str, Row] = {}
    started = time.monotonic()

    def show() -> None:
        failed = sum(row["error"] is not None for row in rows.values())
        progress.update(remaining(len(jobs), len(rows), failed, time.monotonic() - started))

    def ended(row: Row) -> None:
        place.keep(row)
        rows[row["identity"]] = row
        show()

    if not jobs:
        return rows
    emulates, runs = jobs[0].engine == "run", place.path / "runs"
    log = place.path / RunLayout(place.path).spark_log.name
    try:
        with progress.stage(stage, f"{len(jobs)} runs"):
            show()
            if emulates and master.startswith("local"):
                require_machine(*(job.experiment for job in jobs))
                for job in jobs:
                    ended(row_of(job, lambda job: emulated(job, runs, progress, "spark", master)))
            else:
                with spark_session(master, log, more=SETTINGS if emulates else None) as spark:
                    if emulates:
                        with cleaned(Machines(spark, jobs, runs, progress.note)) as machines:
                            _in_parallel(spark, jobs, machines.row, ended, show)
                    else:
                        task = partial(_simulated, spark, str(runs) if keep else None)
                        _in_parallel(spark, jobs, task, ended, show)
    finally:
        # Workers and parts of emulations load modules while the sweep goes on.
        if jobs[0].source.get("code") != code_digest(jobs[0].measure):
            for row in rows.values():
                place.keep({**row, "source": {**row["source"], "code": None}})
            raise InputError(
                f"sources of the testbed changed while {len(rows)} runs were made; --other-code repeat runs "
                "them a second time"
            )
    return rows


def _simulated(spark: Session, keep: str | None, job: Job) -> Row:
    """Runs a job as a Spark job of one task: its row comes when it has ended, and a task that kills its
    process takes no other run with it."""
    context = spark.sparkContext
    try:
        row: Row
        (row,) = context.parallelize([job], 1).map(lambda job: simulate_in_worker(job, keep)).collect()
        return row
    except Exception as error:
        # If a worker ends before its context has stopped, its run counts as failed.
        if not internals.context_runs(context):
            raise  # no fault of the run, which a continued sweep repeats
        return row_of(job, RuntimeError(str(error)))


def _in_parallel(
    spark: Session,
    jobs: Sequence[Job],
    task: Callable[[Job], Row],
    ended: Callable[[Row], None],
    show: Callable[[], None],
) -> None:
    """Calls `task`, which has Spark run a job, in threads, and `ended` and `show` in this one."""
    # On a cluster, executors arrive after the session.
    at_once = 2 * max(2, spark.sparkContext.defaultParallelism)
    pool = ThreadPoolExecutor(max_workers=at_once)
    under_way = {pool.submit(task, job) for job in jobs}
    try:
        while under_way:
            done, under_way = wait(under_way, _SHOWN_S, FIRST_COMPLETED)
            if not done:
                show()
            for future in done:
                ended(future.result())
    except BaseException:
        # A signal to the whole process group ends the JVM too.
        with suppress(Py4JError, OSError):
            internals.cancel_jobs(spark.sparkContext)
        raise
    finally:
        # Spark cancels no job that waits for workers: its thread ends with the session.
        pool.shutdown(wait=False, cancel_futures=True)


def emulated(job: Job, runs: Path, progress: Progress, engine: str, master: str = "") -> Measured:
    """Emulates a job on this machine, and accounts for it on an engine."""
    run_dir = emulate(job.experiment, runs, datapath(), progress)
    if job.measure:
        return accounted(job, run_dir)
    try:
        return kept(run_dir, job.experiment, engine, master)
    except SessionError as error:
        progress.note(f"{error}; once more")
        # Spark may have ended by itself: a second accounting takes less time than a second emulation.
        return kept(run_dir, job.experiment, engine, master)


def remaining(total: int, done: int, failed: int, passed_s: float) -> str:
    """Returns how far a sweep is, with the time that its other runs take if they are as long.

    >>> remaining(4, 1, 0, 10.0)
    '1 of 4, 30 s left'
    """
    parts = [f"{done} of {total}"]
    if failed:
        parts.append(f"{failed} failed")
    if 0 < done < total:
        left_s = passed_s / done * (total - done)
        parts.append(f"{left_s:.0f} s left" if left_s < 120 else f"{left_s / 60:.0f} min left")
    return ", ".join(parts)


@dataclass(frozen=True)
class Swept:
    """The result of a sweep.

    Attributes:
        table: the path of `runs.parquet`; `runs` is the table.
        plots: what a plot shows -> its file.
        complaints: a line for each run that failed, or whose verdict fails, and each plot that is not drawn.
    """

    table: Path
    runs: pa.Table
    plots: Mapping[str, Path]
    complaints: Sequence[str]


def sweep(
    spec: Spec,
    folder: Path,
    progress: Progress,
    *,
    master: str = "local[2]",
    keep: bool = False,
    retry: bool = False,
    other_code: str = REFUSE,
) -> Swept:
    """Runs what a sweep has not run yet, and writes its tables and plots into its folder.

    Args:
        folder: of the sweep; rows of earlier calls are taken from it.
        retry: run failed runs a second time.
        other_code: what becomes of runs that other code has made (`sweeps.OTHER_CODE`).

    Raises:
        InputError: an experiment of the sweep is not valid; runs were made by other code, or the code changed
            during the sweep.
        SessionError: as `run_and_keep`.
    """
    jobs = spec.jobs()
    place = SweepFolder(folder)
    rows = place.ended(jobs, other_code, retry=retry)
    # A combination may occur twice, as a topology file under two names.
    missing = list({job.identity: job for job in jobs if job.identity not in rows}.values())
    if len(missing) < len(jobs):
        progress.note(f"{len(jobs) - len(missing)} of {len(jobs)} runs have ended before")
    rows |= run_and_keep(missing, place, "sweep_s", master=master, progress=progress, keep=keep)
    runs = place.write_tables(jobs, rows)
    place.write(point_table(runs, list(spec.grid)), POINTS)
    for path in place.keep_files(spec.files(), spec.path.parent):
        progress.note(f"{path}: is not beside {spec.path}, so the folder of the sweep has no copy")
    ended = [(job, rows[job.identity]) for job in jobs]
    plots, complaints = {}, [*_complaints(ended)]
    # Of runs that have all failed there is nothing to draw, and the complaints say why.
    drawn = spec.plots if any(row["error"] is None for row in rows.values()) else []
    for number, plot in enumerate(drawn, 1):
        name = f"{plot.y} against {plot.x}" + (f" by {plot.by}" if plot.by else "")
        name += f", {number}" if name in plots else ""
        try:
            save(runs, plot, folder / f"plot-{number}.svg")
        except InputError as error:
            complaints.append(f"plot {number}: {error}")
        else:
            plots[name] = folder / f"plot-{number}.svg"
    write_page(folder / SWEEP_PAGE, "sweep.html", name=folder.resolve().name, plots=plots, runs=ended)
    return Swept(folder / RUNS, runs, plots, complaints)


def _complaints(ended: Iterable[tuple[Job, Row]]) -> Iterator[str]:
    for job, row in ended:
        where = ", ".join(f"{name} = {value}" for name, value in {**job.parameters, SEED: job.seed}.items())
        if row["error"] is not None:
            yield f"run {job.number} failed ({where}): {row['error']}"
        elif row["keys"].get("verdict") != "holds":
            yield f"run {job.number} ({where}): verdict {row['keys'].get('verdict')}"
