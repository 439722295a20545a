"""`python -m testbed.prepared DESCRIPTOR MASTER RUN`: starts Spark for the conclusion of RUN.

The connection DESCRIPTOR brings the path of the run folder when the emulation has ended. The answers are
True, when the work begins, and the exit status, or the error in place of it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from captures.rundir.files import RunFolderError
from captures.rundir.layout import RunLayout
from testbed.errors import TestbedError
from testbed.prepared.priority import give_way

#: Times that a small run is accounted for: the first loads code, the others let the JVM compile it.
_ROUNDS = 3
_SMALL = {"duration_s": "120"}


def main(descriptor: int, master: str, run_dir: Path) -> None:
    """Prepares, waits for the request, and concludes the run."""
    # Ctrl-C is for the command that emulates, which ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    give_way()
    connection = Connection(descriptor)
    requested = threading.Event()
    threading.Thread(target=_follow, args=(connection, requested), daemon=True).start()
    from captures.spark.session import spark_session

    with spark_session(master, RunLayout(run_dir).spark_log) as spark:
        _load(spark, master, requested)
        requested.wait()
        connection.send(True)
        try:
            answer: int | Exception = _concluded(run_dir, master, spark, quiet=False)
        except (TestbedError, RunFolderError) as error:
            answer = error
        connection.send(answer)


def _follow(connection: Connection, requested: threading.Event) -> None:
    """Notes the request; ends this process, Spark and tshark with the other end of the connection."""
    from captures.spark.folder import process_folder

    try:
        while True:
            connection.recv()
            requested.set()
    except (EOFError, OSError):
        folder = process_folder()
        folder.end_processes()
        folder.remove()
        # tshark and mergecap get no Ctrl-C: this process leads a session, and a group, of its own.
        os.killpg(os.getpid(), signal.SIGKILL)


def _load(spark: Any, master: str, requested: threading.Event) -> None:
    """Concludes a small simulated run, until the request or a few times."""
    from rich.console import Console

    from captures.spark.folder import process_folder
    from testbed.config.load import load_experiment
    from testbed.config.shipped import find_experiment
    from testbed.sim.simulation import simulate
    from testbed.terminal.progress import Progress

    # In the folder that is removed however this process ends.
    folder = process_folder().path / "small"
    folder.mkdir()
    experiment = load_experiment(find_experiment("ring5"), _SMALL)
    small = simulate(experiment, folder, Progress(Console(quiet=True)))
    for _ in range(_ROUNDS):
        if requested.is_set():
            return
        _concluded(small, master, spark, quiet=True)


def _concluded(run_dir: Path, master: str, spark: Any, *, quiet: bool) -> int:
    from rich.console import Console

    from testbed.conclude import account_and_report
    from testbed.terminal.progress import Progress

    console = Console(quiet=quiet)
    return account_and_report(run_dir, master, Progress(console), console, spark=spark)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
