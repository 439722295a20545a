"""The event loop of a router: its last turns, its lag, a disk that becomes full in the middle of a turn."""

from __future__ import annotations

import errno
import json
import math
import os
import select
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from router.clock import SLOT_NUMBERS
from router.clock.clock import NEVER, ExperimentClock
from router.clock.meter import LAG, RECENT, TURN, Meter
from router.forwarding import layout
from router.matching.engines import COMPILED
from router.predicates import NOTHING, Message
from router.protocol.core.router import Router
from router.protocol.events import Event, FrameReceived
from router.protocol.options import RouterOptions
from router.recording.file import Origin, Recorder
from router.records.applications import ApplicationRecords
from router.runtime import loop as module
from router.runtime.loop import RECORDING_FAILED, RouterLoop
from router.runtime.packet_socket import BATCH, PacketSockets
from router.wire.codec import WholeFrame
from router.wire.frames import Commit, Frame, FrameType
from tests.support.one_router import TABLE, control, msg, new_router, ra, received, set_up
from tests.support.polling import TIMEOUT, wait_for
from tests.support.runtime_wire import Wire

pytestmark = pytest.mark.root

ORIGIN = Origin(0, RouterOptions(), COMPILED, 0, 1)


class FullDisk(Recorder):
    """A recording on a disk that has no room for compiled code.

    Attributes:
        events: how often an event was to be recorded since then.
    """

    reserved = events = 0

    def reserve(self, length: int, at: float) -> tuple[int, int]:  # noqa: ARG002
        self.reserved += 1
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def event(self, event: Event, at: float, wire: WholeFrame | None = None) -> None:
        if self.reserved:
            self.events += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().event(event, at, wire)


class Loops:
    """Loops of routers on one device, closed in the end.

    Attributes:
        path: the application socket of each.
        log: the events that they have logged.
        meter: of all of them.
    """

    def __init__(self, wire: Wire, path: Path) -> None:
        self.path = path
        self.log: list[tuple[str, dict[str, Any]]] = []
        self.meter = Meter()
        self._wire = wire
        self._made = ExitStack()

    def of(self, router: Router, recorder: Recorder | None = None) -> RouterLoop:
        with self._wire.inside(0):
            sockets = PacketSockets(self._wire.devices[0])
        log = lambda event, fields: self.log.append((event, fields))  # noqa: E731
        records = ApplicationRecords(os.devnull, print)
        clock = ExperimentClock()
        loop = RouterLoop(router, COMPILED, sockets, self.path, log, records, recorder, clock, self.meter)
        self._made.callback(loop.close)
        return loop

    def close(self) -> None:
        self._made.close()


@pytest.fixture
def loops(wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loops]:
    # What had arrived is handled, however slow the machine is.
    monkeypatch.setattr(module, "_STOP_GRACE", TIMEOUT)
    made = Loops(wire, tmp_path / "r.sock")
    yield made
    made.close()


def test_read_requests_are_served_before_the_end(loops: Loops, monkeypatch: pytest.MonkeyPatch) -> None:
    # Each turn serves one request.
    monkeypatch.setattr(module, "_TURN_S", 0.0)
    loop = loops.of(ORIGIN.router().core)
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(str(loops.path))
        peer.sendall(b"".join(b'{"op": "hello", "id": %d}\n' % number for number in range(9)))
        loop.stop()
        loop.run()
        answers = peer.recv(65_536).splitlines()
    assert [json.loads(line)["id"] for line in answers] == list(range(9))


def test_a_disk_that_is_full_in_the_middle_of_a_turn_ends_the_recording_once(
    wire: Wire, loops: Loops, tmp_path: Path
) -> None:
    """No event is recorded behind messages that compiled code has forwarded without a record."""
    recorder = FullDisk(tmp_path / "r.rec", ORIGIN)
    loop = loops.of(ORIGIN.router().core, recorder)
    wire.pass_on(0, Frame(FrameType.MSG, 1, 1, 1, 9, Message({"x": 1})))
    loop.stop()
    loop.run()
    assert recorder.reserved == 1
    assert recorder.events == 0
    assert [event for event, _ in loops.log] == [RECORDING_FAILED]
    assert loop.counters()["dropped"]["unknown_epoch"] == 1


def test_what_an_event_makes_due_in_the_past_is_not_late(loops: Loops) -> None:
    """Messages that were counted before the COMMIT make an SR due when it comes, as of second 0."""
    router = new_router(RouterOptions(sr_policy="count", sr_threshold=1), COMPILED)
    control(router, FrameType.TABLE, 1, TABLE)
    received(router, 12, ra(12, "x = 1"))
    for _ in range(2):
        received(router, 11, msg(11, x=1))
    control(router, FrameType.COMMIT, 1, Commit(1))
    assert router.next_deadline() == 0.0
    began = time.monotonic()
    loop = loops.of(router)
    loop.stop()
    loop.run()
    assert router.counters.srs_issued == 1
    # Second 0 is the start of the machine.
    assert loops.meter.measured().lag_s < time.monotonic() - began


def test_connections_that_pipeline_requests_do_not_silence_the_link(
    wire: Wire, loops: Loops, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A frame that comes while 40 applications have 25 requests each is handled after a few of them."""
    # Each turn serves one request.
    monkeypatch.setattr(module, "_TURN_S", 0.0)
    loop = loops.of(ORIGIN.router().core)
    served: list[int] = []

    def status(_tables: bool) -> dict[str, Any]:
        served.append(sum(loop.counters()["dropped"].values()))
        # In the middle of the requests of a connection, which are served together without the bound.
        if len(served) == 51:
            wire.pass_on(0, Frame(FrameType.RA, 1, 1, 1, 9, NOTHING))
        if len(served) == 1_000:
            loop.stop()
        return {}

    monkeypatch.setattr(loop._applications, "_status", status)
    with ExitStack() as stack:
        peers = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(40)]
        for peer in peers:
            peer.connect(str(loops.path))
            peer.sendall(b'{"op": "status"}\n' * 25)
        loop.run()
    assert served.index(1) < 60


def test_compiled_code_sends_nothing_while_a_device_keeps_control_frames(wire: Wire, loops: Loops) -> None:
    router = set_up(RouterOptions(), matcher=COMPILED)
    loop = loops.of(router)
    plane = loop._plane
    assert plane is not None

    def forwarded() -> bool:
        """Whether compiled code decided the message before the turn."""
        wire.pass_on(0, msg(11, x=1), 11)
        before = plane.collect(router.counters)
        loop._wait(0.05)
        decided = plane.collect(router.counters)[0] > 0
        loop._turn(0)
        return decided and before is not None

    for blocked in (False, True, False):
        loop._link.control.blocked = blocked
        if blocked:
            assert not forwarded()
        else:
            wait_for(lambda: None if forwarded() else "no message was forwarded during the wait")


def test_turns_are_measured_in_wall_and_in_cpu_time(loops: Loops, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = loops.of(ORIGIN.router().core)

    def status(_tables: bool) -> dict[str, Any]:
        # The turns before, such as that of the start, may have been longer on a busy machine.
        loops.meter.reset()
        used = time.thread_time() + 0.02
        while time.thread_time() < used:
            pass
        # Others have the processor.
        select.select([], [], [], 0.05)
        loop.stop()
        return {}

    monkeypatch.setattr(loop._applications, "_status", status)
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(str(loops.path))
        peer.sendall(b'{"op": "status"}\n')
        loop.run()
    found = loops.meter.measured()
    # No event: the answer is made without the core.
    assert found.turn_of == ""
    assert found.turn_s > 0.07
    assert 0.02 <= found.turn_cpu_s <= found.turn_s - 0.05


def test_a_turn_is_named_after_what_it_did_longest(
    wire: Wire, loops: Loops, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = loops.of(ORIGIN.router().core)
    handle, handled = loop._handle, list[FrameType]()

    def slow(event: Event, *arguments: Any) -> None:
        if isinstance(event, FrameReceived):
            handled.append(event.frame.type)
            if handled == [FrameType.RA]:
                loops.meter.reset()
                select.select([], [], [], 0.05)
        handle(event, *arguments)

    monkeypatch.setattr(loop, "_handle", slow)
    wire.pass_on(0, Frame(FrameType.MSG, 1, 1, 1, 9, Message({"x": 1})))
    wire.pass_on(0, Frame(FrameType.RA, 1, 1, 1, 9, NOTHING))
    loop.stop()
    loop.run()
    assert (handled, loops.meter.measured().turn_of) == ([FrameType.RA, FrameType.MSG], "RA")


@pytest.mark.parametrize("number", [RECENT, LAG, TURN])
def test_turns_and_lag_in_compiled_code_are_measured(wire: Wire, loops: Loops, number: int) -> None:
    """Any number that grows is written, also where the others cannot."""
    router = set_up(RouterOptions(), matcher=COMPILED)
    loop, slot = loops.of(router), loops.meter.slot

    def difference() -> str | None:
        assert loop._plane is not None
        done = loop._plane._row[layout.FRAMES_DONE]
        loops.meter.restore([0.0 if each == number else math.inf for each in range(SLOT_NUMBERS)])
        wire.pass_on(0, msg(11, x=1), 11)
        loop._turn(0.05)
        grew = slot[number] > 0 and (number != TURN or loops.meter.measured().turn_of == "compiled")
        return None if grew and loop._plane._row[layout.FRAMES_DONE] > done else f"{slot[number]}"

    wait_for(difference)


def test_a_signal_that_interrupts_no_call_ends_the_wait_of_compiled_code(
    wire: Wire, loops: Loops, monkeypatch: pytest.MonkeyPatch
) -> None:
    router = set_up(RouterOptions(), matcher=COMPILED)
    # No deadline ends the wait.
    monkeypatch.setattr(router, "next_deadline", lambda: None)
    loop, before = loops.of(router), signal.signal(signal.SIGUSR1, lambda *_: loop.stop())
    # Nothing takes longer: compiled code does not return for the meter.
    loops.meter.restore([math.inf] * SLOT_NUMBERS)

    def difference() -> str | None:
        wire.pass_on(0, msg(11, x=1), 11)
        assert loop._plane is not None
        end, done = loop._plane._row[[layout.END, layout.FRAMES_DONE]]
        return None if end == NEVER and done else f"a wait to {end}, {done} frames"

    def stop() -> None:
        try:
            wait_for(difference)
            # This thread takes the signal, so that no call of the main thread ends.
            signal.raise_signal(signal.SIGUSR1)
            wait_for(lambda: None if loop._stopping else "the wait goes on")
        finally:
            loop.stop()

    with ThreadPoolExecutor(1) as apart:
        stopping = apart.submit(stop)
        loop.run()
        stopping.result()
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize(("turn_s", "messages"), [(TIMEOUT, BATCH), (0.0, 1)], ids=["whole", "cut short"])
def test_a_turn_begins_with_control_frames(
    wire: Wire, loops: Loops, monkeypatch: pytest.MonkeyPatch, turn_s: float, messages: int
) -> None:
    """They come before messages that have arrived before them, in the first turn and in the next."""
    monkeypatch.setattr(module, "_TURN_S", turn_s)
    loop = loops.of(ORIGIN.router().core)
    handled: list[str] = []
    handle = loop._handle

    def inject(kind: FrameType, seq: int) -> None:
        body = NOTHING if kind is FrameType.RA else Message({"x": 1})
        wire.pass_on(0, Frame(kind, 1, seq, 1, 9, body))

    def noted(event: Event, *arguments: Any) -> None:
        if isinstance(event, FrameReceived):
            handled.append(f"{event.frame.type.name} {event.frame.seq}")
            if handled[-1] == "MSG 0":
                inject(FrameType.RA, 2)
        handle(event, *arguments)
        if len(handled) == 2 + 3 * BATCH:
            loop.stop()

    turn, deadline = loop._turn, time.monotonic() + TIMEOUT

    def bounded(timeout: float | None) -> bool:
        # A loop that has lost messages has nothing to wake up for.
        if time.monotonic() > deadline:
            loop.stop()
        return turn(1.0 if timeout is None else min(timeout, 1.0))

    monkeypatch.setattr(loop, "_turn", bounded)
    monkeypatch.setattr(loop, "_handle", noted)
    for seq in range(3 * BATCH):
        inject(FrameType.MSG, seq)
    inject(FrameType.RA, 1)
    loop.run()
    assert handled[0] == "RA 1"
    assert handled[1 + messages] == "RA 2"
    assert [each for each in handled if "MSG" in each] == [f"MSG {seq}" for seq in range(3 * BATCH)]
