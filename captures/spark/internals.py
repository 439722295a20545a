"""The private parts of PySpark that this project uses, each with the reason.

No other module uses any.

PySpark has public names for none of these. They are those of PySpark 4; pyproject.toml excludes 5.
"""

from __future__ import annotations

import sys
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession


def classic_context(session: SparkSession) -> SparkContext | None:
    """`session.sparkContext`; None: a session of Spark Connect, which has none."""
    try:
        return session.sparkContext
    except PySparkException:
        return None


def jvm(context: SparkContext) -> Any:
    """`context._jvm`: Java's classes."""
    assert context._jvm is not None
    return context._jvm


def shipped_archives(context: SparkContext) -> list[str]:
    """`context._python_includes`: what `addPyFile` has shipped, so that an archive is shipped once."""
    names: list[str] = context._python_includes
    return names


def jvm_runs() -> bool:
    """Whether the JVM of this process has not ended, by `SparkContext._gateway.proc`, its launcher.

    Also true if there is no JVM, or another process has started it.
    """
    process = getattr(SparkContext._gateway, "proc", None)
    return process is None or process.poll() is None


def context_runs(context: SparkContext) -> bool:
    """Whether jobs can still run, by `context._jsc.sc().isStopped()`.

    A JVM that ends by itself stops its context first, while its process still runs: on one machine, some
    minutes after it was suspended for so long that the executor's heartbeats had no answer. A cluster that
    ends an application stops the context, and not the JVM.
    """
    if not jvm_runs() or context._jsc is None:
        return False
    try:
        return not context._jsc.sc().isStopped()
    except (Py4JError, OSError):
        return False  # the JVM ends at this moment


def slots(context: SparkContext) -> int:
    """Tasks that executors take at once, by `maxNumConcurrentTasks`; `defaultParallelism` is at least 2.

    A barrier stage of more tasks waits for ever.
    """
    scala = context._jsc.sc()
    return int(scala.maxNumConcurrentTasks(scala.resourceProfileManager().defaultResourceProfile()))


def end_jvm() -> None:
    """Ends the JVM, by `proc` of `SparkContext._gateway`, and waits for its end."""
    SparkContext._gateway.proc.communicate()


def cancel_jobs(context: SparkContext) -> None:
    """Cancels every job by `context._jsc.sc().cancelJob`.

    `cancelAllJobs` forgets a job that waits for a stage which another job has begun: it never ends.
    """
    for job in context.statusTracker().getActiveJobsIds():
        context._jsc.sc().cancelJob(job)


def forget_jvm() -> None:
    """Clears `SparkContext._gateway` and `_jvm`: the next session starts a JVM and asks no dead one."""
    SparkContext._gateway = SparkContext._jvm = None


def _accumulator_server() -> Any:
    """`_accumulatorServer` of `SparkContext._active_spark_context`; None: there is none."""
    return getattr(SparkContext._active_spark_context, "_accumulatorServer", None)


def forget_session() -> None:
    """Clears `SparkSession._instantiatedSession` and `_activeSession`, and `_active_spark_context` of
    `SparkContext`, where `stop` failed with the JVM.

    `getOrCreate` would return the stopped session, or one of the stopped context.
    """
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    server = _accumulator_server()
    if server is not None:
        server.shutdown()
    SparkContext._active_spark_context = None


def activate(session: SparkSession) -> None:
    """Calls Java's `setActiveSession` by `_jsparkSession`, in the calling thread.

    Spark looks up formats to write in the session that is active in a thread: by default, the thread that
    made the session.
    """
    java = jvm(session.sparkContext)
    java.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)


def silence_accumulator_server() -> None:
    """Replaces `handle_error` of `_accumulatorServer`, which prints a traceback when the JVM ends first: a
    signal to the process group reaches the JVM too, perhaps before this process has handled it."""
    server = _accumulator_server()
    if server is not None:
        printing = type(server).handle_error

        def handle_error(request: Any, address: Any) -> None:
            if not isinstance(sys.exc_info()[1], EOFError | OSError):
                printing(server, request, address)

        server.handle_error = handle_error


def clear_properties(properties: dict[str, str]) -> None:
    """Clears Java's system properties that have these values, through `SparkContext._jvm`.

    The launcher passes a session's settings to the JVM as properties, from where later sessions would take
    them.

    Raises:
        Py4JError, OSError: the JVM does not answer.
    """
    if SparkContext._jvm is not None:
        system = SparkContext._jvm.java.lang.System
        for name, value in properties.items():
            if system.getProperty(name) == value:
                system.clearProperty(name)
