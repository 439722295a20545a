"""The command line: every fault of the user or the machine is one clear line and its exit status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from router.protocol.counters import Counters
from testbed.network.shaping import KernelFeatures
from tests.support.paths import ROOT


def _cbcb(*arguments: str, python: str = sys.executable, nobody: bool = False) -> tuple[int, str]:
    command = [python, "-m", "testbed.cli.main", *arguments]
    if nobody:
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command]
    done = subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "80"},
    )
    return done.returncode, done.stderr.strip()


def _experiment(folder: Path, text: str) -> str:
    path = folder / "experiment.toml"
    path.write_text(text)
    return str(path)


def test_help_lists_every_command() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "testbed.cli.main", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for command in (
        "check",
        "run",
        "simulate",
        "account",
        "report",
        "replay",
        "pub",
        "sub",
        "doctor",
        "clean",
    ):
        assert f"    {command} " in printed


@pytest.mark.parametrize("command", ["check", "run"])
def test_a_malformed_file_names_file_and_line(tmp_path: Path, command: str) -> None:
    file = _experiment(tmp_path, "duration_s = 10\n[topology\n")
    status, said = _cbcb(command, file)
    assert status == 2
    assert said.startswith(f"cbcb: {file}: is not valid TOML")
    assert "line 2" in said
    assert "\n" not in said


@pytest.mark.parametrize("command", ["check", "run"])
def test_an_unknown_key_names_the_nearest_known_one(tmp_path: Path, command: str) -> None:
    text = 'duration_s = 10\ntime_scal = 2\n[topology]\ngenerator = "ring"\nnodes = 5\n'
    status, said = _cbcb(command, _experiment(tmp_path, text))
    assert status == 2
    assert "time_scal" in said
    assert "did you mean 'time_scale'?" in said
    assert "\n" not in said


def test_a_disconnected_topology_names_the_nodes(tmp_path: Path) -> None:
    (tmp_path / "parts.toml").write_text("[[link]]\nu = 0\nv = 1\n[[link]]\nu = 2\nv = 3\n")
    status, said = _cbcb("run", _experiment(tmp_path, 'duration_s = 1\n[topology]\nfile = "parts.toml"\n'))
    assert status == 2
    assert "not connected" in said
    assert "nodes 2 and 3" in said
    assert "\n" not in said


def test_a_missing_experiment_is_said(tmp_path: Path) -> None:
    status, said = _cbcb("run", str(tmp_path / "none.toml"))
    assert status == 2
    assert "no such file" in said
    status, said = _cbcb("run", "defualt")
    assert status == 2
    assert "default" in said


@pytest.mark.parametrize("fault", ["time_scale", "=3"])
def test_a_set_option_without_a_value_is_refused(fault: str) -> None:
    status, said = _cbcb("check", "--set", fault)
    assert status == 2
    assert "expected KEY=VALUE" in said


def test_a_set_option_is_checked_like_the_file() -> None:
    status, said = _cbcb("check", "--set", "workload.senders_percent=120")
    assert status == 2
    assert "[workload] senders_percent" in said


def test_another_interpreter_is_recognised() -> None:
    if Path("/usr/bin/python3").resolve() == Path(sys.executable).resolve() and sys.prefix == sys.base_prefix:
        pytest.skip("the tests run on the system's own interpreter")
    status, said = _cbcb("run", python="/usr/bin/python3")
    assert status == 3
    assert "wrong interpreter?" in said
    assert "\n" not in said


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be able to give it up")
def test_without_root_the_run_is_refused_and_says_how(tmp_path: Path) -> None:
    interpreter = Path(sys.executable)
    if any(
        not path.stat().st_mode & 0o001 for path in (*interpreter.parents, *interpreter.resolve().parents)
    ):
        pytest.skip("another user cannot reach the interpreter")
    status, said = _cbcb("run", "--runs", str(tmp_path), nobody=True)
    assert status == 3
    assert "not root" in said
    assert "sudo ./run.sh" in said
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_is_none_is_refused(tmp_path: Path) -> None:
    for command in ("account", "report"):
        status, said = _cbcb(command, "--runs", str(tmp_path))
        assert status == 2
        assert "no runs in" in said
        status, said = _cbcb(command, str(tmp_path))
        assert status == 2
        assert "not a run folder" in said


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to try what the kernel offers")
def test_a_netem_request_is_honoured_or_refused_before_anything_starts(tmp_path: Path) -> None:
    from testbed.machine import check_machine, kernel_features

    if any(check.required and not check.ok for check in check_machine()):
        pytest.skip("this machine cannot emulate at all")
    features: KernelFeatures = kernel_features()
    if features.netem:
        pytest.skip("this kernel has netem")
    text = 'duration_s = 1\n[topology]\ngenerator = "ring"\nnodes = 3\n[links]\ndelay_ms = 5\n'
    status, said = _cbcb("run", _experiment(tmp_path, text), "--runs", str(tmp_path / "runs"))
    assert status == 3
    assert "delay_ms = 5" in said
    assert "sch_netem" in said
    assert "\n" not in said
    assert not (tmp_path / "runs").exists()


def _replay(*arguments: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "testbed.cli.main", "replay", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr.strip()


def test_a_replay_says_whether_the_core_still_answers_so(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    run = str(tmp_path)
    assert _replay(run)[::2] == (
        2,
        f"cbcb: {tmp_path}/recordings: no recordings; an emulation with record = true makes them",
    )
    recording = tmp_path / "recordings" / "r2.rec"
    recording.parent.mkdir()
    live = (ROOT / "tests" / "conformance" / "live-figure-4" / "r2.rec").read_bytes()
    recording.write_bytes(live)
    status, said, _ = _replay(run)
    assert status == 0
    assert "r2: the run left no counters and tables to compare with" in said
    assert "answers equal the live run's" in said
    status, said, _ = _replay(run, "--node", "2", "--show")
    assert status == 0
    assert "\nr2     pass on through interfaces 1, 3\n" in said
    assert _replay(run, "--node", "r5")[::2] == (2, "cbcb: --node 5: no recording of it; expected one of 2")

    manifest = tmp_path / "manifest.json"
    assert _replay(run, "--at", "1")[::2] == (2, f"cbcb: {manifest}: no field 'time_scale'")
    # The recording begins at this time of the wall clock; two seconds later node 5 wants `price < 400`.
    manifest.write_text('{"time_scale": 4, "started_ns": 1795290245819883858}')
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "applications.jsonl").write_text("")
    assert _replay(run, "--at", "2") == (0, "r2, epoch 1\n    2 (node 3): price < 400\n", "")

    recording.write_bytes(live[:3000])
    status, said, _ = _replay(run)
    assert status == 0
    assert "r2: the recording is cut: its last " in said

    recording.write_bytes(live.replace(b'"sr_policy":"periodic"', b'"sr_policy":"never"   '))
    status, said, _ = _replay(run)
    assert status == 1
    assert "tick; live: send through interfaces 1, 2, 3: SR 2/" in said
    assert "; replayed: nothing" in said
    assert said.endswith("Replay: not as in the live run: r2 of 1 router\n")

    (tmp_path / "counters").mkdir()
    (tmp_path / "counters" / "routers.json").write_text('{"2": {"messages_sent": 7, "dropped": {}}}')
    recording.write_bytes(live)
    status, said, _ = _replay(run)
    assert status == 1
    assert "r2: messages_sent: live 7, replayed 1" in said

    # What only the live router dropped is a difference as well; what the link dropped is none.
    live_counters = dict.fromkeys(Counters().as_dict(), 0) | {"messages_sent": 7}
    dropped = {"reverse_path": 3, "truncated": 2}
    (tmp_path / "counters" / "routers.json").write_text(
        json.dumps({"2": {**live_counters, "dropped": dropped}})
    )
    _, said, _ = _replay(run)
    assert "r2: dropped reverse_path: live 3, replayed 0" in said
    assert "truncated" not in said

    # One that cannot be read keeps none of the others from being replayed.
    recording.with_name("r1.rec").write_bytes(b"something else")
    status, said, wrong = _replay(run)
    assert (status, wrong) == (2, "cbcb: no usable recording of r1")
    assert f"r1: {recording.with_name('r1.rec')}: not the recording of a router\n" in said
    assert "r2: messages_sent: live 7, replayed 1" in said
