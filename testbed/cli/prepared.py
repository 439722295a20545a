"""Spark, started while the emulation runs, for the conclusion of the run.

`python -m testbed.cli.prepared MASTER RUN` runs only while a processor is idle. It starts a session and
concludes a small run three times, to load Spark (docs/adr/0038-one-text-two-engines.md). It concludes
RUN when it reads a line, exits with the status of the command plus `_DONE`, and ends with its standard input.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import psutil
from rich.console import Console

from captures.pcap import PcapError
from captures.rundir import RunLayout
from captures.rundir.capture_list import LARGE_BYTES, captured_bytes
from captures.spark.folder import process_folder
from router.system import start_module
from testbed.experiments.config import Experiment
from testbed.experiments.config.load import find_experiment, load_experiment
from testbed.machine.probes import lacking_capabilities
from testbed.results.conclude import conclude
from testbed.support.errors import TestbedError
from testbed.support.usage import set_priority
from testbed.terminal import put, reported
from testbed.terminal.progress import Progress

#: Largest network, and least free memory, beside which a session of Spark is started.
_MOST_NODES, _ROOM_BYTES = 100, 4_000_000_000
#: Added to the status of a run that was concluded; wall seconds until a process that does not end is killed.
_DONE, _END_S = 100, 10


def has_room(experiment: Experiment, master: str) -> bool:
    """Whether a session of Spark may be started beside the emulation."""
    small = master.startswith("local") and len(experiment.topology.nodes) <= _MOST_NODES
    # Without the capability the process would keep its priority: engines of containers withhold it from root.
    return small and psutil.virtual_memory().available >= _ROOM_BYTES and not lacking_capabilities("SYS_NICE")


class PreparedConclusion:
    """The process, None until `start`, on the side of the command that emulates."""

    def __init__(self, master: str) -> None:
        self._master = master
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, run_dir: Path) -> None:
        """Starts the process, if the system lets it."""
        with suppress(OSError):
            self.process = start_module(__name__, self._master, str(run_dir), stdin=subprocess.PIPE)

    def conclude(self, run_dir: Path) -> int | None:
        """Returns the status of `testbed.results.conclude.conclude`; the process prints its errors.

        None: the process has ended before it was done, or the captures are too large for its session.
        """
        if self.process is None or captured_bytes(RunLayout(run_dir)) > LARGE_BYTES:
            return None
        set_priority(self.process.pid, os.SCHED_OTHER, 0)
        with suppress(OSError):
            os.write(self.process.stdin.fileno(), b"\n")  # type: ignore[union-attr]
        status = self.process.wait() - _DONE
        return status if status >= 0 else None

    def close(self) -> None:
        if self.process is not None:
            set_priority(self.process.pid, os.SCHED_OTHER, 0)  # so that it reads the end of its input
            with suppress(subprocess.TimeoutExpired):
                self.process.communicate(timeout=_END_S)
            self.process.kill()
            self.process.wait()


def main(master: str, run_dir: Path) -> int:
    # Beside the policy: the kernel counts the time of a nice process apart (`psutil.cpu_times().nice`).
    set_priority(os.getpid(), os.SCHED_IDLE, 19)
    requested = threading.Event()
    threading.Thread(target=_follow, args=(requested,), daemon=True).start()
    from captures.spark.session import SessionError, spark_session
    from testbed.sim.simulation import simulate

    with suppress(SessionError), spark_session(master, RunLayout(run_dir).spark_log) as spark:
        try:
            experiment = load_experiment(find_experiment("ring5"), {"duration_s": "120"})
            quiet = Progress()
            # In the folder that is removed however this process ends.
            small = None if requested.is_set() else simulate(experiment, process_folder().path, quiet)
            for _ in range(3):  # the first loads code, the others let the JVM compile it
                if small is not None and not requested.is_set():
                    conclude(small, master, quiet, spark=spark)
        except (TestbedError, SessionError, PcapError, OSError) as error:
            with RunLayout(run_dir).spark_log.open("a", encoding="utf-8") as lines:
                put(f"cbcb: the small run: {error}", file=lines)
        requested.wait()
        return _DONE + reported(lambda: conclude(run_dir, master, Progress(Console()), spark=spark))
    return 0


def _follow(requested: threading.Event) -> None:
    """Notes the request; ends this process and what it started with its standard input."""
    while os.read(0, 1):
        requested.set()
    process_folder().end_processes()
    process_folder().remove()
    # capinfos gets no Ctrl-C: this process leads a session, and a group, of its own.
    os.killpg(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
