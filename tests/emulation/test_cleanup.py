"""A run that is interrupted, killed, or loses a part leaves nothing on the machine after `cbcb clean`."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from captures.rundir import RunLayout
from captures.rundir.faults import read_faults
from captures.rundir.inputs import read_manifest
from testbed.experiments.config.load import find_experiment
from tests.support.applications import deliveries_so_far
from tests.support.command import CBCB, STATE, Cbcb, left_behind
from tests.support.network_namespaces import HeldNamespaces
from tests.support.paths import ROOT
from tests.support.polling import TIMEOUT, poll
from tests.support.switch_daemons import kill_switches

pytestmark = pytest.mark.emulation

Start = Callable[..., Cbcb]
#: A part -> a word of its command line, and what the run prints when it has ended.
VICTIMS = {
    "router": ("router.runtime.parent", "router r"),
    "controller": ("testbed.controller", "the controller"),
    "database": ("ovsdb-server", "ovsdb-server of the switches s0 to s4 ended during the run"),
    "captures": ("capturing.recorder", "captures died"),
}
#: Of the last, by an event of the experiment; the others by a signal that the run knows nothing of.
BY_EVENT = "captures"
_SHAPED = '\n[[events]]\nat_s = 5\naction = "link_impair"\nbandwidth_mbps = 50\n'
_KILLED = '\n[[events]]\nat_s = 60\naction = "captures_kill"\n'
LONG = ("ring5", "--set", "duration_s=6000", "--no-account")


def _routers_up(run: Cbcb) -> dict[str, object]:
    """The state once the whole network is up: switches, captures, controller, and the routers' sockets."""

    def up() -> dict[str, object] | None:
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
    status, output = run.wait()
    assert status == 130, output
    assert left_behind(state) == []
    command = f"cbcb account {folder}"
    assert f"cbcb: interrupted; `{command}` accounts for what there is of the run" in output
    status, output = cbcb(*command.split()[1:], "--engine", "duckdb").wait()
    assert status == 1, output
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
    status, output = run.wait()
    assert status == 5, output
    assert "cbcb: bring-up interrupted at " in output
    assert left_behind(state) == []


def test_kill_9_of_open_vswitch_and_the_runner_leaves_nothing_after_clean(cbcb: Start) -> None:
    run = cbcb("run", *LONG)
    state = _routers_up(run)
    with HeldNamespaces(run.process.pid) as namespaces:
        assert namespaces.devices("veth") > {"s0-h", "r0-eth0", "s4-h", "r4-eth0"}
        kill_switches(state)
        run.kill()
        run.wait()
        status, output = cbcb("clean").wait()
        namespaces.wait_until_released()
    assert status == 0, output
    assert "removed what 1 dead runs left" in output
    assert left_behind(state) == []


def test_the_next_run_cleans_what_a_dead_one_left(cbcb: Start) -> None:
    dead = cbcb("run", *LONG)
    state = _routers_up(dead)
    dead.kill()
    dead.wait()
    status, output = cbcb("run", "ring5", "--set", "duration_s=61", "--no-account").wait()
    assert status == 0, output
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
        os.kill(_find(state=run.state(), victim=victim), signal.SIGKILL)
    status, output = run.wait()
    assert status == 1, output
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
    # What was measured of the links is kept, too: both ways of six links.
    links = read_manifest(layout)["links"]
    assert [(row["property"], row["required"]) for row in links] == [("bandwidth_mbps", 50.0)] * 12


def _find(state: dict[str, object], victim: str) -> int:
    wanted = VICTIMS[victim][0]
    processes = state["processes"]
    assert isinstance(processes, list)
    found = [
        int(process["pid"])
        for process in processes
        if wanted.encode() in Path(f"/proc/{process['pid']}/cmdline").read_bytes()
    ]
    # The routers' parent is noted first, the routers after it.
    return found[-1]


def test_two_runs_at_once_do_not_disturb_each_other(cbcb: Start) -> None:
    runs = [cbcb("run", "ring5", "--no-account") for _ in range(2)]
    for run in runs:
        status, output = run.wait()
        assert status == 0, output
    folders = {path.name for path in runs[0].runs.iterdir()}
    assert len(folders) == 2
    for name in folders:
        status, output = cbcb("account", name, "--engine", "duckdb").wait()
        assert status == 0, output
