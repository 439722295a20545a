"""Programs on the machines of a Spark cluster, which Spark starts, watches, and whose answers it carries.

A program is a module of the machine's own checkout. Its standard input ends with the task that started it.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError
from pyspark import RDD, BarrierTaskContext, SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.resource import ResourceProfileBuilder, TaskResourceRequests

from captures.spark import internals
from captures.spark.session import Session, SessionError, failed
from router.system import start_module

#: Settings of Spark with which it repeats nothing: a program would be repeated in silence.
SETTINGS = {"spark.task.maxFailures": "1", "spark.stage.maxConsecutiveAttempts": "1"}
#: Wall seconds in which a worker must offer a processor, after which no further worker is waited for (at
#: least: as long as the last took to come, since all begin together on machines of unequal speed), and
#: between two looks.
_ARRIVAL_S, _SETTLED_S, _LOOK_S = 120.0, 5.0, 0.2
#: Context -> the processors that the last call waited for: the next call waits for no further worker.
_settled: WeakKeyDictionary[SparkContext, int] = WeakKeyDictionary()
#: Bytes of an answer in one piece: Java has each in one array.
_PIECE = 1 << 20


class LostError(RuntimeError):
    """The task of a program was lost, perhaps with its machine."""


class Answer(NamedTuple):
    """The findings of a task on its machine, and the output of its program."""

    key: str  # `machine_key`
    name: str
    executor: str  # host and port
    status: int | None  # None: another task of the machine has run the program
    errors: str
    output: list[bytes]  # in pieces


def machine_key() -> str:
    """Tells machines apart: clones may share the host name, and namespaces share the boot of their kernel."""
    run, boot = Path("/run").stat(), Path("/proc/sys/kernel/random/boot_id").read_text()
    return f"{socket.gethostname()} {boot} {run.st_dev} {run.st_ino}"


def require_secret(conf: SparkConf, master: str) -> None:
    """Refuses a master that lets others run code as root, unless `spark.authenticate` is "false".

    Raises:
        SessionError: the cluster has no secret, anybody on the way could put in a pickled job, or the master
            has a REST server, which asks for no secret.
    """
    needed = ("spark.authenticate", "spark.network.crypto.enabled")
    secured = conf.get(needed[0], "").lower() != "false"
    if secured and (lacking := [each for each in needed if conf.get(each, "").lower() != "true"]):
        raise SessionError(
            f"{master}: without {lacking[0]} whoever reaches its network runs code as root on each machine; "
            f"set {', '.join(needed)}, spark.authenticate.secret and spark.master.rest.enabled (docs/how-to/"
            "sweeps.md), or spark.authenticate false to let everybody in"
        )
    port = int(conf.get("spark.master.rest.port", "6066"))
    for host in re.findall(r"([^/,]+):[0-9]+", master) if secured else ():
        with suppress(OSError), socket.create_connection((host, port), timeout=1):
            raise SessionError(
                f"{master}: port {port} of {host} answers, and Spark's REST server there asks for no secret; "
                "set spark.master.rest.enabled false for the master"
            )


def everywhere(spark: Session, *program: str, payload: bytes = b"") -> list[Answer]:
    """Runs a module with an argument on every machine at once; returns an answer for each processor.

    Raises:
        SessionError: no worker offers a processor, one is lost, or `require_secret` refuses the cluster.
    """
    context = spark.sparkContext
    try:
        require_secret(context.getConf(), context.master)
        if not (found := _wait_for_processors(lambda: internals.slots(context), _settled.get(context, 0))):
            raise SessionError(f"{context.master}: no free processor of a worker within {_ARRIVAL_S:g} s")
        _settled[context] = found
        return _run_tasks(context.parallelize(range(found), found), *program, payload=payload)
    except (Py4JError, PySparkException) as error:
        raise failed(error, context.master, None) from error


def _wait_for_processors(offered: Callable[[], int], settled: int = 0) -> int:
    """Returns how many processors workers offer once no further worker is waited for; 0: none has come.

    Args:
        settled: their number at an earlier call: where it is the same, no worker is waited for.
    """
    begin = time.monotonic()
    found, until = 0, begin + _ARRIVAL_S
    while (now := time.monotonic()) < until and not (found and found == settled):
        if (offers := offered()) != found:
            found = offers
            # Executors that end and come back, again and again, change the number without end.
            until = min(now + (max(_SETTLED_S, now - begin) if found else _ARRIVAL_S), begin + 2 * _ARRIVAL_S)
        time.sleep(_LOOK_S)
    return found


def anywhere(spark: Session, processors: int, *program: str, payload: bytes) -> Answer:
    """Runs a module on a machine with so many free processors, and waits until there is one.

    Raises:
        LostError: the task was lost; the program may go on for some time.
        SessionError: for ten minutes no worker had so many processors.
    """
    profile = ResourceProfileBuilder().require(TaskResourceRequests().cpus(processors)).build
    data: RDD[int] = spark.sparkContext.parallelize([0], 1)
    try:
        (answer,) = _run_tasks(data.withResources(profile), *program, payload=payload)
        return answer
    except (Py4JError, PySparkException) as error:
        if "[SPARK_JOB_CANCELLED]" in str(error) or not internals.context_runs(spark.sparkContext):
            raise
        problem = failed(error, spark.sparkContext.master, None)
        if "BarrierJobSlotsNumberCheckFailed" in str(error) or "SPARK-24819" in str(error):
            raise problem from error
        lost = "ExecutorLostFailure" in str(error)
        raise LostError("its worker was lost" if lost else str(problem)) from error


def _run_tasks(data: RDD[int], *program: str, payload: bytes) -> list[Answer]:
    """Runs a module once on each machine that has tasks for `data`, which run all at once.

    They are a barrier stage with a result, which Spark never repeats by itself.
    """

    def task(_: Iterator[int]) -> Iterator[Answer | bytes]:
        here, key = BarrierTaskContext.get(), machine_key()
        infos, own = here.getTaskInfos(), here.partitionId()
        leads = len(infos) == 1 or here.allGather(key).index(key) == own
        status, errors, output = _run_module(*program, payload=payload) if leads else (None, "", b"")
        yield Answer(key, socket.gethostname(), infos[own].address, status, errors, [])
        for begin in range(0, len(output), _PIECE):
            yield output[begin : begin + _PIECE]

    found: list[Answer] = []
    for each in data.barrier().mapPartitions(task).collect():
        if isinstance(each, Answer):
            found.append(each)
        else:
            found[-1].output.append(each)
    return found


def _run_module(*program: str, payload: bytes) -> tuple[int, str, bytes]:
    """Returns the status of a module, and what it has printed: errors, output."""
    # The variable leads to the code that the driver has shipped.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    pipe = subprocess.PIPE
    with (
        tempfile.TemporaryFile() as file,
        start_module(*program, stdin=pipe, stdout=pipe, stderr=file, env=environment) as child,
    ):
        assert child.stdin is not None and child.stdout is not None
        with suppress(BrokenPipeError):
            child.stdin.write(payload)
            child.stdin.flush()
        output = child.stdout.read()
        status = child.wait()
        file.seek(0)
        return status, file.read().decode(errors="replace").strip().removeprefix("cbcb: "), output
