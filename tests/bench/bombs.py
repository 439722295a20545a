"""The longest turn of a live router under predicates made to be expensive, by shape and size.

A router process as an emulation starts it, with its recording, on a veth pair; this process plays its
neighbours, its controller and its applications. Needs root.

The router receives one RA of the size, in Ethernet frames of 1,500 bytes, and works it off (*RA*). Then it
receives messages that p_i has to be searched for, until the matching engine has all of p_i: short ones, and
ones with a text of 60,000 letters (*MSG*). Another neighbour sends the same predicate as its UR, with which a
third is answered (*UR*). A further router with `max_filters` over-simplifies p_i after the RA (*max*). An
application of a third router sets the predicate, and the router issues an RA with it (*p0*); it then receives
the same messages, for that application (*own*). At a fourth router, many applications set small predicates of
the shape, about as many bytes in all; then one of them narrows its predicate, and all leave at once (*apps*).

A bomb of 0 bytes has as many filters as a router reads with its default bounds.

The shapes whose names begin with *bits* are of encoded predicates and messages (`[privacy] mode = "bloom"`).

A turn goes from the end of a wait of the router's loop to its next wait; its time is that of the processor,
in milliseconds, as the router measures it for `lag.json` (`turn_cpu_s`). The columns are the longest turns
until the router is idle; *wall* is the longest of all in wall time, which other processes lengthen. *CPU s*
is what the four routers took in all, *MB* the greatest resident memory of one, *rec MB* the size of the
recordings. With `--runs`, the least of the longest turns counts.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from router.clock import ClockPage, Piece
from router.clock.meter import Meter
from router.predicates import Predicate
from router.predicates.encoded import BloomPredicate
from router.predicates.printer import format_predicate
from router.protocol.options import RouterOptions, content_of
from router.runtime.process import RouterSpec
from router.wire import private
from router.wire.codec import fragment
from router.wire.frames import Body, Commit, EncodedPredicate, Frame, FrameType, SenderRequest
from router.wire.header import node_address, port_addresses
from tests.bench.bomb_shapes import (
    AT_BOUNDS,
    ENCODED,
    SHAPES,
    SINGLE,
    bomb,
    declared,
    messages,
    narrower,
    small,
)
from tests.support.live_routers import Routers
from tests.support.runtime_wire import ETHERTYPE_BYTES, Wire, socket_in
from tests.support.tree_entries import TreeEntry, table_of

_SIZES = (20_000, 200_000, 2_000_000, AT_BOUNDS)
_COLUMNS = ("RA", "MSG", "UR", "max", "p0", "own", "apps")
#: `max_filters` of the column *max*; applications of the column *apps* at most.
_MAX_FILTERS, _APPLICATIONS = 50, 300
#: The router is node 0; its interfaces 1, 2, 3 lead to nodes 1, 2, 3, and node 4 lies beyond node 1.
_TABLE = table_of(
    ((1, 1), (2, 2), (3, 3)),
    (
        TreeEntry(0, 0, (1, 2, 3), 0),
        TreeEntry(1, 1, (2, 3), 1),
        TreeEntry(4, 1, (2,), 2),
        TreeEntry(2, 2, (1,), 3),
        TreeEntry(3, 3, (), 4),
    ),
)
_MTU = 1_500
#: More phases than a bomb has: a process that takes longer than their limits together does not end.
_PHASES = 30
#: Microseconds for which an SR waits: longer than any router here takes.
_TIMEOUT_US = 3_600_000_000
#: Seconds between two looks at a router, and CPU seconds that one which has nothing to do takes in between.
_LOOK_S, _QUIET_S = 0.05, 0.01
#: Frames that are sent before the router has had time to read them: far less than its socket holds.
_BURST, _PAUSE_S = 256, 0.01


@dataclass
class _Longest:
    """The longest turns, seconds: by column in CPU time, and of all in wall time."""

    cpu_s: dict[str, float] = field(default_factory=dict)
    wall_s: float = 0.0


@dataclass
class _Used:
    """Costs of a bomb's routers: CPU seconds, resident MB of the largest, bytes of recordings."""

    cpu_s: float = 0.0
    peak_mb: int = 0
    recorded: int = 0


class _LiveRouter:
    """A router process in epoch 1.

    Args:
        options, matcher: of the router.
        folder: for its files.
        limit_s: seconds that a phase may take.
    """

    def __init__(
        self, wire: Wire, options: RouterOptions, matcher: str, folder: Path, limit_s: float
    ) -> None:
        self._limit_s = limit_s
        page = ClockPage.create(folder / "clock", 1, Piece(time.monotonic_ns(), 0.0, 1.0))
        self._meter = Meter(page.slot(0))
        self.recording = folder / "r.rec"
        self.spec = RouterSpec(
            node=0,
            device=wire.devices[0],
            namespace=str(wire.namespaces[0]),
            socket_path=str(folder / "r.sock"),
            counters_path=str(folder / "r.json"),
            log_path=str(folder / "r.log"),
            records_path=str(folder / "r.jsonl"),
            recording_path=str(self.recording),
            options=options,
            matcher=matcher,
            clock_path=str(folder / "clock"),
        )
        self._routers = Routers([self.spec], folder)
        self._pid = self._routers.pids[0]
        self._link = socket_in(wire.namespaces[1], wire.devices[1])
        self._sent: dict[str, int] = {}
        for kind, body in ((FrameType.TABLE, _TABLE), (FrameType.COMMIT, Commit(1))):
            wire.control(0, Frame(kind, 0, 7, 1, 1, body))
        self._application = _Application(self.spec.socket_path)
        self._await(lambda status: status["epoch"] == 1)

    def send(self, sender: int, frame: Frame) -> None:
        """Sends a frame of a neighbour, in Ethernet frames.

        Raises TimeoutError: the device does not take them within the seconds of a phase.
        """
        deadline = time.monotonic() + self._limit_s
        head = port_addresses([1])[0] + node_address(sender) + ETHERTYPE_BYTES
        payloads = fragment(frame, _MTU)
        for number, payload in enumerate(payloads):
            if number % _BURST == _BURST - 1:
                time.sleep(_PAUSE_S)
            while True:
                try:
                    self._link.send(head + payload)
                    break
                except OSError as error:
                    if time.monotonic() > deadline:
                        where = f"Ethernet frame {number + 1} of {len(payloads)}"
                        raise TimeoutError(
                            f"{where} is not sent after {self._limit_s:g} s: {error}"
                        ) from error
                    time.sleep(_PAUSE_S)
        self._sent[frame.type.name] = self._sent.get(frame.type.name, 0) + len(payloads)

    def longest(self, found: _Longest, column: str, cause: Callable[[], object]) -> None:
        """Notes the longest turn from a cause until the router has nothing left to do."""
        self._meter.reset()
        cause()
        self._await(self._has_all)
        measured = self._meter.measured()
        found.cpu_s[column] = max(measured.turn_cpu_s, found.cpu_s.get(column, 0.0))
        found.wall_s = max(measured.turn_s, found.wall_s)

    def _has_all(self, status: dict[str, Any]) -> bool:
        received = status["counters"]["frames_received"]
        assert status["counters"]["socket_drops"] == 0, "frames were sent faster than the router reads"
        return all(received.get(kind, 0) == count for kind, count in self._sent.items())

    def _await(self, reached: Callable[[dict[str, Any]], bool]) -> None:
        """Waits until the router has had all frames and is idle, also in work that nobody waits for."""
        deadline, before = time.monotonic() + self._limit_s, self.cpu_s
        while True:
            time.sleep(_LOOK_S)
            now = self.cpu_s
            quiet, before = now - before < _QUIET_S, now
            if quiet:
                status = self._application.ask({"op": "status", "tables": False}, self._limit_s)
                if status["idle"] and reached(status):
                    return
            if time.monotonic() > deadline:
                raise TimeoutError(f"the router is not idle after {self._limit_s:g} s")

    @property
    def cpu_s(self) -> float:
        """CPU seconds of the router's process."""
        return int(Path(f"/proc/{self._pid}/schedstat").read_text().split()[0]) / 1e9

    def peak_mb(self) -> int:
        """Its greatest resident memory."""
        status = Path(f"/proc/{self._pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) // 1024

    def close(self) -> None:
        self._application.close()
        self._link.close()
        self._routers.kill()


class _Application:
    """A connection to a router's application socket."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self._input = b""

    def ask(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """Returns the answer to a request; the lines before it are deliveries."""
        self._socket.settimeout(timeout_s)
        self._socket.sendall(json.dumps({**request, "id": 1}).encode() + b"\n")
        while True:
            line, separator, rest = self._input.partition(b"\n")
            if not separator:
                chunk = self._socket.recv(1 << 20)
                assert chunk, "the router closed the connection"
                self._input += chunk
                continue
            self._input = rest
            if b'"event":"deliver"' not in line[:30]:
                answer: dict[str, Any] = json.loads(line)
                return answer

    def set(self, predicate: Predicate, timeout_s: float) -> None:
        if isinstance(predicate, BloomPredicate):
            request = {"encoded": private.encode_predicate(predicate).hex()}
        else:
            request = {"predicate": format_predicate(predicate)}
        answer = self.ask({"op": "set_predicate", **request}, timeout_s)
        if not answer["ok"]:
            print(f"# refused: {answer['error']}", file=sys.stderr)

    def close(self) -> None:
        self._socket.close()


@contextmanager
def _running(options: RouterOptions, matcher: str, limit_s: float, used: _Used) -> Iterator[_LiveRouter]:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        wire = Wire()
        stack.callback(wire.down)
        wire.up()
        router = _LiveRouter(wire, options, matcher, Path(folder), limit_s)
        stack.callback(router.close)
        began = router.cpu_s
        yield router
        used.cpu_s += router.cpu_s - began
        used.peak_mb = max(used.peak_mb, router.peak_mb())
        used.recorded += router.recording.stat().st_size


def measure(shape: str, size: int, matcher: str, limit_s: float) -> dict[str, Any]:
    """The longest turns of one bomb, and what it took."""
    options = RouterOptions(privacy="bloom") if shape in ENCODED else RouterOptions()
    content = content_of(options.covering, options.privacy)
    body, found, used = bomb(shape, size), _Longest(), _Used()

    def frame(kind: FrameType, issuer: int, seq: int, content: Body) -> Frame:
        return Frame(kind, issuer, seq, 1, 9, content)

    def of_bomb(kind: FrameType, issuer: int) -> Frame:
        return frame(kind, issuer, 1, EncodedPredicate(kind, body))

    def send_messages(router: _LiveRouter, column: str) -> None:
        for number, message in enumerate(messages(shape)):
            sent = frame(content.message_frame, 2, number, message)
            router.longest(found, column, partial(router.send, 2, sent))

    advertisement = of_bomb(content.advertisement_frame, 1)
    with _running(options, matcher, limit_s, used) as router:
        router.longest(found, "RA", partial(router.send, 1, advertisement))
        send_messages(router, "MSG")
        request = frame(FrameType.SR, 4, 1, SenderRequest(_TIMEOUT_US))

        def exchange() -> None:
            router.send(1, request)
            router.send(2, of_bomb(content.reply_frame, 4))

        router.longest(found, "UR", exchange)
    with _running(replace(options, max_filters=_MAX_FILTERS), matcher, limit_s, used) as router:
        router.longest(found, "max", partial(router.send, 1, advertisement))
    with _running(options, matcher, limit_s, used) as router:
        application = _Application(router.spec.socket_path)
        for predicate in declared(shape, size):
            router.longest(found, "p0", partial(application.set, predicate, limit_s))
        send_messages(router, "own")
        application.close()
    with _running(options, matcher, limit_s, used) as router:
        _many_applications(router, found, small(shape, size, _APPLICATIONS), limit_s)
    return {
        "turns": found.cpu_s,
        "wall_s": found.wall_s,
        "cpu_s": used.cpu_s,
        "MB": used.peak_mb,
        "recorded": used.recorded,
    }


def _many_applications(
    router: _LiveRouter, found: _Longest, predicates: Sequence[Predicate], limit_s: float
) -> None:
    applications = [_Application(router.spec.socket_path) for _ in predicates]

    def set_all() -> None:
        for application, predicate in zip(applications, predicates, strict=True):
            application.set(predicate, limit_s)

    def leave() -> None:
        for application in applications:
            application.close()

    router.longest(found, "apps", set_all)
    router.longest(found, "apps", partial(applications[0].set, narrower(predicates[0]), limit_s))
    router.longest(found, "apps", leave)


def _row(shape: str, size: int, runs: list[dict[str, Any]]) -> str:
    """The row of a bomb: of each longest turn, the least of several runs."""
    longest = " ".join(f"{1e3 * min(run['turns'][each] for run in runs):>7,.1f}" for each in _COLUMNS)
    return (
        f"{shape:28} {size:>9,} {longest} {1e3 * min(run['wall_s'] for run in runs):>7,.1f}"
        f" {min(run['cpu_s'] for run in runs):>7,.1f} {max(run['MB'] for run in runs):>5}"
        f" {runs[0]['recorded'] / 1e6:>6,.1f}"
    )


def configure(arguments: list[str]) -> dict[str, Any]:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="./run.sh bench bombs", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=list(_SIZES), metavar="BYTES")
    parser.add_argument("--shapes", nargs="*", default=[*SHAPES, *SINGLE, *ENCODED], metavar="SHAPE")
    parser.add_argument("--matcher", default="compiled", metavar="ENGINE")
    parser.add_argument("--runs", type=int, default=1, metavar="N", help="runs of each bomb")
    parser.add_argument("--limit", type=int, default=120, metavar="SECONDS", help="give up on a phase")
    return vars(parser.parse_args(arguments))


def main(
    sizes: list[int] | None = None,
    shapes: list[str] | None = None,
    limit: int = 120,
    matcher: str = "compiled",
    runs: int = 1,
) -> None:
    """Prints a row for each bomb, each run measured in a process of its own."""
    columns = " ".join(f"{column + ' ms':>7}" for column in (*_COLUMNS, "wall"))
    print(f"{'shape':28} {'bytes':>9} {columns} {'CPU s':>7} {'MB':>5} {'rec MB':>6}", flush=True)
    for size in sizes or _SIZES:
        for shape in shapes or (*SHAPES, *SINGLE, *ENCODED):
            command = [sys.executable, "-m", "tests.bench.bombs", shape, str(size), matcher, str(limit)]
            try:
                row = _row(shape, size, [_run(command, limit * _PHASES) for _ in range(runs)])
            except RuntimeError as error:
                row = f"{shape:28} {size:>9,} failed: {error}"
            print(row, flush=True)


def _run(command: list[str], timeout_s: float) -> dict[str, Any]:
    """Returns the result of a process that measures one bomb.

    Raises RuntimeError: the process failed, with its last line, or did not end in time.
    """
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"not measured after {timeout_s:g} s") from None
    sys.stderr.write(done.stderr)
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise RuntimeError(said[-1] if said else f"exit status {done.returncode}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


if __name__ == "__main__":
    name, length, engine, seconds = sys.argv[1:]
    print(json.dumps(measure(name, int(length), engine, float(seconds))), flush=True)
