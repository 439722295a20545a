"""A live router woken for one frame at a time: CPU, system calls and the functions of a hop.

A real router process on a veth pair; the predicates and messages of `forwarding`. A frame comes every few
milliseconds, so that each has a wake-up of its own: a message, an RA with a new predicate, or an SR and the
URs of the other neighbours, which the router sums up for the one that asked; or an application of the router
sends a message. The bare loop beside the router serves an application as well, if the router does. Three
phases: CPU alone, system calls (strace), functions (cProfile, whose own cost is in its figures). Needs root.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from statistics import median
from typing import Any

from router.predicates import EVERYTHING, Message
from router.predicates.parser import parse_predicate
from router.runtime import process
from router.runtime.commands import send_message
from router.runtime.loop import RouterLoop
from router.runtime.process import RouterSpec
from router.wire.frames import Commit, Frame, FrameType, SenderRequest
from tests.bench.forwarding import _INTERFACES, _advertise, _table, _workload
from tests.support.packets import ethernet
from tests.support.paths import ROOT
from tests.support.polling import TIMEOUT, wait_for
from tests.support.runtime_wire import Wire

_PERIOD_S = 0.002
#: RAs come after those that set the router up.
_LATER = 1 << 20
_TIMEOUT_US = 1_000_000
_SEND = "send"
#: Bytes of a request of the default experiment.
_REQUEST_BYTES = 220


def configure(arguments: list[str]) -> dict[str, Any]:
    """The keyword arguments of `main` that a command line asks for."""
    parser = argparse.ArgumentParser(prog="./run.sh bench hop", description=__doc__)
    parser.add_argument("--frames", type=int, default=1_000, metavar="N", help="frames a phase (1,000)")
    parser.add_argument(
        "--type",
        choices=(*_FRAMES, _SEND),
        default="MSG",
        help="what wakes the router; UR: SRs with URs; send: messages of an application (MSG)",
    )
    parser.add_argument(
        "--deliver", action="store_true", help="an application of the router gets each message"
    )
    return vars(parser.parse_args(arguments))


def main(frames: int, type: str, deliver: bool) -> None:
    """Prints CPU and system calls of a hop, and the functions that take the most of it."""
    with tempfile.TemporaryDirectory() as folder:
        plain, bare = _phase(Path(folder), type, frames, profiled=False, traced=False, deliver=deliver)
        print(f"{frames} frames ({type}), {_PERIOD_S * 1e3:.0f} ms apart; medians: ", end="")
        print(f"{plain:.1f} us of CPU a hop, ", end="")
        print(f"of a bare loop that gets them in turn {bare:.1f} us: {plain / bare:.2f} times")
        if shutil.which("strace") is not None:
            _phase(Path(folder), type, frames, profiled=False, traced=True, deliver=deliver)
            _print_calls(Path(folder) / "calls", frames)
        _phase(Path(folder), type, frames, profiled=True, traced=False, deliver=deliver)
        _print_functions(Path(folder) / "profile", frames)


def _messages(contents: Sequence[Message]) -> Iterator[bytes]:
    for number in count():
        message = Frame(FrameType.MSG, 1, number, 1, 9, contents[number % len(contents)])
        yield ethernet(message, 1)[0]


def _advertisements(_contents: Sequence[Message]) -> Iterator[bytes]:
    for number in count(1):
        predicate = parse_predicate(f"x{number % 7} = {number} or y < {number}")
        yield ethernet(Frame(FrameType.RA, 1, _LATER + number, 1, 9, predicate), 1)[0]


def _requests(_contents: Sequence[Message]) -> Iterator[bytes]:
    """An SR of neighbour 1, then the UR of each other neighbour."""
    for number in count(1):
        request = SenderRequest(_TIMEOUT_US)
        yield ethernet(Frame(FrameType.SR, 1, number, 1, 9, request), 1)[0]
        for neighbour in range(2, _INTERFACES + 1):
            predicate = parse_predicate(f"x{neighbour} = {number} or y < {neighbour}")
            yield ethernet(Frame(FrameType.UR, 1, number, 1, 9, predicate), neighbour)[0]


_FRAMES: dict[str, Callable[[Sequence[Message]], Iterator[bytes]]] = {
    "MSG": _messages,
    "RA": _advertisements,
    "UR": _requests,
}


def _phase(
    folder: Path, type_: str, frames: int, *, profiled: bool, traced: bool, deliver: bool
) -> tuple[float, float]:
    """Microseconds of CPU a hop of a router that gets so many frames, one at a time, and of a bare loop."""
    from router.runtime.client import Client

    predicates, contents = _workload()
    wire = Wire(f"{profiled:d}{traced:d}")
    sock, counters, log, recording = (str(folder / f"a.{end}") for end in ("sock", "json", "log", "rec"))
    try:
        wire.up()
        spec = RouterSpec(
            0, wire.devices[0], str(wire.namespaces[0]), sock, counters, log, recording_path=recording
        )
        if profiled:
            _profile_to(folder / "profile")
        reader, writer = os.pipe()
        # As the parent of an emulation's routers: otherwise the router compiles, or loads, during the phase.
        process.load_engines([spec])
        (pid,) = process.spawn_routers([spec], writer)
        os.read(reader, 4096)
        for kind, body in ((FrameType.TABLE, _table(0)), (FrameType.COMMIT, Commit(1))):
            wire.control(0, Frame(kind, 0, 7, 1, 1, body))
        with Client(spec.socket_path, "bench") as client:
            wait_for(lambda: None if client.status(tables=False)["epoch"] == 1 else "no epoch")
            _advertise(wire, client, predicates)
        receiver = Client(spec.socket_path, "receiver")
        if deliver:
            receiver.set_predicate(EVERYTHING)
        sender = Client(spec.socket_path, "sender")
        frames_in = _FRAMES.get(type_, _messages)(contents)
        tracer = None
        if traced:
            tracer = subprocess.Popen(["strace", "-q", "-c", "-o", str(folder / "calls"), "-p", str(pid)])
            time.sleep(0.5)
        costs, bare_costs = [], []
        sends = type_ == _SEND
        with _bare(1, folder / "bare.sock" if deliver or sends else None) as bare:
            for number, data in enumerate(islice(frames_in, frames)):
                before = _cpu_s(pid)
                if sends:
                    sender.start(send_message(contents[number % len(contents)]))
                else:
                    wire.inject(0, data)
                time.sleep(_PERIOD_S)
                costs.append(_cpu_s(pid) - before)
                sender.read_events()
                wire.read()
                sent = bool(wire.received[1])
                wire.received[1].clear()
                before = _cpu_s(bare.pid)
                if sends and bare.application is not None:
                    bare.application.send(bytes(_REQUEST_BYTES))
                else:
                    bare.wire.inject(0, data[:-1] + bytes([sent]))
                time.sleep(_PERIOD_S)
                bare_costs.append(_cpu_s(bare.pid) - before)
                if bare.application is not None:
                    bare.application.recv(65_536)
        if tracer is not None:
            tracer.send_signal(signal.SIGINT)
            tracer.wait(10)
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)
    finally:
        wire.down()
    return median(costs) * 1e6, median(bare_costs) * 1e6


@dataclass(frozen=True)
class _Bare:
    wire: Wire
    pid: int
    application: socket.socket | None


@contextmanager
def _bare(node: int, path: Path | None) -> Iterator[_Bare]:
    """A process of `tests.bench.bare_hop` on a wire of its own, and its application, if it serves one."""
    wire = Wire("b")
    try:
        wire.up()
        served = [] if path is None else [str(path)]
        arguments = [str(wire.namespaces[0]), wire.devices[0], str(node), "1", *served]
        with subprocess.Popen(
            [sys.executable, "-m", "tests.bench.bare_hop", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as loop:
            assert loop.stdout is not None
            loop.stdout.readline()
            application = None
            if path is not None:
                application = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                application.connect(str(path))
                # A lost frame ends the measurement.
                application.settimeout(TIMEOUT)
            yield _Bare(wire, loop.pid, application)
            loop.communicate(timeout=20)
    finally:
        wire.down()
        if path is not None:
            path.unlink(missing_ok=True)


def _cpu_s(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def _profile_to(path: Path) -> None:
    """Makes the routers that are forked from now on write a profile of their loop."""
    run = RouterLoop.run

    def profiled(loop: RouterLoop) -> None:
        profiler = cProfile.Profile(time.process_time)
        profiler.runcall(run, loop)
        profiler.dump_stats(path)

    RouterLoop.run = profiled  # type: ignore[method-assign, assignment]


def _print_calls(path: Path, frames: int) -> None:
    rows = re.findall(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(\d+)?\s*(\w+)$", path.read_text(), re.MULTILINE)
    counted = {name: int(count) / frames for count, _, name in rows if name != "total"}
    shown = ", ".join(f"{name} {count:.2f}" for name, count in counted.items() if count > 0.05)
    print(f"system calls a hop: {shown}")


def _print_functions(path: Path, frames: int) -> None:
    print("functions of a hop, as cProfile sees them (own time):")
    stats = pstats.Stats(str(path)).stats  # type: ignore[attr-defined]
    rows = sorted(((own, calls, *key) for key, (_, calls, own, *_) in stats.items()), reverse=True)
    for own, calls, file, line, name in rows[:22]:
        within = Path(file).is_relative_to(ROOT)
        where = f"{Path(file).relative_to(ROOT)}:{line} {name}" if within else name
        print(f"  {own / frames * 1e6:6.2f} us {calls / frames:6.2f} calls  {where}")


if __name__ == "__main__":
    main(**configure(sys.argv[1:]))
