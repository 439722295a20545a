"""The process that captures all devices of a run: ``python -m captures.capturing.recorder``.

On standard input it reads a JSON line, ``{"parent": pid, "captures": [{"name", "namespace", "device",
"file", "ethertype"}, ...], "clock": [page, slot]}``, and writes ``{"event": "ready"}`` to standard output
when every device is captured. On the line ``stop`` it writes all frames that the devices have had, and
answers ``{"event": "counters", "counters": {name: [captured, received, dropped], ...}}``. It ends when
standard input ends, without waiting for frames.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import socket
import sys
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from captures.capturing.ring import BLOCK_BYTES, BLOCK_MS, WHOLE_FRAMES, Ring
from captures.pcap import FILE_HEADER
from router.clock import ClockPage
from router.clock.clock import SharedClock
from router.clock.meter import NOTHING, Meter
from router.system import die_with, enter_network_namespace
from router.wire.header import ETHERTYPE

#: Bytes of all rings together, and of one ring at least: 32 blocks last for 8 s in which this process does
#: not run, if there are few frames, or for some 12,000 frames of 150 bytes.
_RINGS_BYTES = 64 << 20
_RING_BYTES_MIN = 2 << 20
#: Wall seconds between two looks at the rings, between two writes to the files, and between two checks of the
#: devices, each of which takes some 5 us.
_LOOK_S = 0.05
_WRITE_S = 0.5
_CHECK_S = 2.0
#: Wall seconds in which a ring must have passed on what it has.
_SETTLE_S = 20.0
#: Bytes to keep of a frame that is not CBCB's: its headers.
_HEADERS_BYTES = 128
#: More urgent than the routers: frames that are not read in time are lost.
_NICE = -10


@dataclass(slots=True)
class _File:
    """A capture and what is to be appended to its file."""

    name: str
    device: int
    descriptor: int
    buffer: bytearray


class Recorder:
    """All captures of a run.

    Args:
        captures: name, namespace, device, file and EtherType of each.
        clock: path of the page of the experiment clock, and the slot for the lag of captures (None: not
            measured).
    """

    def __init__(self, captures: list[dict[str, Any]], clock: tuple[str, int] | None = None) -> None:
        self._clock: SharedClock | None = None
        self._meter = Meter()
        if clock is not None:
            path, slot = clock
            page = ClockPage.open(Path(path))
            self._clock, self._meter = SharedClock(page), Meter(page.slot(slot))
        self._looked_at = time.monotonic()
        by_ring: dict[tuple[str | None, int], list[dict[str, Any]]] = defaultdict(list)
        for capture in captures:
            by_ring[capture["namespace"], capture["ethertype"]].append(capture)
        blocks = max(_RINGS_BYTES // max(1, len(by_ring)), _RING_BYTES_MIN) // BLOCK_BYTES
        self._rings: list[tuple[Ring, list[_File]]] = []
        # Its own first: this process has one thread, and no use then for the namespace it was started in.
        for (namespace, ethertype), wanted in sorted(
            by_ring.items(), key=lambda ring: ring[0][0] is not None
        ):
            if namespace is not None:
                enter_network_namespace(namespace)
            files = [_open(capture) for capture in wanted]
            most = WHOLE_FRAMES if ethertype == ETHERTYPE else _HEADERS_BYTES
            ring = Ring({file.device: file.buffer for file in files}, blocks, ethertype, most)
            self._rings.append((ring, files))
        self._write_at = time.monotonic() + _WRITE_S
        self._check_at = time.monotonic() + _CHECK_S

    def look(self) -> bool:
        """Reads the rings, and writes files when that is due; returns whether there was anything.

        Raises:
            OSError: a file cannot be written, or a device is gone, and with it all frames that would come.
        """
        began, began_cpu = time.monotonic(), time.thread_time()
        if self._clock is not None:
            # Frames wait in the rings from one look to the next.
            self._meter.late(max(0.0, began - self._looked_at - _LOOK_S), self._clock)
        self._looked_at = began
        found = 0
        for ring, _ in self._rings:
            found += ring.drain()
        now = time.monotonic()
        if now >= self._write_at:
            self._write_at = now + _WRITE_S
            self.write()
        if now >= self._check_at:
            self._check_at = now + _CHECK_S
            for ring, files in self._rings:
                gone = ring.gone()
                for file in files:
                    if file.device == gone:
                        raise OSError(f"{file.name}: its network device is gone")
        if self._clock is not None:
            self._meter.ends_turn(began, began_cpu, NOTHING, self._clock)
        return found > 0

    def write(self) -> None:
        for _, files in self._rings:
            for file in files:
                if file.buffer:
                    _write_all(file.descriptor, file.buffer)
                    file.buffer.clear()

    def settle(self) -> dict[str, list[int]]:
        """Reads and writes every frame that the devices have had.

        Returns frames captured, received and dropped, by name of the capture.

        Raises:
            TimeoutError: the kernel did not pass on its last blocks.
        """
        counters: dict[str, list[int]] = {}
        for ring, files in self._rings:
            received = ring.counts()
            deadline = time.monotonic() + _SETTLE_S
            lost = 0
            while True:
                ring.drain()
                lost += ring.lost()
                if sum(ring.read.values()) + lost >= sum(received.values()):
                    break
                if time.monotonic() > deadline:
                    raise TimeoutError(f"frames were left unread after {_SETTLE_S:g} s")
                time.sleep(BLOCK_MS / 1000 / 5)
            # Frames may have come since the counts were taken; those that were read count.
            for file in files:
                read = ring.read[file.device]
                counters[file.name] = [read, max(received[file.device], read), 0]
                counters[file.name][2] = counters[file.name][1] - read
        self.write()
        return counters


def _open(capture: dict[str, Any]) -> _File:
    """Opens the file of a capture, whose device is in the present namespace."""
    try:
        device = socket.if_nametoindex(capture["device"])
    except OSError as error:
        raise OSError(f"{capture['name']} on {capture['device']}: no such device") from error
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
    descriptor = os.open(capture["file"], flags, 0o644)
    _write_all(descriptor, FILE_HEADER)
    return _File(capture["name"], device, descriptor, bytearray())


def _write_all(descriptor: int, data: bytes | bytearray) -> None:
    with memoryview(data) as left:
        done = 0
        while done < len(left):
            done += os.write(descriptor, left[done:])


def _say(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


def _run(order: dict[str, Any]) -> None:
    die_with(order["parent"], signal.SIGKILL)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with suppress(PermissionError):
        os.nice(_NICE)
    recorder = Recorder(order["captures"], order["clock"])
    _say({"event": "ready"})
    while True:
        busy = recorder.look()
        readable, _, _ = select.select([0], [], [], 0.0 if busy else _LOOK_S)
        if not readable:
            continue
        if os.read(0, 64).strip() != b"stop":
            return
        _say({"event": "counters", "counters": recorder.settle()})


def main() -> int:
    # The terminal's Ctrl-C goes to the whole process group; the run decides when captures stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        # Unbuffered: `select` sees all that is unread.
        with Path("/dev/stdin").open("rb", buffering=0) as source:
            line = bytearray()
            while not line.endswith(b"\n"):
                part = source.read(1 << 16)
                if not part:
                    return 1
                line += part
        _run(json.loads(line))
    except (OSError, ProcessLookupError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
