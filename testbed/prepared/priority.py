"""Priority of a process and its descendants: below all other processes of the machine, and back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from testbed.machine.probes import lacking_capabilities

_LEAST = 19
#: The scheduler shares the processors among sessions first, each with a priority of its own.
_SESSION = "/proc/{pid}/autogroup"


def why_not_back() -> str | None:
    """Returns why `take_part` would be refused, so that a process stays behind; None: it works.

    Engines of containers withhold the capability from root.
    """
    return "root has no CAP_SYS_NICE" if lacking_capabilities("SYS_NICE") else None


def give_way() -> None:
    """Lets this process, the leader of its session, run only while a processor is idle.

    Processes and threads that it starts later inherit that.
    """
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    # Beside the policy: the kernel counts the time of the process apart (`psutil.cpu_times().nice`).
    os.setpriority(os.PRIO_PROCESS, 0, _LEAST)
    _of_session(os.getpid(), _LEAST)


def take_part(pid: int) -> None:
    """Gives a process, its descendants and all their threads the usual priority; needs CAP_SYS_NICE.

    Does nothing where a process has ended.
    """
    _of_session(pid, 0)
    # Twice: a thread may have started others meanwhile.
    for _ in range(2):
        for thread in _threads(pid):
            with suppress(OSError):
                os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))
                os.setpriority(os.PRIO_PROCESS, thread, 0)


def _threads(pid: int) -> Iterator[int]:
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            with suppress(psutil.Error):
                yield from (thread.id for thread in each.threads())


def _of_session(pid: int, priority: int) -> None:
    # Kernels without groups by session have no such file.
    with suppress(OSError):
        Path(_SESSION.format(pid=pid)).write_text(f"{priority}\n")
