"""Spark's JVM and its files are removed when the process that started them is stopped or dies."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from captures.spark.folder import remove_abandoned
from captures.spark.session import CLASSES
from tests.support.paths import ROOT
from tests.support.polling import poll

pytestmark = pytest.mark.spark

#: Seconds in which a JVM starts or ends on a busy machine.
DEADLINE_S = 240.0

#: Prints a line when Spark is about to start, and when it has started.
DRIVER = """
import sys
from pathlib import Path
from captures.spark.session import SessionError, spark_session
try:
    with spark_session(sys.argv[1], Path(sys.argv[2])) as spark:
        print("started", flush=True)
        print(spark.range(10**12).selectExpr("sum(id % 7)").collect())
except SessionError as error:
    print(error)
"""

#: Kills the JVM in the middle of a job, and waits until the server of accumulators has noticed.
KILLER = """
import sys, threading
from pathlib import Path
import psutil
from captures.spark.machines import everywhere
from captures.spark.session import SessionError, spark_session
from testbed.support.processes import wait_until
def until_none(ask, what):
    wait_until(lambda: str(ask()) if ask() else None, 60, what)
def kill(tracker):
    until_none(lambda: not tracker.getActiveJobsIds(), "a job runs")
    for process in psutil.Process().children(recursive=True):
        process.kill()
def connections():
    found = psutil.Process().net_connections("tcp")
    return [each for each in found if each.laddr.port == port and each.raddr]
try:
    with spark_session("local[1]", Path(sys.argv[1])) as spark:
        context = spark.sparkContext
        context.parallelize([1], 1).count()
        port = context._accumulatorServer.server_address[1]
        assert connections()
        threading.Thread(target=kill, args=(context.statusTracker(),)).start()
        try:
            spark.range(10**12).selectExpr("sum(id % 7)").collect()
        finally:
            until_none(connections, "the connection has ended")
            try:
                everywhere(spark, "testbed.cli.main")
            except SessionError as error:
                print("everywhere:", error)
except SessionError as error:
    print(error)
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "t"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    yield folder
    for process in psutil.Process().children():
        if DRIVER in process.cmdline():  # of a test that failed: its query would go on for hours
            process.kill()
            process.wait()
    remove_abandoned()


def _start(tmp_path: Path, master: str = "local[2]", most_memory: str = "unlimited") -> subprocess.Popen[str]:
    """Starts the driver, which may have so many bytes of address space."""
    # Ctrl-C reaches it whatever the starter of the tests ignores.
    command = ["prlimit", f"--as={most_memory}", "env", "--default-signal=INT", sys.executable, "-c", DRIVER]
    command += [master, str(tmp_path / "spark.log")]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _of_spark(folder: Path) -> list[int]:
    """Processes whose command line names a folder for Spark below this one."""
    named = f"spark.local.dir={folder}"
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if any(named in argument for argument in process.info["cmdline"] or ())
    ]


def _wait_for_processes(folder: Path) -> list[int]:
    return poll(lambda: _of_spark(folder) or None, DEADLINE_S, "Spark has processes")


@pytest.mark.parametrize(
    ("master", "begun"),
    [("local[2]", False), ("spark://127.0.0.1:1", False), ("local[2]", True)],
    ids=["start", "start on a cluster", "query"],
)
def test_ctrl_c_leaves_nothing(tmp_path: Path, temporary: Path, master: str, begun: bool) -> None:
    driver = _start(tmp_path, master)
    if begun:
        assert driver.stdout is not None
        assert driver.stdout.readline() == "started\n"
        (folder,) = temporary.iterdir()
        assert folder.name.startswith(f"cbcb-spark-jvm-{driver.pid}-")
        maps = Path(f"/proc/{_of_spark(temporary)[0]}/maps").read_text()
        assert (str(CLASSES) in maps) == CLASSES.exists()
    else:
        _wait_for_processes(temporary)
    driver.send_signal(signal.SIGINT)
    _, said = driver.communicate(timeout=DEADLINE_S)
    assert said.rstrip().endswith("KeyboardInterrupt")
    assert _of_spark(temporary) == []
    assert [*temporary.glob("*cbcb-spark-*")] == []


@pytest.mark.usefixtures("temporary")
def test_a_jvm_that_is_killed_leaves_no_traceback(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    command = [sys.executable, "-c", KILLER, str(log)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S)
    said = f"Spark on local[1] ended before it was done; {log} says more\n"
    assert (done.stdout, done.stderr) == (said, "")


def test_what_a_killed_process_left_is_cleaned(tmp_path: Path, temporary: Path) -> None:
    driver = _start(tmp_path)
    # Once: while a process executes another program it has no command line.
    spark, *_ = _wait_for_processes(temporary)
    assert remove_abandoned() == (0, 0)
    # The JVM of a process that dies now waits for ever: it is held, so that it is still starting.
    os.kill(spark, signal.SIGSTOP)
    driver.kill()
    driver.wait(timeout=DEADLINE_S)
    folders, processes = remove_abandoned()
    driver.communicate(timeout=DEADLINE_S)
    assert folders == 1
    assert processes >= 1
    assert _of_spark(temporary) == []
    # PySpark's own folder, in which it waits for the JVM, is among what is removed.
    assert [*temporary.iterdir()] == []


@pytest.mark.parametrize(
    ("master", "most_memory", "said", "logged"),
    [
        ("local[1]", "1500000000", "the system refuses memory to Java: Could not", "allocate"),
        ("nonsense", "unlimited", "", "nonsense|Master"),
    ],
    ids=["memory", "master"],
)
def test_a_refusal_names_its_cause_and_the_log(
    tmp_path: Path, temporary: Path, master: str, most_memory: str, said: str, logged: str
) -> None:
    driver = _start(tmp_path, master, most_memory)
    printed, errors = driver.communicate(timeout=DEADLINE_S)
    log = tmp_path / "spark.log"
    assert printed.startswith(f"Spark on {master} does not start: {said}"), errors
    assert printed.endswith(f"; {log} says more\n")
    assert re.search(logged, log.read_text())
    assert [*temporary.glob("*cbcb-spark-*")] == []


@pytest.mark.root
def test_a_local_session_takes_no_settings_of_a_spark_or_hadoop_of_the_user(tmp_path: Path) -> None:
    """On a host whose name is not valid in a URL, and not in /etc/hosts either, with a umask of 077."""
    (tmp_path / "core-site.xml").write_text(
        "<configuration><property><name>fs.defaultFS</name><value>hdfs://nowhere:1</value></property></configuration>"
    )
    (tmp_path / "spark-defaults.conf").write_text("spark.driver.memory nonsense\n")
    names = ("SPARK_HOME", "SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR")
    users = dict.fromkeys(names, str(tmp_path)) | {
        "PYSPARK_SUBMIT_ARGS": "--master spark://nowhere:7077 pyspark-shell",
        "PYSPARK_PYTHON": "/nowhere/python",
        "SPARK_LOCAL_HOSTNAME": "no_where",
        "TZ": "Europe/Berlin",
        "PYTHONPATH": str(ROOT),
    }
    driver = """
import sys
from pathlib import Path
from captures.spark.session import spark_session
with spark_session("local[1]", Path(sys.argv[1])) as spark:
    print(spark.sparkContext.parallelize([20, 22], 1).map(lambda x: x).sum())
    print(spark.sql("select timestamp '2026-07-01 12:00:00Z'").collect()[0][0].isoformat())
"""
    script = 'umask 077; echo my_host >/proc/sys/kernel/hostname && exec "$@"'
    command = ["unshare", "--uts", "sh", "-c", script, "sh"]
    command += [sys.executable, "-c", driver, str(tmp_path / "log")]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, **users}, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["42", "2026-07-01T14:00:00"], done.stderr


# The secret of the connection to the JVM.


def _ask(spark: SparkSession, authenticate: bool) -> Any:
    """Connects to the driver as another program of Spark does; returns the name of the endpoint reached."""
    context = spark.sparkContext
    java: Any = context._jvm
    driver = context._jsc.sc()
    conf = driver.conf().clone().set("spark.authenticate", str(authenticate).lower())
    # In the driver's own JVM, it finds the driver's secret, if it may use one.
    security = java.org.apache.spark.SecurityManager
    by_default = [getattr(security, f"$lessinit$greater$default${number}")() for number in (2, 3)]
    manager = security(conf, *by_default)
    rpc = java.org.apache.spark.rpc
    stranger = rpc.RpcEnv.create("stranger", "127.0.0.1", 0, conf, manager, True)
    try:
        address = rpc.RpcAddress("127.0.0.1", int(conf.get("spark.driver.port")))
        return stranger.setupEndpointRef(address, "HeartbeatReceiver").name()
    finally:
        stranger.shutdown()


@pytest.mark.attack("Spark without the secret")
def test_only_a_connection_with_the_secret_is_answered(spark: SparkSession) -> None:
    assert _ask(spark, authenticate=True) == "HeartbeatReceiver"
    with pytest.raises(Py4JJavaError):
        _ask(spark, authenticate=False)


def test_no_command_line_has_the_secret(spark: SparkSession) -> None:
    java: Any = spark.sparkContext._jvm
    user = java.org.apache.hadoop.security.UserGroupInformation.getCurrentUser()
    secret = bytes(user.getCredentials().getSecretKey(java.org.apache.hadoop.io.Text("sparkCookie"))).decode()
    assert len(secret) >= 32
    lines = [" ".join(each.info["cmdline"] or ()) for each in psutil.process_iter(["cmdline"])]
    assert not any(secret in line for line in lines)
