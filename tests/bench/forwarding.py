"""A live router at saturation: CPU time a message, and what it is spent on.

A real router process in a network namespace, a veth pair, and this process on its other end, which plays the
controller and all neighbours. Predicates and messages are those of the default experiment, the predicates
spread over five interfaces; messages come in on the first. CPU time is the process's own, user and system.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import psutil

from router.matching.factory import factory
from router.predicates.model import Message, Predicate
from router.predicates.parser import parse_predicate
from router.protocol.events import ControllerFrame, FrameReceived, Send
from router.protocol.options import RouterOptions
from router.protocol.router import Router
from router.runtime.client import Client
from router.runtime.link import Link
from router.runtime.packet_socket import PacketSocket, SendResult
from router.runtime.process import RouterSpec
from router.wire.addresses import node_address, port_addresses
from router.wire.codec import fragment
from router.wire.frames import BroadcastTable, Commit, Frame, FrameType
from testbed.config.load import load_experiment
from testbed.workload.generate import generate
from tests.support.paths import ROOT
from tests.support.polling import wait_for
from tests.support.runtime_wire import ETHERTYPE_BYTES, Wire
from tests.support.tree_entries import TreeEntry, table_of

_DEFAULT = ROOT / "testbed" / "experiments" / "default.toml"
_INTERFACES = 5
#: Frames sent before the router is waited for: fewer than its receive buffer holds.
_WINDOW = 5_000


def configure(arguments: list[str]) -> dict[str, Any]:
    """The keyword arguments of `main` that a command line asks for."""
    parser = argparse.ArgumentParser(prog="./run.sh bench forwarding", description=__doc__)
    engines = ["naive", "counting", "compiled"]
    parser.add_argument("--engines", type=lambda text: text.split("+"), default=engines, metavar="NAME+...")
    parser.add_argument("--messages", type=int, default=40_000, metavar="N", help="messages a round (40,000)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="rounds, engines in turn (3)")
    parser.add_argument("--profile", action="store_true", help="also where the last engine's time goes")
    return vars(parser.parse_args(arguments))


def main(engines: list[str], messages: int, rounds: int, profile: bool) -> None:
    """Prints the least microseconds of CPU time a message, and messages a second of CPU."""
    predicates, contents = _workload()
    results: dict[str, list[tuple[float, float]]] = {}
    for number in range(rounds):
        for engine in engines:
            with _router(engine, number) as (wire, client, pid):
                _advertise(wire, client, predicates)
                results.setdefault(engine, []).append(_flood(wire, client, pid, contents, messages))
    print(f"{messages:,} messages, {len(predicates)} predicates behind {_INTERFACES} interfaces")
    print(f"{'engine':10} {'us CPU a message':>17} {'of it user':>10} {'messages/s of CPU':>18}")
    for engine, times in results.items():
        user, system = min(times, key=sum)
        total = user + system
        print(f"{engine:10} {total * 1e6:17.1f} {user * 1e6:10.1f} {1 / total:18,.0f}", flush=True)
    if profile:
        _profile(engines[-1], predicates, contents)


def _workload() -> tuple[list[Predicate], list[Message]]:
    experiment = load_experiment(_DEFAULT, {})
    assert experiment.workload is not None
    items = generate(replace(experiment, events=())).items
    texts = {item.node: item.predicate for item in reversed(items) if item.predicate is not None}
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
    wire = Wire(f"{os.getpid() % 10_000}x{number}")
    with tempfile.TemporaryDirectory() as folder:
        sock, counters, log = (str(Path(folder) / name) for name in ("a.sock", "a.json", "a.log"))
        try:
            wire.up()
            spec = RouterSpec(
                0, wire.devices[0], str(wire.namespaces[0]), sock, counters, log, matcher=engine
            )
            path = Path(folder) / "specs.json"
            path.write_text(json.dumps([spec.as_json()]))
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


def _ethernet(frame: Frame, sender: int) -> list[bytes]:
    head = port_addresses([1])[0] + node_address(sender) + ETHERTYPE_BYTES
    return [head + payload for payload in fragment(frame)]


def _advertise(wire: Wire, client: Client, predicates: list[Predicate]) -> None:
    for number, predicate in enumerate(predicates, start=1):
        neighbour = 1 + number % _INTERFACES
        for data in _ethernet(Frame(FrameType.RA, neighbour, number, 1, 9, predicate), neighbour):
            wire.inject(0, data)
    wait_for(lambda: _missing(client, "ras_received", len(predicates)))


def _missing(client: Client, counter: str, expected: int) -> str | None:
    counters = client.status(tables=False)["counters"]
    return None if counters[counter] >= expected else f"{counter}: {counters[counter]} of {expected}"


def _flood(wire: Wire, client: Client, pid: int, contents: list[Message], count: int) -> tuple[float, float]:
    """Seconds of user and system time a message."""
    frames = [
        _ethernet(Frame(FrameType.MSG, 1, number, 1, 9, contents[number % len(contents)]), 1)[0]
        for number in range(count + 1)
    ]
    wire.inject(0, frames[0])
    wait_for(lambda: _missing(client, "messages_received", 1))
    before = _cpu(pid)
    for start in range(1, count + 1, _WINDOW):
        for data in frames[start : start + _WINDOW]:
            wire.inject(0, data)
        sent = min(start + _WINDOW, count + 1)
        while (left := _missing(client, "messages_received", sent)) is not None:
            time.sleep(0.02)
            wire.read()
            wire.received[1].clear()
    after = _cpu(pid)
    assert left is None
    return (after[0] - before[0]) / count, (after[1] - before[1]) / count


def _cpu(pid: int) -> tuple[float, float]:
    times = psutil.Process(pid).cpu_times()
    return times.user, times.system


class _Packets:
    """A packet socket that has received frames, and takes what is sent."""

    mtu = 1500

    def __init__(self) -> None:
        self.waiting: deque[bytes] = deque()

    def receive(self) -> bytes | None:
        return self.waiting.popleft() if self.waiting else None

    def send(self, _frame: bytes) -> SendResult:
        return SendResult.SENT


def _profile(engine: str, predicates: list[Predicate], contents: list[Message]) -> None:
    """Prints the modules on the way of a frame through link and core, by their functions' own CPU time."""
    packets = _Packets()
    router = Router(0, RouterOptions(), factory(engine), 1)
    link = Link(0, cast(PacketSocket, packets), lambda *_: None)
    for kind, body in ((FrameType.TABLE, _table(0)), (FrameType.COMMIT, Commit(1))):
        router.handle(ControllerFrame(Frame(kind, 0, 7, 1, 1, body)), 0.0)
    for number, predicate in enumerate(predicates, start=1):
        neighbour = 1 + number % _INTERFACES
        router.handle(FrameReceived(neighbour, Frame(FrameType.RA, neighbour, number, 1, 9, predicate)), 0.0)
    frames = [
        _ethernet(Frame(FrameType.MSG, 1, number, 1, 9, contents[number % len(contents)]), 1)[0]
        for number in range(20_000)
    ]

    def forward() -> None:
        packets.waiting.extend(frames)
        while packets.waiting:
            for event, _ in link.receive(0.0):
                for action in router.handle(event, 0.0):
                    if isinstance(action, Send):
                        link.send(action.interfaces, action.frame, 0.0)

    forward()
    started = time.process_time()
    forward()
    least = (time.process_time() - started) / len(frames)
    print(f"without sockets: {least * 1e6:.1f} us of CPU a message; shares of its profile:")
    profiler = cProfile.Profile(time.process_time)
    profiler.runcall(forward)
    shares: Counter[str] = Counter()
    for (file, _, name), (_, _, own, *_) in pstats.Stats(profiler).stats.items():  # type: ignore[attr-defined]
        within = Path(file).is_relative_to(ROOT)
        where = ".".join(Path(file).relative_to(ROOT).with_suffix("").parts) if within else name
        shares[where] += own
    whole = shares.total()
    for where, own in shares.most_common(14):
        print(f"{where:40} {own / whole:6.1%}")
