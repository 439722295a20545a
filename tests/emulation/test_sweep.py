"""A sweep and a figure whose runs are emulated, on this machine or on several."""

from __future__ import annotations

import fcntl
import os
import pickle
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from captures.rundir import RunLayout
from captures.rundir.inputs import MANIFEST
from router.system import start_module
from testbed import api
from testbed.evaluation.figures.reproduction import Case, Panel, Reproduction, Results, Statement
from testbed.evaluation.figures.runner import Origin, reproduce
from testbed.evaluation.sweeps import runner
from testbed.evaluation.sweeps.job import Measured, kept
from testbed.support.run_state import STATE_ROOT
from testbed.terminal.progress import Progress
from tests.support.command import CBCB
from tests.support.machines import machines
from tests.support.polling import poll, wait_for

pytestmark = pytest.mark.emulation

#: A workload file of the protocol authors' simulator: a line of three.
_WORKLOAD = """\
time_unit 0.1 ; sim_length 40 ;
node 0 0 0 , node 1 10 0 , node 2 20 0 ,
link 0 1 1 , link 1 2 1 ,
set_predicate 2 0 0 a > 3 ;
send_message 0 30 a = 4 ;
send_message 0 31 a = 3 ;
send_message 2 32 a = 9 ;
"""
_SPEC = """\
experiment = "three.wl"
engine = "run"
[grid]
"routing.scheme" = ["pif", "flooding"]
"""
_COLUMNS = ("routing.scheme", "verdict", "messages_sent", "deliveries_made", "message_crossings.cbcb")
#: What `_COLUMNS` have in the table of the sweep.
_EXPECTED = [("pif", "holds", 3, 2, 2), ("flooding", "holds", 3, 2, 6)]


def test_a_sweep_emulates_a_workload_file_under_each_scheme_and_accounts_again_if_spark_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accounted = []

    def ending(run_dir: Path, *others: Any) -> Measured:
        accounted.append(run_dir)
        if len(accounted) == 1:
            threading.Thread(target=_end_spark).start()
        return kept(run_dir, *others)

    monkeypatch.setattr(runner, "kept", ending)
    (tmp_path / "three.wl").write_text(_WORKLOAD)
    path = tmp_path / "s.toml"
    path.write_text(_SPEC)
    folder = tmp_path / "swept"
    swept = api.sweep(path, folder=folder, master="local[1]")
    assert swept.complaints == []
    # The first run twice.
    first, *others = accounted
    assert (len(accounted), others.count(first)) == (3, 1)
    assert [tuple(row[column] for column in _COLUMNS) for row in swept.runs.to_pylist()] == _EXPECTED
    runs = sorted(each.name for each in (folder / "runs").iterdir())
    assert len(runs) == 2
    # What has ended is not emulated a second time.
    table = swept.table.read_bytes()
    assert api.sweep(path, folder=folder, retry=True).table.read_bytes() == table
    assert sorted(each.name for each in (folder / "runs").iterdir()) == runs


def test_a_machine_that_emulates_already_says_so_at_once() -> None:
    STATE_ROOT.mkdir(mode=0o755, exist_ok=True)
    with (STATE_ROOT / "machine.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with start_module("testbed.evaluation.sweeps.machine_run", "run", stdin=subprocess.PIPE) as machine:
            assert machine.stdin is not None
            machine.stdin.write(pickle.dumps(None))
            machine.stdin.flush()
            assert machine.wait(60) == os.EX_TEMPFAIL


@pytest.mark.spark
def test_a_sweep_over_machines_outlives_ctrl_c_and_a_worker(tmp_path: Path) -> None:
    (tmp_path / "three.wl").write_text(_WORKLOAD)
    spec = tmp_path / "s.toml"
    spec.write_text(_SPEC)
    swept = tmp_path / "runs" / "sweeps" / "s"

    def started() -> subprocess.Popen[str]:
        """Starts the sweep, in a process group of its own, and waits until a run has routers."""
        command = [*CBCB, "sweep", str(spec), "--runs", str(tmp_path / "runs"), "--master", cluster.url]
        driver = subprocess.Popen(
            [*cluster.inside, *command],
            env=cluster.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        poll(lambda: first.routers() or driver.poll() or None, 600, "the first machine has routers")
        return driver

    # The first worker takes two runs at once, its machine one.
    with machines(tmp_path, (2, 1)) as cluster:
        first, _ = cluster.machines
        driver = started()
        os.killpg(driver.pid, signal.SIGINT)
        printed, said = driver.communicate(timeout=60)
        assert driver.returncode == 130, printed + said
        assert not [*swept.glob("rows/*")]
        assert not [*(tmp_path / "driver").glob("cbcb-*")]
        wait_for(lambda: "; ".join(left for each in cluster.machines for left in each.remains()) or None)
        driver = started()
        first.kill_worker()
        printed, said = driver.communicate(timeout=600)
        assert driver.returncode == 0, printed + said
        assert "its worker was lost; it is begun again" in printed
        assert "m1: does not answer" in printed
        poll(lambda: not first.remains() or None, 120, "the first machine has taken its network down")
        assert [each.remains() for each in cluster.machines] == [[], []]
    # As the sweep above, on this machine.
    rows = pq.read_table(swept / "runs.parquet").to_pylist()
    assert [tuple(row[column] for column in _COLUMNS) for row in rows] == _EXPECTED
    hosts = [MANIFEST.read(RunLayout(each))["machine"] for each in swept.glob("runs/[0-9]*")]
    assert hosts == ["m2", "m2"]


def _end_spark() -> None:
    """Stops the context that another thread starts, as a JVM does that ends by itself."""
    session = poll(lambda: SparkSession._instantiatedSession, 120, "Spark starts")
    session.sparkContext._jsc.sc().stop()


class _Ring(Reproduction):
    """Half an experiment minute of the ring of five."""

    title = "A ring"
    paper = ()
    measure = "testbed.evaluation.figures.measures:false_negatives"
    emulated_scale = 10.0

    def cases(self, size: str) -> list[Case]:
        overrides = {
            "duration_s": "31",
            "links.delay_ms": "1",
            "topology.generator": "ring",
            "topology.nodes": "5",
            "workload.senders_percent": "60",
            "workload.receivers_percent": "100",
            "workload.messages_per_minute": "120",
            "workload.first_message_s": "10",
        }
        return [Case(f"ring, {size}", overrides)]

    def judge(self, results: Results) -> list[Statement]:
        (case,) = results
        return [
            Statement(key, "some", results.band(case, key), (results.median(case, key) > 0) == some)
            for key, some in (("missed_after_5_s", False), ("expected", True))
        ]

    def panels(self, results: Results) -> list[Panel]:
        (case,) = results
        return [Panel("missed", "share", {"ring": results.curves(case)})]


def test_a_figure_is_measured_on_an_emulation(tmp_path: Path) -> None:
    figure = _Ring()
    done = reproduce(figure, Origin("ring", "small", 1, "run"), tmp_path, Progress(Console(quiet=True)))
    assert done.failures == []
    assert [each.holds for each in figure.judge(done.results)] == [True, True]
    assert all(curve for panel in figure.panels(done.results) for curve in panel.curves["ring"])
