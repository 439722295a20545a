"""Fixtures of the emulation tests: run `cbcb` as a user does, and find the remains of a run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from router.system import LIBC
from tests.support.command import CBCB, STATE, Cbcb, Held, accounted
from tests.support.hostile_folder import RAN, write_hostile_modules
from tests.support.machines import Cluster
from tests.support.paths import ROOT

#: Of unshare(2): a mount namespace. Python 3.11 has neither.
_CLONE_NEWNS = 0x00020000


@cache
def why_not_here() -> str | None:
    """Why this machine cannot emulate, or None if it can."""
    from testbed.machine.checks import check_machine

    missing = [check for check in check_machine() if check.required and not check.ok]
    return "; ".join(f"{check.name}: {check.detail}" for check in missing) or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("emulation") and (reason := why_not_here()):
            item.add_marker(pytest.mark.skip(reason=f"this machine cannot emulate: {reason}"))


@pytest.fixture(scope="session", autouse=True)
def states_of_its_own() -> None:
    """Gives each process of tests a /run/cbcb of its own: `cbcb` neither finds nor cleans runs of others."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    assert LIBC.unshare(_CLONE_NEWNS) == 0
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    STATE.mkdir(mode=0o755, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "cbcb", str(STATE)], check=True)


@pytest.fixture(scope="session")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Runs `cbcb run ARGS`, the same arguments once a session; returns the folder of the run, which holds.

    With `--no-account` this process accounts for it. The folder is not to be changed. Nothing of a hostile
    working folder is run.
    """

    @cache
    def run(*arguments: str) -> Path:
        runs, hostile = tmp_path_factory.mktemp("emulated"), tmp_path_factory.mktemp("hostile")
        write_hostile_modules(hostile)
        done = subprocess.run(
            [*CBCB, "run", *arguments, "--runs", str(runs)],
            cwd=hostile,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert not (hostile / RAN).exists()
        assert done.returncode == 0, done.stdout + done.stderr
        (folder,) = runs.iterdir()
        if "--no-account" in arguments:
            assert accounted(folder)["verdict"] == "holds"
        else:
            assert "Verdict: holds" in done.stdout
        return folder

    return run


@pytest.fixture
def cbcb(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Cbcb]]:
    """Starts `cbcb COMMAND ARGS` in a session of its own and in a folder of hostile modules; ends it and
    cleans up afterwards.

    With `small`, the folder of that name in the run folder is a file system of 8 MiB; with `over`, the
    command is the driver of machines.
    """
    started: list[Cbcb] = []
    hostile = tmp_path_factory.mktemp("hostile")
    write_hostile_modules(hostile)

    def start(command: str, *arguments: str, small: str | None = None, over: Cluster | None = None) -> Cbcb:
        runs = ["--runs", str(tmp_path)] if command in {"run", "account", "report"} else []
        program = CBCB if small is None else [sys.executable, "-m", "tests.support.small_folder", small, "8"]
        process = subprocess.Popen(
            [*(over.inside if over else ()), *program, command, *arguments, *runs],
            env=over.environment if over else None,
            cwd=hostile if small is None else ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        started.append(Cbcb(process, tmp_path))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.kill()
        one.process.communicate()
    for mounted in (path for path in tmp_path.glob("*/*") if path.is_mount()):
        subprocess.run(["umount", "--lazy", str(mounted)], check=True)
    subprocess.run([*CBCB, "clean"], cwd=hostile, check=True, capture_output=True)
    assert not (hostile / RAN).exists()


@pytest.fixture
def held(cbcb: Callable[..., Cbcb], tmp_path: Path) -> Callable[..., Held]:
    """Starts a network of a generator without a workload, which takes commands when it is returned.

    The oracle's window is of 0.05 s; `more` are further sections of the experiment file.
    """

    def start(topology: str, *options: str, more: str = "", waits: bool = True) -> Held:
        generator, _, nodes = topology.partition(",")
        file = tmp_path / "held.toml"
        file.write_text(
            f'duration_s = 1\n[topology]\ngenerator = "{generator}"\nnodes = {nodes}\n'
            f"[oracle]\nin_flight_window_s = 0.05\n{more}"
        )
        run = Held(cbcb("run", str(file), "--hold", "--no-account", *options))
        if waits:
            run.wait()
        return run

    return start
