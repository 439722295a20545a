"""The conclusion on a session of Spark that was started before it was required."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest
from rich.console import Console

from captures.rundir import RunLayout
from captures.rundir.summary import read_summary
from captures.spark.folder import remove_abandoned
from captures.tables import TABLES, store
from testbed.cli.prepared import PreparedConclusion
from testbed.experiments.config.load import find_experiment, load_experiment
from testbed.sim.simulation import simulate
from testbed.terminal.progress import Progress
from tests.support.polling import poll
from tests.support.run_folder import good_run

pytestmark = pytest.mark.spark


def _spark_folders(pid: int) -> list[Path]:
    return list(Path("/tmp").glob(f"cbcb-spark-jvm-{pid}-*"))


def test_a_run_is_concluded_and_nothing_is_left(tmp_path: Path) -> None:
    experiment = load_experiment(find_experiment("ring5"), {"duration_s": "60"})
    run = simulate(experiment, tmp_path, Progress(Console(quiet=True)))
    with closing(PreparedConclusion("local[2]")) as prepared:
        prepared.start(run)
        process = prepared.process
        assert process is not None
        poll(lambda: _spark_folders(process.pid) or None, 240, "the process works")
        assert os.sched_getscheduler(process.pid) == os.SCHED_IDLE
        assert prepared.conclude(run) == 0
        summary = read_summary(RunLayout(run))
        assert (summary["verdict"], summary["rests_on"]["engine"]) == ("holds", "spark")
        assert store.lacking(run, TABLES) is None
    assert process.poll() is not None
    assert not _spark_folders(process.pid)


def test_a_process_that_is_not_required_ends_at_once(tmp_path: Path) -> None:
    with closing(PreparedConclusion("local[2]")) as prepared:
        prepared.start(tmp_path)
        process = prepared.process
        assert process is not None
        poll(lambda: _spark_folders(process.pid) or None, 240, "the process works")
    assert process.poll() is not None
    assert not _spark_folders(process.pid)


def test_a_process_that_has_ended_leaves_the_work_to_the_caller(tmp_path: Path) -> None:
    run = good_run().write(tmp_path / "run")
    with closing(PreparedConclusion("local[2]")) as prepared:
        assert prepared.conclude(run) is None
        prepared.start(tmp_path)
        assert prepared.process is not None
        prepared.process.kill()
        prepared.process.wait()
        assert prepared.conclude(run) is None
    remove_abandoned()
