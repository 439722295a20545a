"""Faults of processes that have ended by themselves, and of processes that are alive."""

from __future__ import annotations

import os
import resource
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from captures.rundir import RunLayout
from captures.rundir.faults import FAULTS
from testbed.emulation.run.parts import RunningParts
from testbed.emulation.run.processes import ProcessLog
from testbed.emulation.run.site import Site
from testbed.support.errors import RunError


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Two processes in the place of routers; each has answered, so that its loader has closed its files."""
    with ExitStack() as stack:
        started = []
        for _ in range(2):
            cat = stack.enter_context(
                subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            )
            stack.callback(cat.kill)
            assert cat.stdin is not None and cat.stdout is not None
            cat.stdin.write(b"\n")
            cat.stdin.flush()
            assert cat.stdout.readline() == b"\n"
            started.append(cat)
        yield started


@pytest.fixture
def run(tmp_path: Path) -> RunLayout:
    made = RunLayout(tmp_path)
    made.faults.parent.mkdir(exist_ok=True)
    return made


@pytest.fixture
def parts(run: RunLayout, processes: list[subprocess.Popen[bytes]]) -> RunningParts:
    site: Any = object.__new__(Site)
    site.routers = SimpleNamespace(pids={node: each.pid for node, each in enumerate(processes)})
    clock: Any = SimpleNamespace(now_s=1.0)
    watch: Any = SimpleNamespace(excuse=lambda: None, over=lambda: None)
    none: Any = None
    return RunningParts(run, none, clock, none, site, none, watch)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _noted(run: RunLayout) -> list[tuple[str, int | None]]:
    return [(record["what"], record.get("node")) for record in FAULTS.read_all(run)]


def _soft_limit(process: subprocess.Popen[bytes]) -> int:
    return resource.prlimit(process.pid, resource.RLIMIT_NOFILE)[0]


def test_a_router_is_stopped_from_before_the_signal_on(
    run: RunLayout, parts: RunningParts, processes: list[subprocess.Popen[bytes]]
) -> None:
    asked_ns = time.time_ns()
    parts.stop("router", 1)
    assert os.waitid(os.P_PID, processes[1].pid, os.WSTOPPED) is not None
    parts.stop("router", 1)
    parts.restore()
    assert os.waitid(os.P_PID, processes[1].pid, os.WCONTINUED) is not None
    assert _noted(run) == [("stopped", 1), ("resumed", 1)]
    stopped, resumed = FAULTS.read_all(run)
    assert asked_ns <= stopped["t_ns"] <= resumed["t_ns"]
    assert stopped["at_s"] == resumed["at_s"] == 1


def test_a_router_that_has_ended_by_itself_gets_no_fault(
    run: RunLayout, parts: RunningParts, processes: list[subprocess.Popen[bytes]]
) -> None:
    _end(processes[0])
    with pytest.raises(RunError, match=r"^the router of node 0 has ended by itself$"):
        parts.stop("router", 0)
    with pytest.raises(RunError, match=r"^the router of node 0 has ended by itself$"):
        parts.exhaust(0)
    assert not run.faults.exists()
    # Nothing is away that would have to come back.
    parts.restore()


def test_a_part_that_has_ended_keeps_no_other_from_coming_back(
    run: RunLayout, parts: RunningParts, processes: list[subprocess.Popen[bytes]]
) -> None:
    before = _soft_limit(processes[1])
    for node in (0, 1):
        parts.exhaust(node)
    assert _soft_limit(processes[1]) == 3
    _end(processes[0])
    with pytest.raises(RunError, match=r"^descriptors: the router of node 0 has ended by itself"):
        parts.restore()
    assert _soft_limit(processes[1]) == before
    assert _noted(run) == [("exhausted", 0), ("exhausted", 1), ("replenished", 1)]


def test_each_who_follows_a_log_sees_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    log = ProcessLog(path, lambda: None)
    read = log.reader()
    assert read() == []
    path.write_text('{"event": "ready", "node": 0}\n{"event": "exited", "node": 0}\n{"event": "re')
    # Waiting for an event consumes no other event.
    assert log.wait_for(lambda event: event["event"] == "exited", 1, "exited")["node"] == 0
    assert [event["event"] for event in read()] == ["ready", "exited"]
    with path.open("a") as file:
        file.write('ady", "node": 1}\n')
    assert read() == [{"event": "ready", "node": 1}]
    with pytest.raises(RunError, match=r'(?s)it stops.*last event: {"event": "ready", "node": 1}'):
        log.wait_for(lambda event: event["event"] == "stopped", 0.05, "it stops")


def test_a_cut_tunnel_is_joined_where_the_workload_ends_first(run: RunLayout, parts: RunningParts) -> None:
    done: list[tuple[int, int, bool]] = []
    network: Any = SimpleNamespace(set_tunnel=lambda u, v, up: done.append((u, v, up)))
    parts.site.network = network
    parts.cut((0, 1))
    parts.cut((0, 1))
    parts.restore()
    assert done == [(0, 1, False), (0, 1, True)]
    assert _noted(run) == [("cut", None), ("joined", None)]
