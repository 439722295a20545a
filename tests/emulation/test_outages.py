"""Runs on a full disk."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from captures.rundir import RunLayout
from captures.rundir.faults import read_faults
from router.recording.replay import state_at
from testbed.experiments.config.load import find_experiment
from tests.support.command import Cbcb, committed, left_behind, output_of
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


# A real ring that loses links, falls apart, becomes whole, loses a node and gets it back.


EVENTS = ["link_down 0-1", "link_down 2-3", "link_up 2-3", "link_up 0-1", "node_down 4", "node_up 4"]


@pytest.fixture(scope="module")
def run_dir(emulated: Callable[..., Path]) -> Path:
    return emulated("recovery", "--engine", "duckdb")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_changes_leave_only_their_surroundings_open(run_dir: Path) -> None:
    summary = json.loads((run_dir / "summary.json").read_text())
    assert summary["deliveries_made"] > 100
    assert summary["deliveries_undecided"] < summary["deliveries_expected"] / 2


def test_each_change_is_answered_by_an_epoch(run_dir: Path) -> None:
    summary = json.loads((run_dir / "summary.json").read_text())
    assert summary["epochs"] == 1 + len(EVENTS)
    assert [change["epoch"] for change in summary["recovery_s"]] == list(range(2, 2 + len(EVENTS)))
    for change, event in zip(summary["recovery_s"], EVENTS, strict=True):
        print(f"{event}: trees {change['committed_s']:.3f} s, RAs {change['advertised_s']:.3f} s")
        assert event in change["events"]
        assert 0 < change["committed_s"] < change["advertised_s"]


def test_routers_whose_links_came_and_went_are_replayed(run_dir: Path) -> None:
    assert "5 routers" in output_of("replay", str(run_dir))
    epochs = [e["t_ns"] for e in lines(run_dir / "logs" / "controller.jsonl") if e["event"] == "committed"]
    # A tenth of a second after each commit, node 3 is in that epoch, and knows its neighbours of it.
    states = []
    for t_ns in epochs:
        router = state_at(RunLayout(run_dir).recording(3), t_ns + 10**8)
        states.append((router.epoch, sorted(router.interfaces().values())))
    assert [epoch for epoch, _ in states] == list(range(1, 2 + len(EVENTS)))
    assert [neighbours for _, neighbours in states] == [*([[2, 4]] * 2), [4], *([[2, 4]] * 2), [2], [2, 4]]


def test_a_router_that_is_cut_off_says_what_it_could_not_send(run_dir: Path) -> None:
    routers = json.loads((run_dir / "counters" / "routers.json").read_text())
    assert routers["4"]["dropped"].get("send_failed", 0) > 0
    assert not any(routers[str(node)]["dropped"].get("send_failed", 0) for node in range(4))
