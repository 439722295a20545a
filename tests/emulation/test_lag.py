"""Runs on a machine that is too slow are invalid; a governed clock keeps up where a fixed one does not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from captures.accounting.direct import Direct
from captures.accounting.verdict import lag_keys, late
from captures.rundir import RunLayout
from captures.rundir.clock import read_clock
from captures.rundir.measures import read_lag
from captures.rundir.oracle import ORACLE
from testbed.results.oracle.decide import judge
from testbed.results.oracle.history import read_history
from tests.support.command import Cbcb
from tests.support.polling import TIMEOUT, poll

pytestmark = pytest.mark.emulation

Start = Callable[..., Cbcb]

#: 4,000 messages in 10 experiment seconds: a sixth of a wall second at 60, which no driver can.
BUSY = str(Path(__file__).with_name("busy.toml"))


@contextmanager
def burners() -> Iterator[None]:
    """A process for each processor that does nothing but burn its time.

    It and the test have a lower priority than the emulations of another process of tests.
    """
    priority = os.getpriority(os.PRIO_PROCESS, 0)
    os.nice(5)
    spin = "while True: pass"
    started = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()
        os.setpriority(os.PRIO_PROCESS, 0, priority)


def folder_of(run: Cbcb) -> Path:
    """The folder of the last run; the names begin with its time."""
    return sorted(run.runs.iterdir())[-1]


def reasons(folder: Path) -> list[str]:
    """Why the machine was too slow for a run; empty: it was not."""
    run = RunLayout(folder)
    return late({**lag_keys(read_lag(run), read_clock(run)), "capture_drops": 0})


def test_a_router_that_stands_still_for_eight_seconds_makes_the_run_invalid(cbcb: Start) -> None:
    run = cbcb("run", "ring5", "--set", "duration_s=200", "--engine", "duckdb")
    pid = poll(lambda: _pid_of(run, 3), 300, "router 3 runs")
    poll(lambda: next(run.runs.glob("*/clock.jsonl"), None), 300, "the clock of the workload runs")
    clock = read_clock(RunLayout(folder_of(run)))
    poll(lambda: clock.experiment_at(time.time_ns()) > 40 or None, 300, "the workload has begun")
    os.kill(pid, signal.SIGSTOP)
    stopped = time.monotonic()
    poll(lambda: time.monotonic() - stopped > 8 or None, TIMEOUT, "the router has stood still for 8 s")
    os.kill(pid, signal.SIGCONT)
    stood_s = time.monotonic() - stopped
    status, output = run.wait()
    summary = json.loads((folder_of(run) / "summary.json").read_text())
    assert (status, summary["verdict"]) == (4, "invalid"), output
    assert "Verdict: invalid" in output
    first, *parts, advice = summary["verdict_reasons"]
    assert first == "the machine was too slow"
    # On a busy machine others may be late as well.
    for part in ("routers (first of all that of node 3): ", "workload: "):
        assert [reason.startswith(part) for reason in parts].count(True) == 1
    assert "finds a rate" in advice
    # A frame, and a request, may have come some time after the router was stopped.
    for part in ("routers", "workload"):
        lag = summary["lag"][part]
        assert 1 < lag["lag_wall_s"] < stood_s + 4
        assert lag["lag_s"] == pytest.approx(10 * lag["lag_wall_s"], rel=0.01)
    assert summary["answer_delay"]["max_s"] == summary["lag"]["workload"]["lag_wall_s"]


def _pid_of(run: Cbcb, node: int) -> int | None:
    for log in run.runs.glob("*/logs/routers.jsonl"):
        for line in log.read_text().splitlines():
            event: dict[str, Any] = json.loads(line)
            if (event["event"], event["node"]) == ("ready", node):
                return int(event["pid"])
    return None


def test_a_rate_that_is_too_fast_is_invalid_and_a_loaded_machine_slows_a_governed_one(cbcb: Start) -> None:
    fixed = cbcb("run", BUSY, "--engine", "duckdb")
    status, output = fixed.wait()
    found = reasons(folder_of(fixed))
    assert found, "the fixed rate kept up"
    assert found[1].startswith(("workload: ", "routers ("))
    assert "would have done" in found[-1]
    # Whatever was missed or spurious, the machine is to blame and not the protocol.
    summary = json.loads((folder_of(fixed) / "summary.json").read_text())
    assert (status, summary["verdict"]) == (4, "invalid"), output
    assert summary["verdict_reasons"][0] == "the machine was too slow"
    assert "nobody asked" not in output

    with burners():
        governed = cbcb("run", BUSY, "--no-account", "--set", "time_scale=auto")
        governed.ends()
    folder = folder_of(governed)
    assert reasons(folder) == []
    run = RunLayout(folder)
    assert min(read_clock(run).rates) < 60
    ORACLE.write(run, judge(read_history(run), 1.0))
    with Direct(folder) as accounting:
        summary = accounting.summary()
    assert (summary["verdict"], summary["verdict_reasons"]) == ("holds", [])
    assert summary["deliveries_decided"] > 0
