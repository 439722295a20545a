"""The event loop of a router: its last turns, and a disk that becomes full in the middle of one."""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from router.matching.factory import COMPILED
from router.predicates.model import Message
from router.protocol.events import Event
from router.protocol.options import RouterOptions
from router.recording.file import Origin, Recorder
from router.records.applications import ApplicationRecords
from router.runtime import loop as module
from router.runtime.loop import RECORDING_FAILED, RouterLoop
from router.runtime.packet_socket import PacketSockets
from router.wire.addresses import node_address, port_addresses
from router.wire.codec import fragment
from router.wire.frames import Frame, FrameType
from tests.support.runtime_wire import ETHERTYPE_BYTES, Wire

pytestmark = pytest.mark.root

ORIGIN = Origin(0, RouterOptions(), COMPILED, 0, 1)
Log = list[tuple[str, dict[str, Any]]]


class FullDisk(Recorder):
    """A recording on a disk that has room for compiled code once.

    Attributes:
        events: how often an event was to be recorded since then.
    """

    reserved = events = 0

    def reserve(self, length: int, at: float | None) -> tuple[int, int]:
        self.reserved += 1
        if self.reserved > 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().reserve(length, at)

    def event(self, event: Event, at: float, wire: bytes | None = None) -> None:
        if self.reserved > 1:
            self.events += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().event(event, at, wire)


@pytest.fixture
def wire() -> Iterator[Wire]:
    made = Wire(f"{os.getpid() % 10_000}")
    try:
        made.up()
        yield made
    finally:
        made.down()


@pytest.fixture
def loop_of(wire: Wire, tmp_path: Path) -> Iterator[Callable[[Log, Recorder | None], RouterLoop]]:
    loops: list[RouterLoop] = []

    def make(log: Log, recorder: Recorder | None) -> RouterLoop:
        with wire.inside(0):
            sockets = PacketSockets(wire.devices[0])
        records = ApplicationRecords(os.devnull, print)
        loop = RouterLoop(
            ORIGIN.router(),
            COMPILED,
            sockets,
            tmp_path / "r.sock",
            lambda event, fields: log.append((event, fields)),
            records,
            recorder,
        )
        loops.append(loop)
        return loop

    yield make
    for loop in loops:
        loop.close()


def test_requests_that_were_read_are_served_before_the_end(
    loop_of: Callable[[Log, Recorder | None], RouterLoop], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each turn serves one request.
    monkeypatch.setattr(module, "_APPLICATIONS_S", 0.0)
    loop = loop_of([], None)
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(str(tmp_path / "r.sock"))
        peer.sendall(b"".join(b'{"op": "hello", "id": %d}\n' % number for number in range(9)))
        loop.stop()
        loop.run()
        answers = peer.recv(65_536).splitlines()
    assert [json.loads(line)["id"] for line in answers] == list(range(9))


def test_a_disk_that_is_full_in_the_middle_of_a_turn_ends_the_recording_once(
    wire: Wire, loop_of: Callable[[Log, Recorder | None], RouterLoop], tmp_path: Path
) -> None:
    """No event is recorded behind messages that compiled code has forwarded without a record."""
    pytest.importorskip("numba")
    log: Log = []
    recorder = FullDisk(tmp_path / "r.rec", ORIGIN)
    loop = loop_of(log, recorder)
    frame = Frame(FrameType.MSG, 1, 1, 1, 9, Message({"x": 1}))
    (payload,) = fragment(frame)
    wire.inject(0, port_addresses([1])[0] + node_address(1) + ETHERTYPE_BYTES + payload)
    loop.stop()
    loop.run()
    assert recorder.reserved == 2
    assert recorder.events == 0
    assert [event for event, _ in log] == [RECORDING_FAILED]
    assert loop.counters()["dropped"]["unknown_epoch"] == 1
