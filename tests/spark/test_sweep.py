"""Sweeps on Spark, interrupted and continued, or whose runs fail.

After all tests that share a session: a sweep ends the session of its process.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from rich.console import Console

from captures.spark.session import SessionError
from testbed.cli.main import main
from testbed.evaluation.figures.reproduction import (
    FIGURES,
    Case,
    Panel,
    Reproduction,
    Results,
    Statement,
    common,
)
from testbed.evaluation.sweeps.folder import SweepFolder
from testbed.evaluation.sweeps.job import Measured, Row, row_of
from testbed.evaluation.sweeps.runner import run_and_keep, sweep
from testbed.evaluation.sweeps.spec import Job, load_spec
from testbed.machine.versions import source_version
from testbed.terminal.progress import Progress
from tests.support.command import CBCB
from tests.support.paths import ROOT
from tests.support.polling import poll

pytestmark = pytest.mark.spark

_SPEC = Path(__file__).with_name("schemes.toml").read_text()

#: A driver that is killed when two runs have ended.
_KILLED = """
import os, signal, sys
from testbed.cli.main import main
from testbed.evaluation.sweeps.folder import SweepFolder

keep = SweepFolder.keep

def keeping(self, row):
    keep(self, row)
    if len(list((self.path / "rows").glob("*.json"))) == 2:
        os.kill(os.getpid(), signal.SIGKILL)

SweepFolder.keep = keeping
sys.exit(main(sys.argv[1:]))
"""


#: A job that is a call of a function of this project's tests.
_MEASURE = "tests.support.killing:measured"
_CALCULATED: dict[str, Any] = {"measure": _MEASURE, "calculates": True, "source": source_version(_MEASURE)}


def _written(folder: Path, seeds: int = 3) -> Path:
    path = folder / "s.toml"
    path.write_text(_SPEC.replace("seeds = 3", f"seeds = {seeds}"))
    return path


def test_a_killed_sweep_is_continued_and_ends_with_the_same_table(tmp_path: Path) -> None:
    """SIGKILL, so that the driver tidies nothing up."""
    path = _written(tmp_path, seeds=2)
    spec, progress = load_spec(path), Progress(Console(quiet=True))
    whole = sweep(spec, tmp_path / "whole", progress)
    assert whole.complaints == []
    assert list(whole.plots.values()) == [tmp_path / "whole" / "plot-1.svg"]
    killed = subprocess.Popen(
        [sys.executable, "-c", _KILLED, "sweep", str(path), "--runs", str(tmp_path)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        assert killed.wait(timeout=240) == -signal.SIGKILL
    finally:
        # Spark ends by itself when the driver is gone, but not at once.
        with suppress(ProcessLookupError):
            os.killpg(killed.pid, signal.SIGKILL)
    folder = tmp_path / "sweeps" / "s"
    assert not (folder / "runs.parquet").exists()
    ended = {row: row.stat().st_mtime_ns for row in (folder / "rows").glob("*.json")}
    assert len(ended) == 2
    again = sweep(spec, folder, progress)
    # What had ended was not run a second time.
    assert again.table.read_bytes() == whole.table.read_bytes()
    assert {row: row.stat().st_mtime_ns for row in ended} == ended


def test_a_signal_to_all_processes_ends_a_sweep_with_one_line(tmp_path: Path) -> None:
    """Spark's JVM gets it too: neither its end nor the runs that it had under way are failures."""
    spec = _written(tmp_path, seeds=200)
    sweeping = subprocess.Popen(
        [*CBCB, "sweep", str(spec), "--runs", str(tmp_path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    rows = tmp_path / "sweeps" / "s" / "rows"
    poll(lambda: next(rows.glob("*.json"), None) or sweeping.poll(), 240, "a run has ended")
    os.killpg(sweeping.pid, signal.SIGTERM)
    _, errors = sweeping.communicate(timeout=240)
    assert (sweeping.returncode, errors.splitlines()[-1]) == (130, "cbcb: interrupted")
    assert "Traceback" not in errors
    assert {json.loads(row.read_text())["error"] for row in rows.glob("*.json")} == {None}


def test_a_run_that_failed_is_repeated_on_request_alone(tmp_path: Path) -> None:
    path = _written(tmp_path, seeds=1)
    spec, progress, folder = load_spec(path), Progress(Console(quiet=True)), tmp_path / "sweeps" / "s"
    whole = sweep(spec, folder, progress).table.read_bytes()
    place, (job, _) = SweepFolder(folder), spec.jobs()

    def fails(_: Job) -> Measured:
        raise RuntimeError("the disk was full")

    place.keep(row_of(job, fails))
    complaints = sweep(spec, folder, progress).complaints
    assert complaints == ["run 0 failed (routing.scheme = pif, seed = 1): RuntimeError: the disk was full"]
    kept = {row: row.stat().st_mtime_ns for row in (folder / "rows").glob("*.json")}
    assert main(["sweep", str(path), "--runs", str(tmp_path), "--retry-failed"]) == 0
    assert (folder / "runs.parquet").read_bytes() == whole
    changed = {row.stem for row, time in kept.items() if row.stat().st_mtime_ns != time}
    assert changed == {job.identity}


def _calculated(folder: Path, kills: Sequence[int]) -> list[Job]:
    """Jobs that call a function of this project's tests, of which some kill their process."""
    (job, *_) = load_spec(_written(folder)).jobs()
    return [
        replace(job, number=number, identity=str(number), parameters={"kills": each}, **_CALCULATED)
        for number, each in enumerate(kills)
    ]


def test_a_task_that_kills_its_process_is_a_failure_of_one_run(tmp_path: Path) -> None:
    jobs = _calculated(tmp_path, (0, 1, 0, 0))
    rows = run_and_keep(
        jobs,
        SweepFolder(tmp_path / "swept"),
        "sweep_s",
        master="local[2]",
        progress=Progress(Console(quiet=True)),
    )
    assert {name: row["keys"] for name, row in rows.items() if row["error"] is None} == {
        name: {"kills": 0, "seed": 1} for name in ("0", "2", "3")
    }
    assert "Python worker exited unexpectedly" in rows["1"]["trace"]
    assert SweepFolder(tmp_path / "swept").rows(jobs) == rows


def test_a_context_that_spark_stops_by_itself_fails_no_run(tmp_path: Path) -> None:
    jobs = _calculated(tmp_path, [0] * 20)

    class Ending(SweepFolder):
        def keep(self, row: Row) -> None:
            if not self.rows(jobs):
                # As a JVM does that ends by itself, before its process has ended.
                SparkContext.getOrCreate()._jsc.sc().stop()
            super().keep(row)

    place, progress = Ending(tmp_path), Progress(Console(quiet=True))
    with pytest.raises(SessionError, match=r"ended before it was done; .*spark\.log says more"):
        run_and_keep(jobs, place, "sweep_s", master="local[2]", progress=progress)
    kept = place.rows(jobs)
    assert 0 < len(kept) < len(jobs)
    missing = [job for job in jobs if job.identity not in kept]
    run_and_keep(missing, place, "sweep_s", master="local[2]", progress=progress)
    assert [row["error"] for row in place.rows(jobs).values()] == [None] * len(jobs)


class Broken(Reproduction):
    """In one case routers keep RAs back, so that deliveries are missed, which the figure does not expect."""

    title = "Broken"
    paper = ("Nothing is missed.",)
    measure = "testbed.evaluation.figures.measures:false_negatives"

    def cases(self, size: str) -> list[Case]:
        del size
        keys = {
            "duration_s": 300,
            "time_scale": 10,
            "topology__nodes": 8,
            "workload__changing_receivers_percent": 100,
            "workload__predicate_change_interval_s": 60,
            "workload__messages_per_minute": 12,
        }
        return [
            Case("at once", common(**keys)),
            Case("kept back", common(**keys, protocol__ra_min_interval_s=200)),
        ]

    def judge(self, results: Results) -> list[Statement]:
        return [Statement(f"{case.label}: runs", "2", f"{len(results.runs(case))}", None) for case in results]

    def panels(self, results: Results) -> list[Panel]:
        return [Panel("t", "y", {case.label: results.curves(case) for case in results})]


def test_runs_that_fail_are_on_the_page_and_in_the_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    FIGURES.register("broken", Broken, "A figure of which half the runs fail.")
    try:
        line = ["figure", "broken", "--size", "small", "--seeds", "2", "--runs", str(tmp_path / "runs")]
        assert main([*line, "-o", str(tmp_path)]) == 1
    finally:
        FIGURES.unregister("broken")
    page = (tmp_path / "broken-small.md").read_text()
    assert "| runs | at once | 2 | 2 | shown |\n| runs | kept back | 2 | 0 | shown |\n" in page
    assert page.count("\n- kept back, seed ") == 2
    assert "failed kept back, seed 1: RunError: verdict fails: " in " ".join(capsys.readouterr().out.split())
