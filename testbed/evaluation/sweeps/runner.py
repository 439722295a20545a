"""A sweep from its file to its tables and plots; a sweep that was interrupted is continued.

Simulations are tasks of Spark, emulations run one after the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from py4j.protocol import Py4JError

from captures.accounting.direct import Direct
from captures.rundir import RunLayout
from captures.spark import internals
from captures.spark.session import SessionError, spark_session
from testbed.emulation.run.emulation import emulate
from testbed.evaluation.sweeps import REFUSE
from testbed.evaluation.sweeps.folder import POINTS, RUNS, SEED, SweepFolder
from testbed.evaluation.sweeps.job import Measured, Row, kept, measured_by, row_of, simulate_in_worker
from testbed.evaluation.sweeps.plots import save
from testbed.evaluation.sweeps.spec import Job, Spec
from testbed.evaluation.sweeps.statistics import point_table
from testbed.machine.checks import require_machine
from testbed.machine.probes import datapath
from testbed.machine.versions import code_digest
from testbed.results.conclude import judge_run
from testbed.results.report.render import SWEEP_PAGE, write_page
from testbed.support.errors import InputError
from testbed.terminal.progress import Progress

#: Called in the order in which runs end.
Ended = Callable[[Row], None]
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
        master: Spark's master URL: simulations are its tasks, and emulations are accounted for on it.
        keep: keep the run folders of simulations; the workers must reach `place`.

    Returns:
        The rows by identity.

    Raises:
        SessionError: of simulations: Spark does not start, or ends by itself; the rows so far are kept.
        MachineError: this machine cannot emulate what is to be emulated.
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
    simulated = [job for job in jobs if job.engine == "simulate"]
    emulated = [job for job in jobs if job.engine == "run"]
    runs = place.path / "runs"
    try:
        with progress.stage(stage, f"{len(jobs)} runs"):
            show()
            if emulated:
                require_machine(*(job.experiment for job in emulated))
            if simulated:
                log = place.path / RunLayout(place.path).spark_log.name
                _simulate(simulated, ended, show, master, log, str(runs) if keep else None)
            for job in emulated:
                ended(row_of(job, lambda job: _emulated(job, runs, master, progress)))
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


def _simulate(
    jobs: Sequence[Job], ended: Ended, show: Callable[[], None], master: str, log: Path, keep: str | None
) -> None:
    """Runs each job as a Spark job of one task, a few at once: each row comes when its run has ended, and a
    task that kills its process takes no other run with it."""
    with spark_session(master, log) as spark:
        context = spark.sparkContext

        def task(job: Job) -> Row:
            try:
                row: Row
                (row,) = (
                    context.parallelize([job], 1).map(lambda job: simulate_in_worker(job, keep)).collect()
                )
                return row
            except Exception as error:
                # If a worker ends before its context has stopped, its run counts as failed.
                if not internals.context_runs(context):
                    raise  # no fault of the run, which a continued sweep repeats
                problem = RuntimeError(str(error))  # bound now: the name `error` ends with this block

                def fails(_: Job) -> Measured:
                    raise problem

                return row_of(job, fails)

        # On a cluster, executors arrive after the session.
        at_once = 2 * max(2, context.defaultParallelism)
        with ThreadPoolExecutor(max_workers=at_once) as pool:
            under_way = {pool.submit(task, job) for job in jobs}
            try:
                while under_way:
                    done, under_way = wait(under_way, _SHOWN_S, FIRST_COMPLETED)
                    if not done:
                        show()
                    for future in done:
                        ended(future.result())
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                # A signal to the whole process group ends the JVM too.
                with suppress(Py4JError, OSError):
                    context.cancelAllJobs()
                raise


def _emulated(job: Job, runs: Path, master: str, progress: Progress) -> Measured:
    experiment = job.experiment
    run_dir = emulate(experiment, runs, datapath(), progress)
    if job.measure:
        judge_run(RunLayout(run_dir), experiment)
        with Direct(run_dir) as direct:
            return measured_by(job, direct)
    try:
        return kept(run_dir, experiment, "spark", master)
    except SessionError as error:
        progress.note(f"{error}; once more")
        # Spark may have ended by itself: a second accounting takes less time than a second emulation.
        return kept(run_dir, experiment, "spark", master)


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
    plots, complaints = {}, _complaints(jobs, rows)
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
    ended = [(job, rows[job.identity]) for job in jobs if job.identity in rows]
    write_page(folder / SWEEP_PAGE, "sweep.html", name=folder.resolve().name, plots=plots, runs=ended)
    return Swept(folder / RUNS, runs, plots, complaints, len(jobs) - len(ended))


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
