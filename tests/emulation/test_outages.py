"""Runs during outages: Open vSwitch killed or restarted, a full disk."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from captures.rundir.lag import read_lag
from captures.rundir.layout import RunLayout
from tests.support.command import STATE, Cbcb, left_behind
from tests.support.polling import poll
from tests.support.switch_daemons import RunningSwitches

pytestmark = pytest.mark.emulation

Start = Callable[..., Cbcb]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """The folder of runs on a file system of 16 MiB."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(tmp_path)], check=True)
    yield tmp_path
    subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def events(run: Cbcb) -> list[dict[str, Any]]:
    """The whole lines of the controller's log so far."""
    logs = list(run.runs.glob("*/logs/controller.jsonl"))
    return [json.loads(line) for log in logs for line in log.read_text().splitlines(True) if line[-1] == "\n"]


def committed(run: Cbcb, routers: int, after: int = 0) -> int | None:
    """The number of the log's line that says that so many routers share an epoch; None: not yet."""
    for number, event in enumerate(events(run)):
        if number >= after and event["event"] == "committed" and event["routers"] == routers:
            return number
    return None


def test_a_restart_of_open_vswitch_is_an_outage_that_ends(cbcb: Start) -> None:
    scale = ("--set", "duration_s=600", "--set", "time_scale=30")
    run = cbcb("run", "ring5", *scale, "--hold", "--engine", "duckdb")
    first = poll(lambda: committed(run, 5), 300, "the network is up")
    switches = RunningSwitches(run.state())
    switches.kill()
    switches.restart()
    poll(lambda: committed(run, 5, first + 1), 120, "every router is back")
    run.interrupt()
    status, output = run.wait()
    assert status == 0, output
    (summary,) = (json.loads(path.read_text()) for path in run.runs.glob("*/summary.json"))
    assert [change["committed_s"] is not None for change in summary["recovery_s"]] == [True]
    (folder,) = run.runs.iterdir()
    status, output = cbcb("report", folder.name).wait()
    assert status == 0, output


def test_open_vswitch_that_stays_away_ends_the_run_and_leaves_nothing(cbcb: Start) -> None:
    run = cbcb("run", "ring5", "--set", "duration_s=6000", "--no-account")
    state = run.state()
    control = STATE / state["tag"] / "control.sock"
    poll(lambda: control.exists() or None, 300, "the workload is played")
    RunningSwitches(state).kill()
    status, output = run.wait()
    assert status == 1, output
    assert "ovs-vswitchd of the switches s0 to s4 ended during the run" in output
    (folder,) = run.runs.iterdir()
    lag = read_lag(RunLayout(folder))
    assert lag is not None
    assert {part["part"] for part in lag["parts"]} == {"router", "workload", "switches", "captures"}
    assert left_behind(state) == []


def test_a_full_disk_leaves_nothing_behind(small_disk: Path, cbcb: Start) -> None:
    # The preflight check knows that the disk is too small.
    run = cbcb("run", "ring5", "--set", "duration_s=6000", "--no-account", "--force")
    state = run.state()
    poll(lambda: committed(run, 5), 300, "the network is up")
    with (
        (small_disk / "ballast").open("wb", buffering=0) as ballast,
        pytest.raises(OSError, match="No space"),
    ):
        while True:
            ballast.write(bytes(4096))
    run.interrupt()
    status, output = run.wait()
    assert status in (3, 130), output
    assert left_behind(state) == []
