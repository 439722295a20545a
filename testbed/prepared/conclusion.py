"""The process that concludes a run, on the side of the command that emulates."""

from __future__ import annotations

import signal
import subprocess
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from captures.rundir.capture_list import LARGE_BYTES, captured_bytes
from captures.rundir.layout import RunLayout
from router.children import start_module
from testbed.config.model import AUTO, Experiment
from testbed.prepared.priority import take_part, why_not_back

#: Largest network, and least free memory, beside which a session of Spark is started.
_MOST_NODES = 100
_ROOM_BYTES = 4_000_000_000
#: Wall seconds of a workload beside which the process gets ready: about its processor time.
_SHORTEST_S = 20.0
#: Wall seconds in which the process must end when it is no longer required.
_END_TIMEOUT_S = 10.0


def why_not(experiment: Experiment, master: str) -> str | None:
    """Returns why no session of Spark should be started while the experiment is emulated; None: it may be."""
    if not master.startswith("local"):
        return f"Spark's master is {master}"
    if len(experiment.topology.nodes) > _MOST_NODES:
        return f"the network has more than {_MOST_NODES} routers"
    if psutil.virtual_memory().available < _ROOM_BYTES:
        return f"less than {_ROOM_BYTES / 1e9:.0f} GB of memory are free"
    return why_not_back()


def lasts(experiment: Experiment) -> bool:
    """Whether the workload is long enough for Spark to be ready at its end."""
    rate = experiment.fastest if experiment.time_scale == AUTO else experiment.time_scale
    return experiment.duration_s / rate >= _SHORTEST_S


class PreparedConclusion:
    """A process that starts Spark, accounts for a small run to load its code, and then waits for the run.

    Until `conclude`, the process runs only while a processor is idle. It ends with the block, and by itself
    when this process ends.

    Args:
        master: Spark's master URL.

    Attributes:
        process: None until `start`.
    """

    def __init__(self, master: str) -> None:
        self._master = master
        self.process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def start(self, run_dir: Path) -> None:
        """Starts the process; its errors are written to the log of Spark in the run folder.

        If the process cannot be started, `conclude` leaves the work to the caller.
        """
        self._connection, theirs = Pipe()
        log = RunLayout(run_dir).spark_log
        # The emulation goes on without the process, where the system refuses it.
        with theirs, suppress(OSError):
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("ab") as errors:
                self.process = start_module(
                    "testbed.prepared",
                    *(str(theirs.fileno()), self._master, str(run_dir)),
                    stdin=subprocess.DEVNULL,
                    stderr=errors,
                    pass_fds=[theirs.fileno()],
                )

    def conclude(self, run_dir: Path) -> int | None:
        """Lets the process do the work of `testbed.conclude.account_and_report`.

        Returns:
            As that function; None: the process had ended, or ended before it was done, or its session is
            not for captures of this size.

        Raises:
            TestbedError, RunFolderError: as that function.
        """
        if self.process is None or self._connection is None:
            return None
        if captured_bytes(RunLayout(run_dir)) > LARGE_BYTES:
            return None
        take_part(self.process.pid)
        try:
            self._connection.send(run_dir)
            if not self._connection.recv():
                return None
            answer: int | Exception = self._connection.recv()
        except (EOFError, OSError):
            return None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process is None or self._connection is None:
            return
        # The process ends when it reads the end of the connection, which it must be let do.
        take_part(self.process.pid)
        self._connection.close()
        try:
            self.process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGKILL)
            self.process.wait()
