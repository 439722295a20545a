"""A standalone Spark cluster on this machine: a master and two workers on 127.0.0.1."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from testbed.polling import wait_until
from tests.support.paths import ROOT

_SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
#: Five JVMs for a job of seconds: the first compiler alone takes half the processor time of both.
CLUSTER_ENVIRONMENT = {
    **os.environ,
    "SPARK_LOCAL_IP": "127.0.0.1",
    "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


#: Name of a folder that the workers do not see.
UNREACHABLE = "unreachable"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def _process(command: list[str], log: Path) -> Iterator[None]:
    environment = {**CLUSTER_ENVIRONMENT, "PYTHONPATH": ""}
    with log.open("wb") as file:
        # A group of its own: what it starts ends with it.
        started = subprocess.Popen(
            command, stdout=file, stderr=file, env=environment, cwd="/", start_new_session=True
        )
    try:
        yield
    finally:
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()


def _wait_for(text: str, log: Path) -> None:
    def difference() -> str | None:
        said = log.read_text(errors="replace")
        return None if text in said else f"{log.name} says: {said[-2000:]}"

    wait_until(difference, 60.0, text)


@contextmanager
def running_cluster(folder: Path) -> Iterator[str]:
    """Yields the URL of a master with two workers of one core, from whom the packages are hidden (root).

    Args:
        folder: for logs and the workers' files. Its folder `UNREACHABLE` is hidden from the workers, too.
    """
    unreachable = folder / UNREACHABLE
    unreachable.mkdir()
    port = _free_port()
    deploy = [str(_SPARK_CLASS), "org.apache.spark.deploy"]
    with ExitStack() as stack:
        log = folder / "master.log"
        arguments = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        stack.enter_context(_process([deploy[0], f"{deploy[1]}.master.Master", *arguments], log))
        _wait_for("I have been elected leader", log)
        hide = " && ".join(
            f"mount -t tmpfs none {shlex.quote(str(path))}"
            for path in (*(ROOT / each for each in ("captures", "router", "testbed", "topos")), unreachable)
        )
        for number in (1, 2):
            log = folder / f"worker-{number}.log"
            arguments = ["--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "1g"]
            arguments += ["--work-dir", str(folder / f"work-{number}"), f"spark://127.0.0.1:{port}"]
            worker = shlex.join([deploy[0], f"{deploy[1]}.worker.Worker", *arguments])
            stack.enter_context(_process(["unshare", "-m", "sh", "-c", f"{hide} && exec {worker}"], log))
            _wait_for("Successfully registered with master", log)
        yield f"spark://127.0.0.1:{port}"
