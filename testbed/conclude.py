"""The conclusion of a finished run: oracle, accounting, summary, report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from captures.accounting.account import TooLargeError, account, account_directly
from captures.accounting.verdict import FAILS, HOLDS, INVALID
from captures.pcap.reader import PcapError
from captures.rundir.layout import RunLayout
from captures.rundir.manifest import read_manifest
from captures.rundir.summary import write_summary
from captures.rundir.timings import read_timings
from captures.spark.session import Session, SessionError
from captures.tables.store import BusyError
from testbed.config.load import load_experiment
from testbed.config.model import Experiment
from testbed.errors import InputError, MachineError
from testbed.full_disk import naming_a_full_disk
from testbed.judges import judge_run
from testbed.report.render import write_report
from testbed.terminal.progress import Progress
from testbed.terminal.summary import print_summary

#: Engines of the accounting, with their names.
ENGINES = {"spark": "Spark", "duckdb": "DuckDB"}
#: Verdict -> exit status.
STATUS = {HOLDS: 0, FAILS: 1, INVALID: 4}


def account_and_report(
    run_dir: Path,
    master: str,
    progress: Progress,
    console: Console,
    engine: str = "spark",
    spark: Session | None = None,
) -> int:
    """Writes the oracle's answers, the tables, the summary and the report, and prints the summary.

    Args:
        run_dir: a complete run folder.
        master: Spark master URL.
        engine: `spark`, or `duckdb` for a small run.
        spark: a session of `captures.spark.session`; None: a new session.

    Returns:
        0 if the verdict holds, 1 if it fails, 4 if the run is invalid.

    Raises:
        RunFolderError: the run folder is incomplete or malformed.
        InputError: a capture is malformed, another process accounts for the run, or its captures are too
            large for the engine.
        MachineError: Spark cannot be run, or the file system of the run folder is full.
    """
    run = RunLayout(run_dir)
    experiment = load_experiment(run.experiment)
    first = of_the_run(experiment, run)

    def publish(accounted: dict[str, Any]) -> None:
        write_summary(run, {**first, **accounted})

    with naming_a_full_disk(run_dir):
        with progress.stage("oracle_s", "oracle"):
            judge_run(run, experiment)
        with progress.stage("accounting_s", f"accounting on {ENGINES[engine]}"):
            try:
                if engine == "duckdb":
                    accounted = account_directly(run_dir, publish, progress.update)
                else:
                    accounted = account(
                        run_dir, master=master, spark=spark, publish=publish, progress=progress.update
                    )
            except (PcapError, BusyError, TooLargeError) as error:
                raise InputError(str(error)) from error
            except SessionError as error:
                raise MachineError(str(error)) from error
        summary = {**first, **accounted}
        with progress.stage("report_s", "report"):
            report = write_report(run_dir)
    console.print()
    print_summary(console, summary, report)
    return STATUS[summary["verdict"]]


def of_the_run(experiment: Experiment, run: RunLayout) -> dict[str, Any]:
    """Returns the keys of the summary that the runner provides (captures.rundir.summary_keys documents all
    keys)."""
    manifest = read_manifest(run)
    # The last file of a complete emulation is read first, so that other folders are refused at once.
    timings = read_timings(run)
    return {
        "experiment": experiment.name,
        "routers": len(experiment.topology.nodes),
        "links": len(experiment.topology.links),
        "duration_s": experiment.duration_s,
        "datapath": manifest["datapath"],
        **{key: round(value, 3) for key, value in timings.items()},
    }
