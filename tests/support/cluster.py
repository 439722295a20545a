"""A standalone Spark cluster on this machine: a master and two workers on 127.0.0.1."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from captures.spark import session
from testbed.support.processes import wait_until
from tests.support.paths import ROOT

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
#: Not in `SPARK_CONF_DIR`: with a folder of files in its path the JVM does not use `session.CLASSES`.
SETTINGS = ["--properties-file", str(Path(__file__).with_name("spark-defaults.conf"))]
#: Five JVMs for a job of seconds: the first compiler alone takes half the processor time of both.
CLUSTER_ENVIRONMENT = {
    **os.environ,
    "SPARK_LOCAL_IP": "127.0.0.1",
    "PYSPARK_SUBMIT_ARGS": shlex.join([*SETTINGS, "pyspark-shell"]),
    "JAVA_TOOL_OPTIONS": f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {session.USE_CLASSES}",
}


#: Name of a folder that the workers do not see.
UNREACHABLE = "unreachable"


@contextmanager
def process_of(command: list[str], log: Path) -> Iterator[int]:
    """Runs a command; yields its process id."""
    environment = {**CLUSTER_ENVIRONMENT, "PYTHONPATH": ""}
    with log.open("wb") as file:
        # A group of its own: what it starts ends with it.
        started = subprocess.Popen(
            command, stdout=file, stderr=file, env=environment, cwd="/", start_new_session=True
        )
    try:
        yield started.pid
    finally:
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()


def wait_for_line(pattern: str, log: Path) -> str:
    """Waits until a line of the log matches; returns the match."""

    def difference() -> str | None:
        said = log.read_text(errors="replace")
        return None if re.search(pattern, said) else f"{log.name} says: {said[-2000:]}"

    wait_until(difference, 240.0, pattern)
    found = re.search(pattern, log.read_text(errors="replace"))
    assert found is not None
    return found[0]


@contextmanager
def running_cluster(folder: Path) -> Iterator[str]:
    """Yields the URL of a master with two workers of one core, from whom the packages are hidden (root).

    Args:
        folder: for logs and the workers' files. Its folder `UNREACHABLE` is hidden from the workers, too.
    """
    unreachable = folder / UNREACHABLE
    unreachable.mkdir()
    deploy = [str(SPARK_CLASS), "org.apache.spark.deploy"]
    with ExitStack() as stack:
        log = folder / "master.log"
        arguments = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0", *SETTINGS]
        stack.enter_context(process_of([deploy[0], f"{deploy[1]}.master.Master", *arguments], log))
        wait_for_line("I have been elected leader", log)
        # The system has chosen a port that was free.
        url = wait_for_line(r"spark://127\.0\.0\.1:\d+", log)
        hide = " && ".join(
            f"mount -t tmpfs none {shlex.quote(str(path))}"
            for path in (*(ROOT / each for each in ("captures", "router", "testbed", "topos")), unreachable)
        )
        for number in (1, 2):
            log = folder / f"worker-{number}.log"
            arguments = ["--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "1g"]
            arguments += ["--work-dir", str(folder / f"work-{number}"), *SETTINGS, url]
            worker = shlex.join([deploy[0], f"{deploy[1]}.worker.Worker", *arguments])
            stack.enter_context(process_of(["unshare", "-m", "sh", "-c", f"{hide} && exec {worker}"], log))
            wait_for_line("Successfully registered with master", log)
        yield url
