"""A run that is interrupted, killed, or loses a part leaves nothing on the machine after `cbcb clean`."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from captures.rundir import RunLayout
from captures.rundir.faults import read_faults
from captures.rundir.inputs import read_manifest
from captures.rundir.measures import read_lag
from testbed.experiments.config.load import find_experiment
from tests.support.applications import deliveries_so_far
from tests.support.command import CBCB, STATE, Cbcb, left_behind
from tests.support.network_namespaces import held_by_others, network_namespaces
from tests.support.paths import ROOT
from tests.support.polling import TIMEOUT, poll

pytestmark = pytest.mark.emulation

Start = Callable[..., Cbcb]
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


def test_a_held_network_whose_terminal_is_closed_is_accounted_for(tmp_path: Path) -> None:
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
    (folder,) = (path.parent for path in tmp_path.glob("*/manifest.json"))
    assert json.loads(RunLayout(folder).summary.read_text())["verdict"] == "holds"


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


def test_the_next_run_cleans_what_a_dead_one_left(cbcb: Start) -> None:
    dead = cbcb("run", *LONG)
    state = _routers_up(dead)
    dead.kill()
    dead.wait()
    output = cbcb("run", "ring5", "--set", "duration_s=61", "--no-account").ends()
    assert "removed what 1 dead runs had left" in output
    assert left_behind(state) == []


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
    faults = [(each["part"], each["what"]) for each in read_faults(layout)]
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
    links = read_manifest(layout)["links"]
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
        cbcb("account", name, "--engine", "duckdb").ends()
