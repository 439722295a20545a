"""A machine of a cluster checks itself (argument `check`), or emulates a run (`run`).

Standard input has a request (`Machines._request`) and stays open. Spark kills a task by SIGKILL: when the
input ends, the run is interrupted as by Ctrl-C, so that its network is taken down. Standard output gets the
row of the run as a line of JSON, and its folder as an archive, or, of a check, the offer of the machine. A
machine that cannot emulate ends with the status of `MachineError`, a machine that emulates already with
`os.EX_TEMPFAIL`.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import threading
from collections.abc import Collection, Sequence

from captures.rundir import RunLayout
from captures.rundir.inputs import Source
from captures.spark.folder import process_folder, remove_abandoned
from captures.spark.machines import machine_key
from testbed.emulation.machines.cut import offer
from testbed.emulation.network.cleanup import clean_dead_runs
from testbed.evaluation.sweeps.job import Row, row_of
from testbed.evaluation.sweeps.runner import emulated
from testbed.evaluation.sweeps.spec import Job, identity
from testbed.machine.checks import compiled_code, require_machine
from testbed.machine.versions import code_digest, source_version, states_of
from testbed.results.archive import SUFFIX, export_run
from testbed.support.errors import MachineError
from testbed.support.processes import end_like_ctrl_c, find_administration
from testbed.support.run_state import whole_machine
from testbed.terminal import reported
from testbed.terminal.progress import Progress

#: Greatest archive, and greatest archives of all machines, bytes: executor and driver, with 1 GB each by
#: default, hold several copies.
_ARCHIVE_MAX, _ARCHIVES_MAX = 200_000_000, 400_000_000
#: Wall seconds in which an interrupted run must have taken its network down.
_END_S = 60.0


def main(action: str) -> int:
    end_like_ctrl_c()
    find_administration()
    request = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_input, daemon=True).start()
    # What parts of a run print is no answer.
    with os.fdopen(os.dup(1), "wb") as answer:
        os.dup2(2, 1)
        if action == "check":
            _checked(*request)
            answer.write(pickle.dumps(offer()))
        else:
            with whole_machine() as free:
                if not free:  # perhaps a run whose task has been killed takes its network down
                    return os.EX_TEMPFAIL
                (job,) = _checked(*request)
                clean_dead_runs()
                remove_abandoned()
                row, archive = _run(job, min(_ARCHIVE_MAX, _ARCHIVES_MAX // len(request[2])))
            answer.write(json.dumps(row).encode() + b"\n" + archive)
    return 0


def _end_with_input() -> None:
    # A thread that waits within `sys.stdin` would abort the interpreter at its end.
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(_END_S)
    # The parts of the run end with this process, and the next run on this machine removes what is left.
    os.killpg(os.getpid(), signal.SIGKILL)


def _checked(source: Source, measure: str, known: Collection[str], pickled: bytes) -> Sequence[Job]:
    """Returns the jobs of a request (`Machines._request`).

    Raises:
        MachineError: this machine cannot run them.
    """
    if code_digest(measure) != source.get("code"):
        own, expected = (states_of([each])[0] for each in (source_version(measure), source))
        raise MachineError(f"has other code, {own}; expected that of the driver, {expected}")
    jobs: list[tuple[Job, str]] = pickle.loads(pickled)
    if machine_key() not in known:
        require_machine(*(job.experiment for job, _ in jobs))
        if not (check := compiled_code()).ok:
            raise MachineError(f"{check.name}: {check.detail}; {check.mend}")
    try:
        if any(identity(job.experiment) != expected for job, expected in jobs):
            raise MachineError("a file that the experiment names differs from the driver's")
    except OSError as error:
        raise MachineError(f"{error.filename}: {error.strerror}") from error
    return [job for job, _ in jobs]


def _run(job: Job, most: int) -> tuple[Row, bytes]:
    """Returns the row of a job and, unless the job has been measured, its run folder as an archive.

    Args:
        most: bytes of the greatest archive that is returned.
    """
    runs, archive = process_folder().path / "runs", process_folder().path / f"run{SUFFIX}"
    row = row_of(job, lambda job: emulated(job, runs, Progress(), "duckdb"))
    folder = next((each for each in runs.glob("*/") if RunLayout(each).manifest.is_file()), None)
    if folder is None or (job.measure and row["error"] is None):
        return row, b""
    # Another machine may begin a run in the same second.
    folder = folder.rename(folder.with_name(f"{folder.name}-{job.number}"))
    export_run(folder, archive)
    if archive.stat().st_size > most:
        return {**row, "folder": ""}, b""
    return {**row, "folder": "" if row["error"] else folder.name}, archive.read_bytes()


if __name__ == "__main__":
    sys.exit(reported(lambda: main(sys.argv[1])))
