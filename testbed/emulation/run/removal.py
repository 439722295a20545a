"""Removal of a run: every step runs, whatever became of the others, and is repeated after a failure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from testbed.emulation.network.cleanup import end_processes, remove_state
from testbed.support.run_state import RunState
from testbed.support.steps import Steps

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
        stop_network: takes the network down, once the processes have ended.
        note: is given a sentence about each part that is left.
    """
    if not state.folder.exists():
        return

    def clean_up() -> list[str]:
        steps = Steps()
        for part, kill in kills.items():
            steps.run(part, kill)
        # Routers end a little after their parent.
        steps.run("processes", end_processes, state.processes)
        steps.run("network", stop_network)
        return [*steps.failures, *_alive(state)]

    for _ in range(_CLEAN_UPS):
        if not (left := clean_up()):
            break
    if not left:
        steps = Steps()
        steps.run("state", remove_state, state)
        left = steps.failures
    if not left:
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
