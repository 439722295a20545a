"""Clusters, and machines of a cluster, that are not to emulate."""

from __future__ import annotations

import math
import os
import pickle
import socket
import subprocess
import time
from contextlib import nullcontext
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkConf

from captures.rundir.inputs import Source
from captures.spark import machines
from captures.spark.machines import Answer, require_secret
from captures.spark.session import SessionError
from router.system import start_module
from testbed.evaluation.sweeps import machines as sweeps
from testbed.evaluation.sweeps.machines import Machines


def test_a_cluster_without_a_secret_is_refused() -> None:
    conf = SparkConf(loadDefaults=False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        conf.set("spark.master.rest.port", str(server.getsockname()[1]))
        with pytest.raises(SessionError, match=r"set spark.authenticate, .*or spark.authenticate false"):
            require_secret(conf, "spark://127.0.0.1:7077")
        require_secret(conf.set("spark.authenticate", "false"), "spark://127.0.0.1:7077")
        conf.set("spark.authenticate", "true")
        with pytest.raises(SessionError, match=r"without spark.network.crypto.enabled whoever"):
            require_secret(conf, "spark://127.0.0.1:7077")
        conf.set("spark.network.crypto.enabled", "true")
        with pytest.raises(SessionError, match=r"of 127.0.0.1 answers, .*spark.master.rest.enabled false"):
            require_secret(conf, "spark://127.0.0.1:7077")
    require_secret(conf, "spark://127.0.0.1:7077")


def test_a_machine_with_other_code_says_so() -> None:
    source = Source(version="", commit="0" * 40, dirty=False, code="0123")
    pipe = subprocess.PIPE
    with start_module("testbed.evaluation.sweeps.machine_run", "check", stdin=pipe, stderr=pipe) as machine:
        assert machine.stdin is not None and machine.stderr is not None
        machine.stdin.write(pickle.dumps((source, "", set(), b"")))
        machine.stdin.flush()
        assert b"expected that of the driver, 00000000" in machine.stderr.read()
        assert machine.wait() == 3


def test_a_machine_that_is_in_use_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    statuses, notes = iter([os.EX_TEMPFAIL, os.EX_TEMPFAIL, 0]), list[str]()
    found: Any = object.__new__(Machines)
    vars(found).update(_open=nullcontext(), _note=notes.append, _spark=None, _processors=1)
    monkeypatch.setattr(Machines, "_request", lambda *_: b"")
    monkeypatch.setattr(sweeps, "_BUSY_S", 0)
    answer = Answer("key", "m1", "10.99.0.1:1", None, "", [])
    monkeypatch.setattr(sweeps, "anywhere", lambda *_, **__: answer._replace(status=next(statuses)))
    assert found._answer(SimpleNamespace(number=7)).status == 0
    assert notes == ["run 7: another run has m1, which is asked again"]


def test_slow_workers_are_waited_for_as_long_as_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "_SETTLED_S", 0.1)
    monkeypatch.setattr(machines, "_LOOK_S", 0.01)
    begin = time.monotonic()

    def offered() -> int:
        """The first of three workers comes after a second, two half a second later."""
        passed_s = time.monotonic() - begin
        return 0 if passed_s < 1 else 1 if passed_s < 1.5 else 3

    assert machines._wait_for_processors(offered) == 3
    monkeypatch.setattr(machines, "_ARRIVAL_S", 0.1)
    assert machines._wait_for_processors(lambda: 0) == 0


def test_workers_that_come_and_go_and_workers_that_were_there_before_are_waited_for_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    numbers = count(1)
    monkeypatch.setattr(machines, "_LOOK_S", 0.01)
    monkeypatch.setattr(machines, "_ARRIVAL_S", 0.1)
    assert machines._wait_for_processors(lambda: next(numbers)) > 10
    monkeypatch.setattr(machines, "_ARRIVAL_S", math.inf)
    assert machines._wait_for_processors(lambda: next(numbers), 100) == 100
