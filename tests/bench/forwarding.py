"""A live router at saturation: CPU time a message, and what it is spent on.

A real router process in a network namespace, a veth pair, and this process on its other end, which plays the
controller and all neighbours. Predicates and messages are those of the default experiment, the predicates
spread over five interfaces; messages come in on the first, and wait in its socket when it begins. CPU time is
the process's own, user and system. The peer receives the same frames and sends on the same share of them, by
recvmmsg and sendmmsg alone.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from router.predicates import Message, Predicate
from router.predicates.parser import parse_predicate
from router.records.json_file import write_json
from router.runtime.client import Client
from router.runtime.process import RouterSpec
from router.wire.frames import BroadcastTable, Commit, Frame, FrameType
from testbed.experiments.config.load import load_experiment
from testbed.experiments.workload.generate import generate
from tests.support.packets import ethernet
from tests.support.paths import ROOT
from tests.support.polling import wait_for
from tests.support.runtime_wire import Wire
from tests.support.tree_entries import TreeEntry, table_of

_DEFAULT = ROOT / "testbed" / "experiments" / "shipped" / "default.toml"
_INTERFACES = 5
#: Frames sent before the router is waited for: fewer than its receive buffer holds.
_WINDOW = 5_000
_BARE = "bare loop"


def configure(arguments: list[str]) -> dict[str, Any]:
    """The keyword arguments of `main` that a command line asks for."""
    parser = argparse.ArgumentParser(prog="./run.sh bench forwarding", description=__doc__)
    engines = ["naive", "counting", "compiled"]
    parser.add_argument("--engines", type=lambda text: text.split("+"), default=engines, metavar="NAME+...")
    parser.add_argument("--messages", type=int, default=40_000, metavar="N", help="messages a round (40,000)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="rounds, engines in turn (3)")
    return vars(parser.parse_args(arguments))


def main(engines: list[str], messages: int, rounds: int) -> None:
    """Prints medians: microseconds of CPU a message, and messages a second of CPU, beside the bare loop's."""
    predicates, contents = _workload()
    frames = [
        ethernet(Frame(FrameType.MSG, 1, number, 1, 9, contents[number % len(contents)]), 1)[0]
        for number in range(messages)
    ]
    results: dict[str, list[tuple[float, float]]] = {}
    share = 0.0
    for number in range(rounds):
        for engine in engines:
            with _router(engine, number) as (wire, client, pid):
                _advertise(wire, client, predicates)
                wire.inject(0, frames[0])
                wait_for(partial(_missing, client, "messages_received", 1))
                results.setdefault(engine, []).append(_flood(wire, pid, frames))
                wait_for(partial(_missing, client, "messages_received", messages + 1))
                share = client.status(tables=False)["counters"]["messages_forwarded"] / (messages + 1)
        with _bare(share, number) as (wire, pid):
            results.setdefault(_BARE, []).append(_flood(wire, pid, frames))
    print(
        f"{messages:,} messages, {len(predicates)} predicates behind {_INTERFACES} interfaces;"
        f" sent on: {share:.1%}"
    )
    print(
        f"{'':10} {'us CPU a message':>17} {'of it user':>10} {'messages/s of CPU':>18}"
        f" {'of the bare loop':>17}"
    )
    bare = median(total for _, total in results[_BARE])
    for name, rows in results.items():
        user, total = median(row[0] for row in rows), median(row[1] for row in rows)
        print(
            f"{name:10} {total * 1e6:17.2f} {user * 1e6:10.2f} {1 / total:18,.0f} {bare / total:17.2f}",
            flush=True,
        )


@contextmanager
def _bare(share: float, number: int) -> Iterator[tuple[Wire, int]]:
    """The process of `tests.bench.bare_loop`, which sends on `share` of the frames."""
    wire = Wire(f"y{number}")
    try:
        wire.up()
        arguments = [str(wire.namespaces[0]), wire.devices[0], str(share)]
        with subprocess.Popen(
            [sys.executable, "-m", "tests.bench.bare_loop", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            yield wire, process.pid
            process.communicate(timeout=20)
    finally:
        wire.down()


def _workload() -> tuple[list[Predicate], list[Message]]:
    experiment = load_experiment(_DEFAULT, {})
    assert experiment.workload is not None
    items = generate(replace(experiment, events=())).items
    texts = {item.node: item.predicate for item in reversed(list(items)) if item.predicate is not None}
    drawn = [Message(item.attributes) for item in items if item.attributes is not None]
    return [parse_predicate(text) for text in texts.values()], drawn


def _table(node: int) -> BroadcastTable:
    """A star of this router (node 0) and one neighbour on each interface."""
    every = range(1, _INTERFACES + 1)
    entries = [TreeEntry(node, 0, tuple(every), 0)]
    entries += [TreeEntry(n, n, tuple(i for i in every if i != n), n) for n in every]
    return table_of(tuple((n, n) for n in every), tuple(entries))


@contextmanager
def _router(engine: str, number: int) -> Iterator[tuple[Wire, Client, int]]:
    wire = Wire(f"x{number}")
    with tempfile.TemporaryDirectory() as folder:
        sock, counters, log = (str(Path(folder) / name) for name in ("a.sock", "a.json", "a.log"))
        try:
            wire.up()
            spec = RouterSpec(
                0, wire.devices[0], str(wire.namespaces[0]), sock, counters, log, matcher=engine
            )
            path = Path(folder) / "specs.json"
            write_json(path, [spec])
            with subprocess.Popen(
                [sys.executable, "-m", "router.runtime.parent", str(path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            ) as process:
                assert process.stdout is not None
                pid = json.loads(process.stdout.readline())["pid"]
                for kind, body in ((FrameType.TABLE, _table(0)), (FrameType.COMMIT, Commit(1))):
                    wire.control(0, Frame(kind, 0, 7, 1, 1, body))
                with Client(spec.socket_path, "bench") as client:
                    wait_for(lambda: None if client.status(tables=False)["epoch"] == 1 else "no epoch")
                    yield wire, client, pid
                process.communicate(timeout=20)
        finally:
            wire.down()


def _advertise(wire: Wire, client: Client, predicates: list[Predicate]) -> None:
    for number, predicate in enumerate(predicates, start=1):
        neighbour = 1 + number % _INTERFACES
        for data in ethernet(Frame(FrameType.RA, neighbour, number, 1, 9, predicate), neighbour):
            wire.inject(0, data)
    wait_for(lambda: _missing(client, "ras_received", len(predicates)))


def _missing(client: Client, counter: str, expected: int) -> str | None:
    counters = client.status(tables=False)["counters"]
    return None if counters[counter] >= expected else f"{counter}: {counters[counter]} of {expected}"


def _flood(wire: Wire, pid: int, frames: list[bytes]) -> tuple[float, float]:
    """Seconds of CPU in user mode and in all for a message.

    The process is stopped while a window of frames is sent, so that they wait when it goes on.
    """
    before = _cpu(pid)
    for start in range(0, len(frames), _WINDOW):
        window = frames[start : start + _WINDOW]
        os.kill(pid, signal.SIGSTOP)
        for data in window:
            wire.inject(0, data)
        os.kill(pid, signal.SIGCONT)
        while not _sleeps(pid):
            wire.read()
            wire.received[1].clear()
    after = _cpu(pid)
    return (after[0] - before[0]) / len(frames), (after[1] - before[1]) / len(frames)


def _sleeps(pid: int) -> bool:
    """Whether a process has nothing to do: it waits, and has used no CPU for some milliseconds."""
    used = _cpu(pid)[1]
    time.sleep(0.005)
    return _cpu(pid)[1] == used and psutil.Process(pid).status() == psutil.STATUS_SLEEPING


def _cpu(pid: int) -> tuple[float, float]:
    """Seconds in user mode (to a clock tick), and in all (to a nanosecond)."""
    whole = int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
    return psutil.Process(pid).cpu_times().user, whole / 1e9
