"""One run of a sweep, in whatever process: the keys of its summary, or why it failed."""

from __future__ import annotations

import gc
import resource
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from captures.accounting.verdict import HOLDS
from captures.rundir import RunLayout
from captures.rundir.inputs import Source
from testbed.evaluation.sweeps.spec import Job
from testbed.experiments.config import Experiment
from testbed.support.errors import RunError

if TYPE_CHECKING:
    from captures.accounting.direct import Direct


class Row(TypedDict):
    """The results of a run that a sweep keeps.

    Attributes:
        parameters: of a calculation its facts, of any type of JSON.
        keys: the keys of the summary by dotted names; empty if the run failed.
        costs: wall and processor seconds and bytes of memory, which differ from run to run.
        trace: the traceback of a failure, else empty.
        source: the code that made the run.
        folder: name of the run folder that is kept; empty: none.
    """

    identity: str
    parameters: dict[str, Any]
    seed: int
    error: str | None
    trace: str
    keys: dict[str, Any]
    costs: dict[str, float]
    source: Source
    folder: NotRequired[str]


#: Key of `Measured` that becomes the folder of the row.
FOLDER = "run folder"
#: The keys of a summary by dotted names, and measurements of the machine.
Measured = tuple[dict[str, Any], dict[str, float]]


def row_of(job: Job, run: Callable[[Job], Measured] | Exception) -> Row:
    """Runs a job, unless another process has failed to; the exception becomes the error of the row."""
    started, cpu = time.perf_counter(), time.process_time()
    keys, costs, error, trace = dict[str, Any](), dict[str, float](), None, ""
    try:
        if isinstance(run, Exception):
            raise run
        keys, costs = run(job)
    except Exception as problem:
        error, trace = f"{type(problem).__name__}: {problem}".splitlines()[0], traceback.format_exc()
    costs.setdefault("peak_memory_bytes", peak_memory())
    costs |= {"wall_s": time.perf_counter() - started, "cpu_s": time.process_time() - cpu}
    return Row(
        identity=job.identity,
        parameters=dict(job.parameters),
        seed=job.seed,
        error=error,
        trace=trace,
        keys=keys,
        costs=costs,
        source=job.source,
        folder=keys.pop(FOLDER, ""),
    )


def peak_memory() -> int:
    """Returns the greatest memory of this process since its start, bytes: a worker's earlier runs count."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def simulate_job(job: Job, keep: str | None = None) -> Row:
    """Simulates a job and accounts for it in this process (`captures.accounting.direct`), or calculates it.

    Args:
        keep: folder that keeps the run folder; None: it is removed.
    """
    try:
        if job.calculates:
            return row_of(job, lambda job: (measure_of(job)(job.parameters, job.seed), {}))
        return row_of(job, lambda job: _simulated(job, keep))
    finally:
        # A simulation runs without the collection of cycles, in which it leaves its routers; a worker makes
        # one after the other.
        gc.collect()


def simulate_in_worker(job: Job, keep: str | None = None) -> Row:
    """As `simulate_job`, as a task of Spark.

    What lives on, such as modules and the pool of filters, is hidden from the collections after later runs.
    """
    from captures.spark.workers import hide_objects

    try:
        return simulate_job(job, keep)
    finally:
        hide_objects()


def measured(experiment: Experiment, run: RunLayout, accounted: dict[str, Any]) -> Measured:
    """Returns the keys of a run, and those of them that measure the machine and not the network."""
    from captures.accounting.direct import flat
    from captures.rundir.measures import TIMINGS
    from testbed.results.conclude import of_the_run

    keys = flat({**of_the_run(experiment, run), **accounted})
    machine = ("accounting_s", *TIMINGS.read(run))
    return keys, {key: keys.pop(key) for key in machine if keys.get(key) is not None}


def kept(run_dir: Path, experiment: Experiment, engine: str, master: str = "") -> Measured:
    """Returns what `measured` returns, of a run whose folder is kept: with its tables and its report."""
    from testbed.results.conclude import report_run
    from testbed.terminal.progress import Progress

    summary, _ = report_run(run_dir, master, Progress(), engine)
    keys, costs = measured(experiment, RunLayout(run_dir), summary)
    return {**keys, FOLDER: run_dir.name}, costs


def accounted(job: Job, run_dir: Path) -> Measured:
    """Judges a run and accounts for it in this process."""
    from captures.accounting.direct import Direct
    from testbed.results.conclude import judge_run

    layout = RunLayout(run_dir)
    judge_run(layout, job.experiment)
    with Direct(run_dir) as direct:
        if job.measure:
            return measured_by(job, direct)
        return measured(job.experiment, layout, direct.summary())


def measured_by(job: Job, run: Direct) -> Measured:
    """Returns what the function of a job measures in a run.

    Raises:
        RunError: the verdict on the run does not hold for a reason that the job does not expect, so that its
            numbers show nothing; names the reasons.
    """
    found, reasons = run.verdict(job.expected)
    if found != HOLDS:
        raise RunError(f"verdict {found}: {'; '.join(reasons)}")
    return measure_of(job)(run, job.experiment), {}


def measure_of(job: Job) -> Callable[..., dict[str, Any]]:
    module, _, name = job.measure.partition(":")
    found: Callable[..., dict[str, Any]] = getattr(import_module(module), name)
    return found


def _simulated(job: Job, keep: str | None) -> Measured:
    # A worker of Spark imports what a run needs with its first task.
    from testbed.sim.simulation import simulate
    from testbed.terminal.progress import Progress

    own = tempfile.TemporaryDirectory(prefix="cbcb-sweep-", ignore_cleanup_errors=True)
    with own if keep is None else nullcontext(keep) as folder:
        run_dir = simulate(job.experiment, Path(folder), Progress(), job.captures)
        if keep is not None and not job.measure:
            return kept(run_dir, job.experiment, "duckdb")
        return accounted(job, run_dir)
