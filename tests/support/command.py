"""Runs `cbcb` as a user does, and finds the remains of a run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from captures.rundir import RunLayout
from testbed.results.conclude import account_run
from testbed.support.run_state import ProcessId
from testbed.terminal.progress import Progress
from tests.support.paths import ROOT
from tests.support.polling import poll

#: As `.venv/bin/cbcb`, which imports nothing from the working folder.
CBCB = [sys.executable, "-P", "-m", "testbed.cli.main"]

#: Arguments of `cbcb run` for the private emulation that several tests share.
PRIVATE_RING5 = ("ring5", "--set", "privacy.mode=bloom", "--set", "duration_s=120", "--no-account")
STATE = Path("/run/cbcb")


@dataclass
class Cbcb:
    """A running `cbcb` command."""

    process: subprocess.Popen[str]
    runs: Path

    def wait(self, timeout_s: float = 240) -> tuple[int, str]:
        """Exit status and everything printed."""
        output, _ = self.process.communicate(timeout=timeout_s)
        return self.process.returncode, output

    def ends(self, status: int = 0, timeout_s: float = 240) -> str:
        """Waits for the end with an exit status; returns everything printed."""
        found, printed = self.wait(timeout_s)
        assert found == status, printed
        return printed

    def interrupt(self) -> None:
        """Sends Ctrl-C as a terminal does, to the whole process group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def kill(self) -> None:
        self.process.kill()

    def state(self, timeout_s: float = 300) -> dict[str, Any]:
        """Waits for the state of the run and returns it."""

        def mine() -> dict[str, Any] | None:
            for file in STATE.glob("*/state.json"):
                # Another run may remove its own.
                with suppress(FileNotFoundError):
                    state: dict[str, Any] = json.loads(file.read_text())
                    if state["owner"]["pid"] == self.process.pid:
                        return state
            return None

        return poll(mine, timeout_s, "the run writes its state")


@dataclass
class Held:
    """A run of `cbcb run --hold` that takes commands.

    Attributes:
        run: the command.
        tag, own: name of the run, and folder of its own files on this machine.
        folder: the run folder.
    """

    run: Cbcb

    def __post_init__(self) -> None:
        state = self.run.state()
        self.tag = str(state["tag"])
        self.own, self.folder = STATE / self.tag, RunLayout(Path(state["run_dir"]))

    def wait(self) -> None:
        """Returns when the run takes commands: all routers have trees, and Ctrl-C ends the workload alone."""
        poll(lambda: (self.own / "control.sock").exists() or None, 300, "the run takes commands")
        poll(lambda: committed(self.folder.path), 300, "routers have trees")

    def end(self) -> dict[str, Any]:
        """Ends a run that was started with `--no-account`, whose verdict holds; returns its summary."""
        self.run.interrupt()
        self.run.ends()
        summary = accounted(self.folder.path)
        assert summary["verdict"] == "holds", summary["verdict_reasons"]
        return summary


def accounted(run_dir: Path) -> dict[str, Any]:
    """Judges a run and accounts for it on DuckDB in this process, without a report; returns the summary."""
    account_run(run_dir, "", Progress(Console(quiet=True)), "duckdb")
    summary: dict[str, Any] = json.loads(RunLayout(run_dir).summary.read_text())
    return summary


def output_of(*arguments: str, stdin: str = "", timeout_s: float = 400) -> str:
    """Runs `cbcb ARGUMENTS` in the checkout, to the end with status 0; returns its standard output."""
    done = subprocess.run(
        [*CBCB, *arguments], cwd=ROOT, input=stdin, capture_output=True, text=True, timeout=timeout_s
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def example(name: str) -> list[str]:
    """Runs a program of examples/ to the end; returns the lines that it printed."""
    done = subprocess.run(
        [sys.executable, f"examples/{name}"],
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.splitlines()


def elsewhere(cbcb: Callable[..., Cbcb], run: RunLayout, folder: Path) -> Path:
    """The run folder after an export, and an import into another folder of runs."""
    archive, runs = folder / "run.tar.gz", folder / "elsewhere"
    for command in (("export", str(run.path), "--output"), ("import", "--runs", str(runs))):
        status, printed = cbcb(*command, str(archive)).wait()
        assert status == 0, printed
    return runs / run.path.name


def committed(run_dir: Path) -> bool | None:
    """Whether every router of a run has its trees (None: not yet)."""
    log = RunLayout(run_dir).controller_log
    return (log.exists() and '"committed"' in log.read_text()) or None


def left_behind(state: dict[str, Any]) -> list[str]:
    """Returns the processes and files of a run that are still on the machine.

    The kernel removes network namespaces, and the devices in them, after the last process in them.
    """
    tag = state["tag"]
    found = [f"process {p['pid']}" for p in state["processes"] if ProcessId(**p).alive()]
    if (STATE / tag).exists():
        found.append(str(STATE / tag))
    return found
