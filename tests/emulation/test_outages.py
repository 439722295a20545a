"""Runs on a full disk."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from captures.rundir import RunLayout
from captures.rundir.faults import read_faults
from testbed.experiments.config.load import find_experiment
from tests.support.command import Cbcb, committed, left_behind
from tests.support.polling import poll
from tests.support.small_folder import fill

pytestmark = pytest.mark.emulation

Start = Callable[..., Cbcb]


def captured(run: RunLayout) -> int:
    """The bytes of the captures so far."""
    return sum(path.stat().st_size for path in run.captures_folder.glob("*.pcap"))


def recorded(run: RunLayout) -> int:
    """The bytes of the records of applications so far."""
    return sum(path.stat().st_size for path in run.applications_folder.iterdir())


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """The folder of runs on a file system of 16 MiB."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(tmp_path)], check=True)
    yield tmp_path
    subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def test_a_full_disk_leaves_nothing_behind(small_disk: Path, cbcb: Start) -> None:
    # The preflight check knows that the disk is too small.
    run = cbcb("run", "ring5", "--set", "duration_s=6000", "--no-account", "--force")
    state = run.state()
    layout = RunLayout(Path(state["run_dir"]))
    poll(lambda: committed(layout.path), 300, "the network is up")
    poll(lambda: recorded(layout) or None, 120, "applications connect, after the bring-up")
    fill(small_disk)
    run.interrupt()
    status, output = run.wait()
    assert status in (3, 130), output
    assert left_behind(state) == []


def test_a_disk_full_under_the_captures_alone_ends_the_run_which_is_accounted_for(cbcb: Start) -> None:
    scale = ("--set", "duration_s=6000", "--set", "time_scale=10")
    run = cbcb("run", "ring5", *scale, "--engine", "duckdb", "--force", small="pcap")
    state = run.state()
    layout = RunLayout(Path(state["run_dir"]))
    poll(lambda: committed(layout.path), 300, "the network is up")
    played = captured(layout)
    poll(lambda: captured(layout) > played + 4096 or None, 120, "messages are captured")
    fill(layout.captures_folder)
    output = run.ends(1)
    assert "captures died during the run: [Errno 28] No space left on device" in output
    assert left_behind(state) == []
    summary = json.loads(layout.summary.read_text())
    assert summary["verdict"] == "fails"
    assert "captures died during the run: [Errno 28] No space" in summary["verdict_reasons"][0]
    assert summary["frames_by_type"]["MSG"] > 0
    # Records and counters had room, and are whole.
    assert summary["reconciliation"]["applications"]["differences"] == []
    assert [(each["part"], each["what"]) for each in read_faults(layout)] == [("captures", "lost")]


def test_a_disk_full_under_the_logs_alone_loses_nothing_once_it_has_room(cbcb: Start) -> None:
    run = cbcb("run", "ring5", "--set", "duration_s=120", "--engine", "duckdb", "--force", small="logs")
    state = run.state()
    layout = RunLayout(Path(state["run_dir"]))
    poll(lambda: committed(layout.path), 300, "the network is up")
    ballast = fill(layout.logs_folder)
    before = recorded(layout)
    played = captured(layout)
    poll(lambda: captured(layout) > played + 16384 or None, 120, "messages cross links meanwhile")
    # What was recorded meanwhile waits in the routers, but for the rest of the blocks that the files had.
    assert recorded(layout) < before + 5 * 4096
    ballast.unlink()
    run.ends()
    summary = json.loads(layout.summary.read_text())
    assert (summary["verdict"], summary["records_lost"]) == ("holds", 0)
    assert all(account["differences"] == [] for account in summary["reconciliation"].values())


@pytest.mark.parametrize("event", [False, True])
def test_a_disk_full_under_the_logs_to_the_end_is_named_and_leaves_nothing_behind(
    tmp_path: Path, cbcb: Start, event: bool
) -> None:
    """With an event, the controller cannot log it, and ends."""
    file = tmp_path / "ring5.toml"
    text = find_experiment("ring5").read_text()
    file.write_text(
        text + ('\n[[events]]\nat_s = 120\naction = "link_down"\nlink = [0, 1]\n' if event else "")
    )
    duration_s = 6000 if event else 120
    run = cbcb(
        "run", str(file), "--set", f"duration_s={duration_s}", "--engine", "duckdb", "--force", small="logs"
    )
    state = run.state()
    layout = RunLayout(Path(state["run_dir"]))
    poll(lambda: committed(layout.path), 300, "the network is up")
    fill(layout.logs_folder)
    output = run.ends(3)
    assert f"{layout.logs_folder}: No space left on device" in output
    assert left_behind(state) == []
    assert captured(layout) > 0
