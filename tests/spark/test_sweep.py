"""A sweep on Spark, interrupted and continued."""

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

import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext
from rich.console import Console

from captures.spark.session import SessionError
from testbed.evaluation.sweeps import runner as module
from testbed.evaluation.sweeps.folder import SweepFolder
from testbed.evaluation.sweeps.job import Measured, Row, row_of
from testbed.evaluation.sweeps.runner import run_and_keep, run_jobs, sweep
from testbed.evaluation.sweeps.spec import Job, load_spec
from testbed.machine.versions import source_version
from testbed.terminal.progress import Progress
from tests.support.command import CBCB
from tests.support.paths import ROOT
from tests.support.polling import poll

pytestmark = pytest.mark.spark

_SPEC = """\
experiment = "ring5"
seeds = 3
[set]
[grid]
"routing.scheme" = ["pif", "flooding"]
[[plot]]
y = "message_crossings.cbcb / message_crossings.broadcast"
x = "routing.scheme"
"""

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


def _written(folder: Path) -> Path:
    path = folder / "s.toml"
    path.write_text(_SPEC)
    return path


class StoppedError(Exception):
    """Stands for Ctrl-C, in the thread of the test."""


def test_an_interrupted_sweep_ends_with_the_same_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _written(tmp_path)
    spec, progress = load_spec(path), Progress(Console(quiet=True))
    whole = sweep(spec, tmp_path / "whole", progress)
    assert (whole.complaints, whole.unfinished) == ([], 0)

    class Stopping(SweepFolder):
        def keep(self, row: Row) -> None:
            super().keep(row)
            if len(list((self.path / "rows").glob("*.json"))) == 2:
                raise StoppedError

    with monkeypatch.context() as patch:
        patch.setattr(module, "SweepFolder", Stopping)
        with pytest.raises(StoppedError):
            sweep(spec, tmp_path / "again", progress)
    ended = {row: row.stat().st_mtime_ns for row in (tmp_path / "again" / "rows").glob("*.json")}
    assert len(ended) == 2
    again = sweep(spec, tmp_path / "again", progress)
    assert again.table.read_bytes() == whole.table.read_bytes()
    # What had ended was not run a second time.
    assert {row: row.stat().st_mtime_ns for row in ended} == ended
    crossings = {name: whole.runs[f"message_crossings.{name}"].to_pylist() for name in ("cbcb", "broadcast")}
    # Flooding is the second half.
    assert crossings["cbcb"][3:] == crossings["broadcast"][3:]
    assert all(cbcb < all_ for cbcb, all_ in zip(crossings["cbcb"][:3], crossings["broadcast"], strict=False))
    points = pq.read_table(tmp_path / "whole" / "points.parquet").to_pylist()
    (found,) = [p for p in points if p["key"] == "message_crossings.cbcb" and p["routing.scheme"] == "pif"]
    assert found["mean"] == pytest.approx(sum(crossings["cbcb"][:3]) / 3)
    assert list(whole.plots.values()) == [tmp_path / "whole" / "plot-1.svg"]


def test_a_killed_sweep_is_continued_and_ends_with_the_same_table(tmp_path: Path) -> None:
    """SIGKILL, so that the driver tidies nothing up."""
    path = _written(tmp_path)
    spec, progress = load_spec(path), Progress(Console(quiet=True))
    whole = sweep(spec, tmp_path / "whole", progress)
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
    assert again.table.read_bytes() == whole.table.read_bytes()
    assert {row: row.stat().st_mtime_ns for row in ended} == ended


def test_a_signal_to_all_processes_ends_a_sweep_with_one_line(tmp_path: Path) -> None:
    """Spark's JVM gets it too: neither its end nor the runs that it had under way are failures."""
    spec = tmp_path / "s.toml"
    spec.write_text(_SPEC.replace("seeds = 3", "seeds = 200"))
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
    path = tmp_path / "s.toml"
    path.write_text(_SPEC.replace("seeds = 3", "seeds = 1"))
    spec, progress, folder = load_spec(path), Progress(Console(quiet=True)), tmp_path / "sweeps" / "s"
    whole = sweep(spec, folder, progress).table.read_bytes()
    place, (job, _) = SweepFolder(folder), spec.jobs()

    def fails(_: Job) -> Measured:
        raise RuntimeError("the disk was full")

    place.keep(row_of(job, fails))
    complaints = sweep(spec, folder, progress).complaints
    assert complaints == ["run 0 failed (routing.scheme = pif, seed = 1): RuntimeError: the disk was full"]
    kept = {row: row.stat().st_mtime_ns for row in (folder / "rows").glob("*.json")}
    command = [*CBCB, "sweep", str(path), "--runs", str(tmp_path), "--retry-failed"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (folder / "runs.parquet").read_bytes() == whole
    changed = {row.stem for row, time in kept.items() if row.stat().st_mtime_ns != time}
    assert changed == {job.identity}


def test_a_task_that_kills_its_process_is_a_failure_of_one_run(tmp_path: Path) -> None:
    (job, *_) = load_spec(_written(tmp_path)).jobs()
    jobs = [
        replace(job, number=number, identity=str(number), parameters={"kills": kills}, **_CALCULATED)
        for number, kills in enumerate((0, 1, 0, 0))
    ]
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
    (job, *_) = load_spec(_written(tmp_path)).jobs()
    jobs = [
        replace(job, number=number, identity=str(number), parameters={"kills": 0}, **_CALCULATED)
        for number in range(20)
    ]
    rows: list[Row] = []

    def ended(row: Row) -> None:
        if not rows:
            # As a JVM does that ends by itself, before its process has ended.
            SparkContext.getOrCreate()._jsc.sc().stop()
        rows.append(row)

    def run(some: Sequence[Job]) -> None:
        progress = Progress(Console(quiet=True))
        run_jobs(some, tmp_path, ended, master="local[2]", progress=progress)

    with pytest.raises(SessionError, match=r"ended before it was done; .*spark\.log says more"):
        run(jobs)
    kept = {row["identity"] for row in rows}
    assert 0 < len(kept) < len(jobs)
    run([job for job in jobs if job.identity not in kept])
    assert [row["error"] for row in rows] == [None] * len(jobs)
