"""Runs on a full disk, with links that fail, and runs that are killed: the accounts, and what is left."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from captures.rundir import RunLayout
from captures.rundir.faults import FAULTS
from captures.rundir.inputs import MANIFEST
from captures.rundir.measures import read_lag
from router.recording.replay import state_at
from testbed.experiments.config.load import find_experiment
from tests.support.applications import deliveries_so_far
from tests.support.command import CBCB, STATE, Cbcb, accounted, committed, left_behind, output_of
from tests.support.network_namespaces import held_by_others, network_namespaces
from tests.support.paths import ROOT
from tests.support.polling import TIMEOUT, poll
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
    assert [(each["part"], each["what"]) for each in FAULTS.read_all(layout)] == [("captures", "lost")]


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
    return emulated("recovery", "--no-account")


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
        assert event in change["events"]
        # The controller may read the last ACK when the RAs have spread.
        assert min(change["committed_s"], change["advertised_s"]) > 0


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


# Runs that are interrupted, killed, or lose a part: nothing is left after cbcb clean.


#: A part -> a word of its command line, and what the run prints when it has ended.
VICTIMS = {
    "router": ("router.runtime.parent", "router r"),
    "controller": ("testbed.controller", "the controller"),
    "database": ("ovsdb-server", "ovsdb-server of the switches s0 to s4 ended during the run"),
    "switches": ("ovs-vswitchd", "ovs-vswitchd of the switches s0 to s4 ended during the run"),
    "captures": ("capturing.recorder", "captures died"),
}
#: Of the last, by an event of the experiment; the others by a signal that the run knows nothing of.
BY_EVENT = "captures"
_SHAPED = '\n[[events]]\nat_s = 5\naction = "link_impair"\nbandwidth_mbps = 50\n'
_KILLED = '\n[[events]]\nat_s = 60\naction = "captures_kill"\n'
LONG = ("ring5", "--set", "duration_s=6000", "--no-account")
#: The loops of which each run measures the turns.
LOOPS = {"router", "workload", "captures", "controller"}


def _routers_up(run: Cbcb) -> dict[str, Any]:
    """The state once the whole network is up: switches, captures, controller, and the routers' sockets."""

    def up() -> dict[str, Any] | None:
        state = run.state()
        folder = STATE / state["tag"]
        sockets = list(folder.glob("r*.sock"))
        # The socket of commands is there while the workload is played: the bring-up is over.
        whole = len(sockets) == 5 and len(state["processes"]) >= 2 + 1 + 2 + 5
        return state if whole and (folder / "control.sock").exists() else None

    return poll(up, 300, "the network is up")


def test_ctrl_c_leaves_a_folder_that_can_be_accounted_for_and_nothing_else(cbcb: Start) -> None:
    run = cbcb("run", *LONG)
    state = _routers_up(run)
    folder = Path(str(state["run_dir"]))
    poll(lambda: deliveries_so_far(folder) or None, TIMEOUT, "a message is delivered")
    run.interrupt()
    output = run.ends(130)
    assert left_behind(state) == []
    command = f"cbcb account {folder}"
    assert f"cbcb: interrupted; `{command}` accounts for what there is of the run" in output
    cbcb(*command.split()[1:], "--engine", "duckdb").ends(1)
    first, *others = json.loads(RunLayout(folder).summary.read_text())["verdict_reasons"]
    assert re.fullmatch(r"the run ended at [0-9.]+ s: its user interrupted it", first)
    # No evidence is missing, and none contradicts another; few messages were sent.
    assert [reason for reason in others if not reason.startswith("none of ")] == []


def test_the_next_run_cleans_what_a_dead_one_left_and_is_accounted_for_when_its_terminal_is_closed(
    cbcb: Start, tmp_path: Path
) -> None:
    dead = cbcb("run", *LONG)
    state = _routers_up(dead)
    dead.kill()
    dead.wait()
    ours, terminal = os.openpty()
    arguments = ["run", "ring5", "--hold", "--engine", "duckdb", "--runs", str(tmp_path)]
    # The process leads a session whose terminal it is, and gets SIGHUP from the kernel.
    leading = ["env", "--default-signal=SIGHUP", "setsid", "--ctty"]
    process = subprocess.Popen(
        [*leading, *CBCB, *arguments], cwd=ROOT, stdin=terminal, stdout=terminal, stderr=terminal
    )
    os.close(terminal)
    held = b"stays up until Ctrl-C"
    printed = b""
    while held not in printed:
        printed += os.read(ours, 65536)
    os.close(ours)
    assert process.wait(TIMEOUT) == 0
    assert b"removed what 1 dead runs had left" in printed
    assert left_behind(state) == []
    (summary,) = tmp_path.glob("*/summary.json")
    assert json.loads(summary.read_text())["verdict"] == "holds"


def test_ctrl_c_in_the_bring_up_has_a_status_of_its_own_and_leaves_nothing(cbcb: Start) -> None:
    run = cbcb("run", *LONG)

    def begun() -> dict[str, object] | None:
        state = run.state()
        return state if state["processes"] else None

    state = poll(begun, 300, "the bring-up has begun")
    run.interrupt()
    output = run.ends(5)
    assert "cbcb: bring-up interrupted at " in output
    assert left_behind(state) == []


def test_kill_9_of_open_vswitch_and_the_runner_leaves_nothing_after_clean(cbcb: Start) -> None:
    run = cbcb("run", *LONG)
    state = _routers_up(run)
    own = str(Path("/proc/self/ns/net").readlink())
    held = {name: path for name, path in network_namespaces([run.process.pid]) if name != own}
    with ExitStack() as stack:
        # Open until the end: the kernel gives the name of a namespace that is gone to another one.
        opened = [stack.enter_context(path.open("rb")).fileno() for path in held.values()]
        devices = {name for descriptor in opened for name in _devices(descriptor)}
        assert devices > {"s0-h", "r0-eth0", "s4-h", "r4-eth0"}
        os.kill(_find(state, "switches"), signal.SIGKILL)
        run.kill()
        run.wait()
        status, output = cbcb("clean").wait()
        # The kernel removes such a namespace with its veth devices, and with the TAP devices of Open vSwitch.
        poll(lambda: not held_by_others(set(held)) or None, TIMEOUT, "no process holds a namespace")
    assert status == 0, output
    assert "removed what 1 dead runs left" in output
    assert left_behind(state) == []


def _devices(namespace: int) -> list[str]:
    """The names of the devices in a network namespace."""
    listing = ["nsenter", f"--net=/proc/self/fd/{namespace}", "ip", "-json", "link"]
    listed = subprocess.run(listing, pass_fds=[namespace], capture_output=True, check=True)
    return [link["ifname"] for link in json.loads(listed.stdout)]


@pytest.mark.parametrize("victim", VICTIMS)
def test_a_part_that_is_killed_ends_the_run_which_is_accounted_for_up_to_there(
    cbcb: Start, tmp_path: Path, victim: str
) -> None:
    file = tmp_path / "loses.toml"
    text = find_experiment("ring5").read_text().replace("duration_s = 60", "duration_s = 6000")
    file.write_text(text + _SHAPED + (_KILLED if victim == BY_EVENT else ""))
    run = cbcb("run", str(file), "--engine", "duckdb", "--force")
    state = run.state()
    layout = RunLayout(Path(state["run_dir"]))
    if victim != BY_EVENT:
        _routers_up(run)
        poll(lambda: deliveries_so_far(layout.path) > 50 or None, TIMEOUT, "messages are delivered")
        os.kill(_find(run.state(), victim), signal.SIGKILL)
    output = run.ends(1)
    assert f"the run has ended early: {VICTIMS[victim][1]}" in output
    assert left_behind(state) == []
    faults = [(each["part"], each["what"]) for each in FAULTS.read_all(layout)]
    assert faults == [*([(victim, "killed")] if victim == BY_EVENT else []), (victim, "lost")]
    summary = json.loads(layout.summary.read_text())
    assert summary["verdict"] == "fails"
    assert VICTIMS[victim][1] in summary["verdict_reasons"][0]
    assert summary["messages_sent"] > 0
    assert summary["deliveries_decided"] > 0
    assert summary["false_negatives_after_convergence"] == 0
    assert summary["frames_by_type"]["MSG"] > 0
    # The turns of the loops are measured, in wall time and in CPU time; a controller that has nothing to do
    # takes no turn. The greatest may be 0 where the kernel counts CPU time by ticks.
    lag = read_lag(layout)
    assert lag is not None
    turning = {part["part"] for part in lag["parts"] if part.get("turn_s", 0) > 0}
    assert LOOPS - {"controller", victim} <= turning
    assert LOOPS - {victim} <= {part["part"] for part in lag["parts"] if "turn_cpu_s" in part}
    # What was measured of the links is kept, too: both ways of six links.
    links = MANIFEST.read(layout)["links"]
    assert [(row["property"], row["required"]) for row in links] == [("bandwidth_mbps", 50.0)] * 12


def _find(state: dict[str, Any], victim: str) -> int:
    word = VICTIMS[victim][0].encode()
    pids = [process["pid"] for process in state["processes"]]
    # The routers' parent is noted first, the routers after it.
    return int([pid for pid in pids if word in Path(f"/proc/{pid}/cmdline").read_bytes()][-1])


def test_two_runs_at_once_do_not_disturb_each_other(cbcb: Start) -> None:
    runs = [cbcb("run", "ring5", "--no-account") for _ in range(2)]
    for run in runs:
        run.ends()
    folders = {path.name for path in runs[0].runs.iterdir()}
    assert len(folders) == 2
    for name in folders:
        assert accounted(runs[0].runs / name)["verdict"] == "holds"
