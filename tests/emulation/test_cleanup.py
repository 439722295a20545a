"""A run that is interrupted or killed leaves nothing on the machine after `cbcb clean`."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command import STATE, Cbcb, left_behind
from tests.support.network_namespaces import HeldNamespaces
from tests.support.polling import poll
from tests.support.switch_daemons import RunningSwitches

pytestmark = pytest.mark.emulation

Start = Callable[..., Cbcb]
#: A part -> a word of its command line, and what the run prints when it has ended.
VICTIMS = {
    "router": ("router.runtime.parent", "router r"),
    "controller": ("testbed.controller", "the controller"),
    "captures": ("capturing.recorder", "captures died"),
}
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


def test_ctrl_c_leaves_nothing(cbcb: Start) -> None:
    run = cbcb("run", *LONG)
    state = _routers_up(run)
    run.interrupt()
    status, output = run.wait()
    assert status == 130, output
    assert left_behind(state) == []


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


def test_kill_9_of_the_runner_leaves_nothing_after_clean(cbcb: Start) -> None:
    run = cbcb("run", *LONG)
    state = _routers_up(run)
    run.kill()
    run.wait()
    status, output = cbcb("clean").wait()
    assert status == 0, output
    assert left_behind(state) == []


def test_kill_9_of_open_vswitch_and_the_runner_leaves_nothing_after_clean(cbcb: Start) -> None:
    run = cbcb("run", *LONG)
    state = _routers_up(run)
    with HeldNamespaces(run.process.pid) as namespaces:
        assert namespaces.devices("veth") > {"s0-h", "r0-eth0", "s4-h", "r4-eth0"}
        RunningSwitches(state).kill()
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
def test_kill_9_of_a_part_ends_the_run_with_its_name(cbcb: Start, victim: str) -> None:
    run = cbcb("run", *LONG)
    state = _routers_up(run)
    os.kill(_find(state, victim), signal.SIGKILL)
    status, output = run.wait()
    assert status == 1, output
    assert VICTIMS[victim][1] in output
    assert left_behind(state) == []


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
        status, output = cbcb("account", name).wait()
        assert status == 0, output
