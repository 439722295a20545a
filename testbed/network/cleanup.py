"""Removing what dead runs left: processes, bridges, devices, rules, sockets. Live runs are not touched."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from testbed.errors import RunError
from testbed.network.names import TAG_ALPHABET, TAG_LENGTH, Names
from testbed.network.removal import remove_network
from testbed.network.state import ProcessId, RunState, all_states
from testbed.polling import wait_until
from testbed.steps import Steps

_KILL_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Cleaned:
    """What was removed.

    Attributes:
        tags: the runs of which nothing is left.
        processes: how many processes had to be ended.
        failures: a sentence for each run of which something is left, with the tag.
    """

    tags: tuple[str, ...]
    processes: int
    failures: tuple[str, ...] = ()


def clean_dead_runs() -> Cleaned:
    """Removes what every dead run left; a run of which something cannot be removed keeps its state."""
    tags: list[str] = []
    killed = 0
    steps = Steps()
    for folder, state in all_states():
        if state is None and not folder.exists():
            continue  # a live run ended just now, and took it away itself
        if state is not None and state.owner.alive():
            continue
        failed = len(steps.failures)
        if state is not None:
            killed += sum(process.alive() for process in state.processes)
            steps.run(f"run {folder.name}", end_processes, state.processes)
        steps.run(f"run {folder.name}", remove_devices, Names(folder.name))
        if len(steps.failures) == failed:
            shutil.rmtree(folder, ignore_errors=True)
            tags.append(folder.name)
    return Cleaned(tuple(tags), killed, tuple(steps.failures))


def end_processes(processes: list[ProcessId]) -> int:
    """Kills those processes that are still the ones named, and waits until they are gone."""
    alive = [process for process in processes if process.alive()]
    for process in alive:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)

    def left() -> str | None:
        pids = [process.pid for process in alive if process.alive()]
        return f"processes {pids} are still there" if pids else None

    wait_until(left, _KILL_TIMEOUT_S, "ending what a dead run left")
    return len(alive)


def remove_devices(names: Names) -> None:
    """Removes the bridges and devices of one run, found by their names."""
    if len(names.tag) != TAG_LENGTH or set(names.tag) - set(TAG_ALPHABET):
        return
    remove_network(names, _bridges(names))


def _bridges(names: Names) -> list[str]:
    try:
        listed = subprocess.run(
            ["ovs-vsctl", "--timeout=10", "list-br"], capture_output=True, text=True, check=False
        ).stdout.split()
    except OSError as error:
        raise RunError(f"ovs-vsctl cannot be run: {error}") from error
    return [bridge for bridge in listed if bridge.startswith(names.prefix)]


def remove_state(state: RunState) -> None:
    """Gives the run's tag back, when everything that it named is gone."""
    shutil.rmtree(Path(state.folder), ignore_errors=True)
