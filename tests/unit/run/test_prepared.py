"""The process beside an emulation: the reasons not to start it, its priority, and its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from testbed.cli import prepared
from testbed.cli.prepared import PreparedConclusion, has_room
from testbed.experiments.config.load import find_experiment, load_experiment
from tests.support.paths import ROOT
from tests.support.run_folder import good_run

_CHECK = """
import os
from testbed.support.usage import set_priority
set_priority(os.getpid(), os.SCHED_IDLE, 19)
lowered = os.sched_getscheduler(0) == os.SCHED_IDLE, os.getpriority(os.PRIO_PROCESS, 0)
set_priority(os.getpid(), os.SCHED_OTHER, 0)
print(lowered, os.sched_getscheduler(0) == os.SCHED_OTHER, os.getpriority(os.PRIO_PROCESS, 0))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: raises a priority")
def test_the_priority_is_lowered_and_restored() -> None:
    argv = [sys.executable, "-c", _CHECK]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True, start_new_session=True)
    assert done.stdout == "(True, 19) True 0\n"


def test_spark_starts_beside_small_networks_on_machines_with_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "_ROOM_BYTES", 0)
    monkeypatch.setattr(prepared, "lacking_capabilities", lambda *_names: [])
    small = load_experiment(find_experiment("ring5"))
    assert has_room(small, "local[2]")
    assert not has_room(small, "spark://host:7077")
    assert not has_room(load_experiment(find_experiment("waxman200")), "local[2]")
    monkeypatch.setattr(prepared, "_ROOM_BYTES", 1 << 60)
    assert not has_room(small, "local[2]")


def test_a_process_that_cannot_be_started_ends_no_emulation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "absent"))
    with closing(PreparedConclusion("local[2]")) as beside:
        beside.start(tmp_path)
        assert beside.process is None
        assert beside.conclude(tmp_path) is None


def test_large_captures_are_left_to_a_session_that_compiles_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = good_run().write(tmp_path / "run")
    monkeypatch.setattr(prepared, "LARGE_BYTES", 199)
    with closing(PreparedConclusion("local[2]")) as beside:
        beside.start(tmp_path)
        assert beside.conclude(run) is None


def test_a_process_that_goes_on_without_its_input_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "_END_S", 0.01)
    with closing(PreparedConclusion("local[2]")) as beside:
        beside.process = subprocess.Popen(["sleep", "600"], stdin=subprocess.PIPE)
    assert beside.process.returncode == -signal.SIGKILL


_FOLLOWER = """
import subprocess, threading
from testbed.cli.prepared import _follow
subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL)
_follow(threading.Event())
"""


def test_what_the_process_has_started_ends_with_its_standard_input() -> None:
    argv = [sys.executable, "-c", _FOLLOWER]
    # The output ends when no process has it open: without the end of `sleep`, the time runs out.
    done = subprocess.run(
        *(argv,),
        cwd=ROOT,
        input=b"\n",
        stdout=subprocess.PIPE,
        start_new_session=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
