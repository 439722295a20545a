"""The accounting on a standalone cluster whose workers have never seen the source tree."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark.sql import SparkSession

from captures.accounting.account import account
from captures.tables.catalogue import TABLES
from testbed.polling import wait_until
from tests.support.paths import ROOT
from tests.support.run_folder import good_run

pytestmark = [pytest.mark.spark, pytest.mark.root]

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
#: Accounts for a run as for a large one: executors read the captures, and write the tables.
DRIVER = """
import json, sys
from pathlib import Path
from captures.accounting import account as job
from captures.spark.session import spark_session

with spark_session(sys.argv[1]) as spark:
    job._SMALL_BYTES = 0
    summary = job.account(Path(sys.argv[2]), spark=spark)
    executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
print(json.dumps({"summary": summary, "executors": executors}))
"""
#: Five JVMs for a job of seconds: the first compiler alone takes half the processor time of both.
ENVIRONMENT = {
    **os.environ,
    "SPARK_LOCAL_IP": "127.0.0.1",
    "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def _process(command: list[str], log: Path) -> Iterator[None]:
    environment = {**ENVIRONMENT, "PYTHONPATH": ""}
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


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """The URL of a master with two workers of one core, from whom the packages are hidden."""
    port = _free_port()
    deploy = [str(SPARK_CLASS), "org.apache.spark.deploy"]
    with ExitStack() as stack:
        log = tmp_path / "master.log"
        arguments = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        stack.enter_context(_process([deploy[0], f"{deploy[1]}.master.Master", *arguments], log))
        _wait_for("I have been elected leader", log)
        hide = " && ".join(
            f"mount -t tmpfs none {shlex.quote(str(ROOT / package))}"
            for package in ("captures", "router", "testbed", "topos")
        )
        for number in (1, 2):
            log = tmp_path / f"worker-{number}.log"
            arguments = ["--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "1g"]
            arguments += ["--work-dir", str(tmp_path / f"work-{number}"), f"spark://127.0.0.1:{port}"]
            worker = shlex.join([deploy[0], f"{deploy[1]}.worker.Worker", *arguments])
            stack.enter_context(_process(["unshare", "-m", "sh", "-c", f"{hide} && exec {worker}"], log))
            _wait_for("Successfully registered with master", log)
        yield f"spark://127.0.0.1:{port}"


def test_a_cluster_gives_the_same_numbers(tmp_path: Path, cluster: str, spark: SparkSession) -> None:
    alone, spread = (good_run().write(tmp_path / name) for name in ("alone", "spread"))
    expected = account(alone, spark=spark)
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, cluster, str(spread)],
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["executors"] == 2
    del expected["accounting_s"], found["summary"]["accounting_s"]
    assert found["summary"] == json.loads(json.dumps(expected))
    for name in TABLES:
        tables = [pq.read_table(run / "parquet" / name) for run in (alone, spread)]
        rows = [
            sorted(map(str, table.select(sorted(TABLES[name].schema.names)).to_pylist())) for table in tables
        ]
        assert rows[0] == rows[1], name


def test_a_sweep_gives_the_same_table_on_a_cluster(tmp_path: Path, cluster: str) -> None:
    """The workers simulate and account with code that came with the job."""
    spec = tmp_path / "s.toml"
    spec.write_text(
        'experiment = "ring5"\nseeds = 2\n[grid]\n"routing.scheme" = ["pif", "flooding"]\n', encoding="utf-8"
    )
    tables: list[bytes] = []
    for master in ("local[2]", cluster):
        runs = tmp_path / f"runs-{len(tables)}"
        command = ["-m", "testbed.cli.main", "sweep", str(spec), "--runs", str(runs), "--master", master]
        done = subprocess.run(
            [sys.executable, *command],
            cwd=ROOT,
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        tables.append((runs / "sweeps" / "s" / "runs.parquet").read_bytes())
    assert tables[0] == tables[1]
