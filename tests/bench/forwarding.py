"""A live router at saturation: CPU time a message, and what it is spent on.

A real router process in a network namespace, a veth pair, and this process on its other end, which plays the
controller and all neighbours. Predicates and messages are those of the default experiment, the predicates
spread over five interfaces; messages come in on the first, and wait in its socket when it begins. CPU time is
the process's own, user and system. The peer receives the same frames and sends on the same share of them, by
recvmmsg and sendmmsg alone.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from router.predicates import Message, Predicate
from router.predicates.parser import parse_predicate
from router.runtime.client import Client
from router.wire.frames import BroadcastTable, Commit, Frame, FrameType
from testbed.experiments.config.load import find_experiment, load_experiment
from testbed.experiments.workload.generate import generate
from tests.bench.bare import bare_process
from tests.support.live_routers import Routers, spec_of
from tests.support.packets import ethernet
from tests.support.polling import wait_for
from tests.support.runtime_wire import Wire
from tests.support.tree_entries import TreeEntry, table_of

INTERFACES = 5
#: A star of the router (node 0) and one neighbour on each interface.
_TABLE = table_of(
    tuple((n, n) for n in range(1, INTERFACES + 1)),
    [
        TreeEntry(node, node, tuple(i for i in range(1, INTERFACES + 1) if i != node), node)
        for node in range(INTERFACES + 1)
    ],
)
#: Frames sent before the router is waited for: fewer than its receive buffer holds.
_WINDOW = 5_000
_BARE = "bare loop"


def main(
    engines: Sequence[str] = ("naive", "counting", "compiled"), messages: int = 40_000, rounds: int = 3
) -> None:
    """Prints medians: microseconds of CPU a message, and messages a second of CPU, beside the bare loop's.

    Args:
        messages: in a round.
        rounds: in which the engines take turns.
    """
    predicates, contents = workload()
    frames = [
        ethernet(Frame(FrameType.MSG, 1, number, 1, 9, contents[number % len(contents)]), 1)[0]
        for number in range(messages)
    ]
    results: dict[str, list[tuple[float, float]]] = {}
    share = 0.0
    for _ in range(rounds):
        for engine in engines:
            with live_router(predicates, matcher=engine, recording_path=None) as (wire, client, routers):
                wire.inject(0, frames[0])
                wait_for(partial(_missing, client, "messages_received", 1))
                results.setdefault(engine, []).append(_flood(wire, routers.pids[0], frames))
                wait_for(partial(_missing, client, "messages_received", messages + 1))
                share = client.status(tables=False)["counters"]["messages_forwarded"] / (messages + 1)
        with Wire("y") as wire, bare_process(*wire.place(0), "batches", share) as bare:
            results.setdefault(_BARE, []).append(_flood(wire, bare.pid, frames))
    print(
        f"{messages:,} messages, {len(predicates)} predicates behind {INTERFACES} interfaces;"
        f" sent on: {share:.1%}"
    )
    print(
        f"{'':10} {'us CPU a message':>17} {'of it user':>10} {'messages/s of CPU':>18}"
        f" {'of the bare loop':>17}"
    )
    of_bare = median(total for _, total in results[_BARE])
    for name, rows in results.items():
        user, total = median(row[0] for row in rows), median(row[1] for row in rows)
        print(
            f"{name:10} {total * 1e6:17.2f} {user * 1e6:10.2f} {1 / total:18,.0f} {of_bare / total:17.2f}",
            flush=True,
        )


def workload() -> tuple[list[Predicate], list[Message]]:
    """The predicates and the messages of the default experiment."""
    experiment = load_experiment(find_experiment("default"))
    items = generate(replace(experiment, events=())).items
    texts = {item.node: item.predicate for item in reversed(list(items)) if item.predicate is not None}
    drawn = [Message(item.attributes) for item in items if item.attributes is not None]
    return [parse_predicate(text) for text in texts.values()], drawn


@contextmanager
def live_router(
    predicates: list[Predicate], table: BroadcastTable = _TABLE, **fields: Any
) -> Iterator[tuple[Wire, Client, Routers]]:
    """A router in epoch 1 with predicates behind its interfaces, the wire to it, and a client of its.

    Args:
        fields: of the router's spec.
    """
    with tempfile.TemporaryDirectory() as folder, Wire("x") as wire, ExitStack() as stack:
        routers = Routers([spec_of(wire, Path(folder), 0, **fields)], Path(folder))
        stack.callback(routers.kill)
        for kind, body in ((FrameType.TABLE, table), (FrameType.COMMIT, Commit(1))):
            wire.control(0, Frame(kind, 0, 7, 1, 1, body))
        client = stack.enter_context(Client(routers.specs[0].socket_path, "bench"))
        wait_for(lambda: None if client.status(tables=False)["epoch"] == 1 else "no epoch")
        for number, predicate in enumerate(predicates, start=1):
            neighbour = 1 + number % INTERFACES
            for data in ethernet(Frame(FrameType.RA, neighbour, number, 1, 9, predicate), neighbour):
                wire.inject(0, data)
        wait_for(lambda: _missing(client, "ras_received", len(predicates)))
        yield wire, client, routers


def _missing(client: Client, counter: str, expected: int) -> str | None:
    counters = client.status(tables=False)["counters"]
    return None if counters[counter] >= expected else f"{counter}: {counters[counter]} of {expected}"


def _flood(wire: Wire, pid: int, frames: list[bytes]) -> tuple[float, float]:
    """Seconds of CPU in user mode and in all for a message.

    The process is stopped while a window of frames is sent, so that they wait when it goes on.
    """
    before = psutil.Process(pid).cpu_times().user, cpu_s(pid)
    for start in range(0, len(frames), _WINDOW):
        os.kill(pid, signal.SIGSTOP)
        for data in frames[start : start + _WINDOW]:
            wire.inject(0, data)
        os.kill(pid, signal.SIGCONT)
        while not _sleeps(pid):
            wire.read()
            wire.received[1].clear()
    after = psutil.Process(pid).cpu_times().user, cpu_s(pid)
    return (after[0] - before[0]) / len(frames), (after[1] - before[1]) / len(frames)


def _sleeps(pid: int) -> bool:
    """Whether a process has nothing to do: it waits, and has used no CPU for some milliseconds."""
    used = cpu_s(pid)
    time.sleep(0.005)
    return cpu_s(pid) == used and psutil.Process(pid).status() == psutil.STATUS_SLEEPING


def cpu_s(pid: int) -> float:
    """Seconds of CPU of a process, to a nanosecond."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
