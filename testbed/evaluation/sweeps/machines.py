"""Emulations on the machines of a Spark cluster, one at a time on each (docs/adr/0044).

Each is a program (`testbed.evaluation.sweeps.machine_run`) that outlives a killed task until its network is
down.
"""

from __future__ import annotations

import os
import pickle
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Semaphore

import msgspec

from captures.spark.machines import SETTINGS, Answer, LostError, anywhere, everywhere
from captures.spark.session import Session, SessionError, spark_session
from testbed.evaluation.sweeps.job import Row, row_of
from testbed.evaluation.sweeps.spec import Job, identity
from testbed.experiments.config import Experiment
from testbed.results.archive import SUFFIX, import_run
from testbed.support.errors import InputError, MachineError, RunError

_PROGRAM = "testbed.evaluation.sweeps.machine_run"
#: Times that a run is begun on machines that are lost.
_TRIES = 3
#: Wall seconds until a machine that was in use is asked again, which takes it a second of a processor.
_BUSY_S = 20.0


def clean(spark: Session, put: Callable[[str], None]) -> list[Answer]:
    """Removes what dead runs left on each machine; `put` is given what the machines say.

    Raises: as `everywhere`.
    """
    answers = everywhere(spark, "testbed.cli.main", "clean")
    for each in answers:
        for line in (b"".join(each.output).decode() + each.errors).splitlines():
            put(f"{each.name}: {line}")
    return answers


@contextmanager
def cleaned(machines: Machines) -> Iterator[Machines]:
    """Cleans the machines at the end, also where a machine that came late is refused.

    After other errors no machine may answer; there, interrupted runs take themselves down.
    """
    try:
        yield machines
    except MachineError:
        machines.clean()
        raise
    machines.clean()


@contextmanager
def machines_for(
    experiment: Experiment, url: str, note: Callable[[str], None]
) -> Iterator[tuple[Session, Machines]]:
    """Yields a session on a cluster, and its machines, checked for an experiment; raises as `Machines`."""
    job = Job(0, identity(experiment), {}, experiment.seed, "run", experiment)
    with spark_session(url, more=SETTINGS) as spark:
        yield spark, Machines(spark, [job], Path(), note)


class Machines:
    """The machines of a cluster, checked for jobs; `note` is given a sentence about each loss.

    Raises:
        MachineError: a machine lacks something, or has other code; the message names each.
        SessionError: as `everywhere`.
    """

    def __init__(self, spark: Session, jobs: Sequence[Job], runs: Path, note: Callable[[str], None]) -> None:
        self._spark, self._runs, self._note = spark, runs, note
        #: A run for each machine, and one that a machine gets that comes later.
        self._open = Semaphore(1)
        #: Of the machines that have answered, by `machine_key`.
        self.names: dict[str, str] = {}
        answers = everywhere(spark, _PROGRAM, "check", payload=self._request(jobs))
        self._require(answers)
        #: One of each machine, with its offer.
        self.answers = [each for each in answers if each.status is not None]
        #: All processors of the smallest worker for each run.
        self._processors = min(Counter(each.executor for each in answers).values())
        note(f"machines: {', '.join(sorted(self.names.values()))}")

    def _request(self, jobs: Sequence[Job]) -> bytes:
        """Returns what `machine_run` reads: the driver's code, the machines whose set-up is checked already,
        and, pickled, since other code must not read them, the jobs with what their files are here."""
        pairs = pickle.dumps([(job, identity(job.experiment)) for job in jobs])
        return pickle.dumps((jobs[0].source, jobs[0].measure, set(self.names), pairs))

    def _require(self, answers: Sequence[Answer]) -> None:
        complaints = [f"{each.name}: {each.errors}" for each in answers if each.status]
        if complaints:
            raise MachineError("\n".join(complaints))
        for each in answers:
            if each.key not in self.names:
                self._open.release()
            self.names[each.key] = each.name

    def row(self, job: Job) -> Row:
        """Runs a job on a free machine, on another if that is lost, and keeps the run folder.

        Raises:
            MachineError: a machine that came later lacks something.
        """
        cause = ""
        for left in reversed(range(_TRIES)):
            try:
                answer = self._answer(job)
                if answer.status in (0, MachineError.status):
                    self._require([answer])
                    try:
                        return self._kept(job, b"".join(answer.output))
                    except (InputError, ValueError) as error:
                        return row_of(job, error)
                cause = f"{answer.name}: status {answer.status}: {answer.errors.rpartition(chr(10))[2]}"
            except LostError as error:
                cause = str(error)
            self._note(f"run {job.number}: {cause}; {'it is begun again' if left else 'given up'}")
        return row_of(job, RunError(f"begun {_TRIES} times: {cause}"))

    def _answer(self, job: Job) -> Answer:
        """Runs a job on a free machine; a worker with the processors for two runs may offer one in use."""
        run = partial(anywhere, self._spark, self._processors, _PROGRAM, "run", payload=self._request([job]))
        with self._open:
            if (answer := run()).status == os.EX_TEMPFAIL:
                self._note(f"run {job.number}: another run has {answer.name}, which is asked again")
            while answer.status == os.EX_TEMPFAIL:
                time.sleep(_BUSY_S)
                answer = run()
        return answer

    def _kept(self, job: Job, output: bytes) -> Row:
        line, _, archive = output.partition(b"\n")
        row = msgspec.json.decode(line, type=Row)
        if archive:
            with tempfile.NamedTemporaryFile(suffix=SUFFIX) as file:
                file.write(archive)
                file.flush()
                import_run(Path(file.name), self._runs)
        elif row["error"] is None and not job.measure:
            self._note(f"run {job.number}: its folder is too large to come back; the results are kept")
        return row

    def clean(self) -> None:
        """Cleans the machines, and names those that do not answer."""
        answers: list[Answer] = []
        try:
            answers = clean(self._spark, self._note)
        except SessionError as error:
            self._note(f"not cleaned: {error}")
        for key in self.names.keys() - {each.key for each in answers}:
            self._note(f"{self.names[key]}: does not answer; `cbcb clean` there removes what is left")
