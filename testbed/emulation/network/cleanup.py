"""Removal of a run, and of the remains of dead runs: processes, and their folders with sockets.

Every step runs, whatever became of the others, and is repeated after a failure. Network namespaces, with all
devices and rules in them, end with the processes. Cleaning does not touch live runs.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.support.errors import RunError, UnmendedError
from testbed.support.processes import Steps, wait_until
from testbed.support.run_state import STATE_FILE, ProcessId, RunState, all_states, only_ours

#: Begin of the names of folders with files of a run that its driver has not fetched: clean-ups keep them.
KEPT = "cbcb-kept-"
_KILL_TIMEOUT_S = 10.0
_KILL_TIMEOUT_PER_PROCESS_S = 0.1


@dataclass(frozen=True)
class Cleaned:
    """The result of a clean-up.

    Attributes:
        tags: tags of the runs that were removed completely.
        failures: a sentence, with the tag, for each run that could not be removed completely.
    """

    tags: tuple[str, ...]
    processes: int
    failures: tuple[str, ...] = ()


def clean_dead_runs() -> Cleaned:
    """Removes the remains of every dead run; a run that cannot be removed completely keeps its state."""
    tags: list[str] = []
    killed = 0
    steps = Steps()
    for folder, state in all_states():
        if state is None and not folder.exists():
            continue  # a live run has just ended and removed its state
        if state is not None and state.owner.alive():
            continue
        ended = steps.run(f"run {folder.name}", _remove_dead, folder, state)
        if ended is not None:
            tags.append(folder.name)
            killed += ended
    return Cleaned(tuple(tags), killed, tuple(steps.failures))


def _remove_dead(folder: Path, state: RunState | None) -> int:
    """Returns the number of processes that were killed.

    Raises RunError: there is a state, which may be that of a live run, but nothing that it says counts.
    """
    for path in (folder, folder / STATE_FILE) if state is None else ():
        with suppress(FileNotFoundError):
            if not only_ours(path):
                raise RunError(f"{path}: not removed: it belongs to another user, or others can write to it")
    if state is None and (folder / STATE_FILE).exists():
        raise RunError(f"{folder / STATE_FILE}: not removed: of another version of cbcb, or damaged")
    ended = 0 if state is None else end_processes(state.processes)
    remove_folder(folder)
    return ended


def end_processes(processes: list[ProcessId]) -> int:
    """Kills the processes that still have their start times, and waits until they are gone."""
    alive = [process for process in processes if process.alive()]
    for process in alive:
        with suppress(ProcessLookupError):
            descriptor = os.pidfd_open(process.pid)
            try:
                # Another process may have taken the number since it was last looked at.
                if process.alive():
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            finally:
                os.close(descriptor)

    def left() -> str | None:
        pids = [process.pid for process in alive if process.alive()]
        return f"{len(pids)} processes, such as {pids[:10]}, are still there" if pids else None

    timeout_s = _KILL_TIMEOUT_S + _KILL_TIMEOUT_PER_PROCESS_S * len(alive)
    wait_until(left, timeout_s, "ending what a dead run left")
    return len(alive)


def remove_folder(folder: Path) -> None:
    """Removes a folder that may be gone; the state file is removed last, so that a failure keeps it.

    Raises OSError: the first error; every entry that could be removed is gone.
    """
    errors: list[Any] = []

    def failed(_function: Any, _path: Any, found: Any) -> None:
        if not isinstance(found[1], FileNotFoundError):
            errors.append(found[1])

    with suppress(FileNotFoundError):
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, onerror=failed)
            elif path.name != STATE_FILE:
                try:
                    path.unlink(missing_ok=True)
                except OSError as error:
                    errors.append(error)
        if errors:
            raise errors[0]
        (folder / STATE_FILE).unlink(missing_ok=True)
        folder.rmdir()


#: Clean-ups, while one fails; process ids that a line shows.
_CLEAN_UPS, _SHOWN_PROCESSES = 3, 10


def remove_run(
    state: RunState,
    kills: Mapping[str, Callable[[], None]],
    stop_network: Callable[[], None],
    note: Callable[[str], None],
) -> None:
    """Removes all parts of a run that are left, and its state.

    Every step runs, whether or not other steps fail. After a failure the clean-up is repeated; what then is
    left is noted, and the state of the run stays, so that `cbcb clean` finds it.

    Args:
        state: of the run; nothing is done if its folder is gone.
        kills: name of a part -> how it is ended, whether or not it has ended before.
        stop_network: takes the network down, once the processes have ended. An UnmendedError is noted, and
            does not keep the state.
        note: is given a sentence about each part that is left.
    """
    if not state.folder.exists():
        return

    def stop() -> None:
        try:
            stop_network()
        except UnmendedError as error:
            note(f"take-down: {error}")

    def clean_up() -> list[str]:
        steps = Steps()
        for part, kill in kills.items():
            steps.run(part, kill)
        # Routers end a little after their parent.
        steps.run("processes", end_processes, state.processes)
        steps.run("network", stop)
        if not (left := [*steps.failures, *_alive(state)]):
            steps.run("state", remove_folder, state.folder)
        return left or steps.failures

    for _ in range(_CLEAN_UPS):
        if not (left := clean_up()):
            return
    for what in left:
        note(f"take-down: {what}")
    note(f"left: {state.folder}; `cbcb clean` removes what is left")


def _alive(state: RunState) -> list[str]:
    """Returns a sentence about the processes of the run that are alive, or nothing."""
    alive = [process.pid for process in state.processes if process.alive()]
    shown = ", ".join(map(str, alive[:_SHOWN_PROCESSES]))
    more = f" and {len(alive) - _SHOWN_PROCESSES} more" if len(alive) > _SHOWN_PROCESSES else ""
    return [f"{len(alive)} processes are alive: {shown}{more}"] if alive else []
