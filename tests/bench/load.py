"""Delay of a hop at several loads, and an overload: messages and control frames through a live router.

A real router process on a veth pair; predicates and messages of `forwarding`, at random times at a share of
the rate at which the router takes them while more come, with an RA every few milliseconds. That rate is lower
than the number of messages a second of CPU that `forwarding` measures while nothing else runs. Router and
sender have a processor each, if there are two: the kernel would let them share that of the sender, who waits
for the time of the next frame without sleeping. The delay of a frame is the time from its sending to the
kernel's stamp of its arrival at the other end. Then more messages than any buffer holds come while the router
is stopped, with RAs among them. Needs root.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import socket
import struct
import time
from contextlib import suppress
from typing import Any

import numpy as np

from router.forwarding.layout import FrameBuffers
from router.matching.engines import COMPILED
from router.native.memory import address_of
from router.predicates.parser import parse_predicate
from router.runtime.client import Client
from router.wire.frames import Frame, FrameType
from tests.bench.forwarding import _advertise, _ethernet, _flood, _router, _sleeps, _workload
from tests.bench.injecting import inject
from tests.support.runtime_wire import Wire, socket_in

_LOADS = (0.1, 0.5, 0.9)
_RA_EVERY_S = 0.02
_SO_RCVBUFFORCE, _SO_TIMESTAMPNS, _BUFFER = 33, 35, 256 * 1024 * 1024
#: Level and option of packet(7): frames go to the device without its queue.
_QDISC_BYPASS = (263, 20)
_TIMESPEC = struct.Struct("qq")
#: Sent while the router is stopped: more than its socket holds.
_OVERLOAD = 200_000


def configure(arguments: list[str]) -> dict[str, Any]:
    """The keyword arguments of `main` that a command line asks for."""
    parser = argparse.ArgumentParser(prog="./run.sh bench load", description=__doc__)
    parser.add_argument("--messages", type=int, default=40_000, metavar="N", help="messages a load (40,000)")
    return vars(parser.parse_args(arguments))


def main(messages: int) -> None:
    """Prints delays in microseconds, and the balance of the overload."""
    predicates, contents = _workload()
    with _router(COMPILED, 0) as (wire, client, pid):
        _advertise(wire, client, predicates)
        frames = [
            _ethernet(Frame(FrameType.MSG, 1, number, 1, 9, contents[number % len(contents)]), 1)[0]
            for number in range(messages)
        ]
        _flood(wire, pid, frames[:1000])
        alone = 1 / _flood(wire, pid, frames[:20_000])[1]
        injection = _Injection(wire, frames, pid)
        capacity = injection.capacity(client, alone)
        print(f"saturated: {capacity:,.0f} messages a second; alone: {alone:,.0f} a second of CPU")
        print(
            f"{'load':>9} {'messages/s':>11} {'median us':>10} {'99 %':>8}"
            f" {'RA median us':>13} {'99 %':>8} lost"
        )
        for load in _LOADS:
            injection.at_rate(load, load * capacity)
        injection.overload(client)


class _Injection:
    """Sends frames into a router, and reads what it sends on."""

    def __init__(self, wire: Wire, frames: list[bytes], pid: int) -> None:
        # A socket of its own: that of the wire has neither room nor stamps.
        self._socket = socket_in(wire.namespaces[1], wire.devices[1])
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self._frames = frames
        self._pid = pid
        self._random = random.Random(1)
        self._advertised = 0
        # The sender must be faster than the router: bound to no protocol, it gets no copies of frames, and
        # the wire needs none any more.
        self._sender = socket_in(wire.namespaces[1], wire.devices[1], 0)
        self._sender.setsockopt(*_QDISC_BYPASS, 1)
        self._sender.setblocking(True)
        wire.stop_reading()
        for process, processor in zip((0, pid), sorted(os.sched_getaffinity(0)), strict=False):
            os.sched_setaffinity(process, {processor})
        # Compiled, or loaded, before the first frame has a time.
        inject(0, 0, 0, 0, 0, 0)

    def capacity(self, client: Client, alone: float) -> float:
        """Messages a second that the router takes while messages, and RAs, come faster.

        Args:
            client: of the router.
            alone: messages a second that it takes while no frames come: sets the number of RAs.
        """
        before = client.status(tables=False)["counters"]["messages_received"]
        frames = self._mixed(len(self._frames), round(alone * _RA_EVERY_S))
        began = time.time_ns()
        self._send(frames, [0] * len(frames))
        sending_us = (time.time_ns() - began) / 1e3
        forwarded, _ = self._delays(since=began)
        received = client.status(tables=False)["counters"]["messages_received"] - before
        share = sum(at < sending_us for at in forwarded) / len(forwarded)
        return float(share * received / sending_us * 1e6)

    def at_rate(self, load: float, rate: float) -> None:
        """Prints the delays at so many messages a second, a share `load` of what the router can do."""
        times = np.cumsum([self._random.expovariate(rate) for _ in self._frames]).tolist()
        every = np.arange(0.0, times[-1], _RA_EVERY_S).tolist()
        mixed = [*zip(times, self._frames, strict=True), *((at, self._advertisement()) for at in every)]
        mixed.sort(key=lambda each: each[0])
        began = time.time_ns() + 1_000_000
        self._send([data for _, data in mixed], [began + round(at * 1e9) for at, _ in mixed])
        took = (time.time_ns() - began) / 1e9
        messages, advertisements = self._delays()
        print(
            f"{load:9.0%} {len(times) / took:11,.0f} {np.median(messages):10.0f}"
            f" {np.percentile(messages, 99):8.0f} {np.median(advertisements):13.0f}"
            f" {np.percentile(advertisements, 99):8.0f} {len(every) - len(advertisements):4d}",
            flush=True,
        )

    def overload(self, client: Client) -> None:
        """Prints what becomes of more messages than the router's socket holds."""
        before = client.status(tables=False)["counters"]
        os.kill(self._pid, signal.SIGSTOP)
        frames = self._mixed(_OVERLOAD, _OVERLOAD // 100)
        self._send(frames, [0] * len(frames))
        os.kill(self._pid, signal.SIGCONT)
        went_on = time.time_ns()
        messages, advertisements = self._delays(since=went_on)
        after = client.status(tables=False)["counters"]
        received, dropped = (after[key] - before[key] for key in ("messages_received", "socket_drops"))
        print(
            f"overload: {_OVERLOAD:,} messages and 100 RAs while the router is stopped: {received:,}"
            f" messages received, {dropped:,} dropped by the kernel and counted,"
            f" {_OVERLOAD - received - dropped:,} unaccounted for;"
            f" {len(advertisements)} RAs sent on, the last {max(advertisements) / 1e3:.1f} ms after the"
            f" router went on, the last message {max(messages) / 1e3:.1f} ms"
        )

    def _mixed(self, messages: int, every: int) -> list[bytes]:
        """So many messages, and an RA before the first of so many."""
        frames: list[bytes] = []
        for number in range(messages):
            if number % every == 0:
                frames.append(self._advertisement())
            frames.append(self._frames[number % len(self._frames)])
        return frames

    def _advertisement(self) -> bytes:
        """An RA that is news to the router."""
        self._advertised += 1
        predicate = parse_predicate(f"bench{self._advertised} = 1")
        return _ethernet(Frame(FrameType.RA, 1, self._advertised, 1, 9, predicate), 1)[0]

    def _send(self, frames: list[bytes], times: list[int]) -> None:
        # Each frame in memory of its own: its time of sending is written into it.
        memory = np.frombuffer(bytearray(b"".join(frames)), np.uint8)
        lengths = np.array([len(data) for data in frames], np.int64)
        buffers = FrameBuffers(len(frames), 0)
        buffers.pieces_out[:] = np.stack([address_of(memory) + np.cumsum(lengths) - lengths, lengths], axis=1)
        moments, scratch = np.array(times, np.int64), np.zeros(2, np.int64)
        sent = inject(
            self._sender.fileno(),
            address_of(buffers.pieces_out),
            address_of(buffers.headers_out),
            address_of(moments),
            len(frames),
            address_of(scratch),
        )
        if sent < len(frames):
            raise OSError(f"the device took {sent} of {len(frames)} frames")

    def _delays(self, since: int | None = None) -> tuple[list[float], list[float]]:
        """Microseconds from the sending of each message and RA that came back, or since a time (ns)."""
        found: dict[int, list[float]] = {FrameType.MSG: [], FrameType.RA: []}
        done = False
        while not done:
            done = _sleeps(self._pid)
            with suppress(BlockingIOError):
                while True:
                    data, ancillary, _, address = self._socket.recvmsg(2048, 64)
                    # What this socket has sent itself is shown to it too.
                    if address[2] != socket.PACKET_OUTGOING:
                        seconds, ns = _TIMESPEC.unpack(ancillary[0][2][:16])
                        sent = int.from_bytes(data[22:30], "big") if since is None else since
                        found[data[15]].append((seconds * 1_000_000_000 + ns - sent) / 1e3)
        return found[FrameType.MSG], found[FrameType.RA]
