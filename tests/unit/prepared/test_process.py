"""The process beside an emulation: the reasons not to start it, its priority, and its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.config.load import load_experiment
from testbed.config.shipped import find_experiment
from testbed.prepared import conclusion
from testbed.prepared.conclusion import PreparedConclusion, lasts, why_not
from tests.support.paths import ROOT
from tests.support.run_folder import good_run

_CHECK = """
import os
from testbed.prepared.priority import give_way, take_part, why_not_back
reason = why_not_back()
give_way()
take_part(os.getpid())
print(os.sched_getscheduler(0) == os.SCHED_OTHER, os.getpriority(os.PRIO_PROCESS, 0), reason)
"""


def _checked(*wrapper: str) -> str:
    argv = [*wrapper, sys.executable, "-c", _CHECK]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: privileges are taken away")
def test_without_the_capability_the_priority_cannot_be_raised_again() -> None:
    assert _checked() == "True 0 None"
    without = _checked("setpriv", "--bounding-set=-sys_nice", "--inh-caps=-all")
    assert without == "False 19 root has no CAP_SYS_NICE"


def test_the_reason_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    small = load_experiment(find_experiment("ring5"))
    large = load_experiment(find_experiment("waxman200"))
    assert why_not(small, "spark://host:7077") == "Spark's master is spark://host:7077"
    assert why_not(large, "local[2]") == "the network has more than 100 routers"
    monkeypatch.setattr(conclusion, "_ROOM_BYTES", 1 << 60)
    assert "of memory are free" in str(why_not(small, "local[2]"))


def test_a_process_that_cannot_be_started_ends_no_emulation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "absent"))
    with PreparedConclusion("local[2]") as prepared:
        prepared.start(tmp_path)
        assert prepared.process is None
        assert prepared.conclude(tmp_path) is None


def test_large_captures_are_left_to_a_session_that_compiles_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = good_run().write(tmp_path / "run")
    monkeypatch.setattr(conclusion, "LARGE_BYTES", 199)
    with PreparedConclusion("local[2]") as prepared:
        prepared.start(tmp_path)
        assert prepared.conclude(run) is None


_FOLLOWER = """
import subprocess, threading
from multiprocessing import Pipe
from testbed.prepared.__main__ import _follow
subprocess.Popen(["sleep", "600"])
ours, theirs = Pipe()
ours.close()
_follow(theirs, threading.Event())
"""


def test_what_the_process_has_started_ends_with_the_connection() -> None:
    argv = [sys.executable, "-c", _FOLLOWER]
    # The output ends when no process has it open: without the end of `sleep`, the time runs out.
    done = subprocess.run(
        argv, cwd=ROOT, stdout=subprocess.PIPE, start_new_session=True, timeout=60, check=False
    )
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("default", {}, True),
        ("default", {"duration_s": "600"}, False),
        ("ring5", {"duration_s": "60", "time_scale": "4"}, False),
        ("ring5", {"duration_s": "60", "time_scale": "1"}, True),
    ],
)
def test_spark_starts_beside_a_workload_of_20_seconds(
    name: str, settings: dict[str, str], expected: bool
) -> None:
    assert lasts(load_experiment(find_experiment(name), settings)) is expected
