"""Sending into a device that is slower than the router, however slow the router is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from router.predicates import Message
from router.runtime.link import Link
from router.runtime.packet_socket import BATCH, PacketSockets
from router.wire.frames import Frame, FrameType, Publication, SenderRequest
from tests.support.packets import ethernet
from tests.support.polling import TIMEOUT, wait_for
from tests.support.runtime_wire import Wire, ip

pytestmark = pytest.mark.root
FRAMES = 200
Log = Callable[[str, dict[str, Any]], None]
Links = Callable[..., Link]
Made = Callable[[int], Frame]
PORTS = frozenset({1})


def shape(wire: Wire, verb: str, rate: str) -> None:
    """Gives the router's device a rate and room for few frames: it refuses the others (ENOBUFS)."""
    shaper = ("root", "tbf", "rate", rate, "burst", "2000", "limit", "3000")
    ip("netns", "exec", wire.names[0], "tc", "qdisc", verb, "dev", wire.devices[0], *shaper)


@pytest.fixture
def wire(wire: Wire) -> Wire:
    """Its device takes some frames at first, and next to nothing more before `drain` is called."""
    shape(wire, "add", "800bit")
    return wire


@pytest.fixture
def link_of(wire: Wire) -> Iterator[Links]:
    """Makes links on the wire: of a queue of some frames, which log what they drop."""
    with ExitStack() as made:

        def make(queue: int = 10, log: Log | None = None) -> Link:
            with wire.inside(0):
                sockets = PacketSockets(wire.devices[0])
            made.callback(sockets.close)
            return Link(0, sockets, log or (lambda *_: None), queue)

        yield make


def message(seq: int) -> Frame:
    return Frame(FrameType.MSG, 0, seq, 1, 9, Message({"text": "x" * 100}))


def drain(wire: Wire, link: Link) -> None:
    """Sends all that waits, into a device that is faster by now."""
    shape(wire, "change", "2mbit")

    def difference() -> str | None:
        now = time.monotonic()
        for queue in (link.control, link.messages):
            if queue.wants_write:
                queue.flush(now)
        link.tick(now)
        wire.read()
        return None if link.idle else "frames wait to be sent"

    wait_for(difference)


def test_frames_wait_for_a_full_device_and_keep_their_order(wire: Wire, link_of: Links) -> None:
    link = link_of(FRAMES)
    for seq in range(FRAMES):
        link.send(PORTS, message(seq), time.monotonic())
    assert not link.idle
    assert link.next_deadline() is not None
    drain(wire, link)
    wait_for(lambda: None if len(wire.frames_of(0)) == FRAMES else f"{len(wire.frames_of(0))} arrived")
    assert [frame.seq for frame in wire.frames_of(0)] == list(range(FRAMES))
    assert link.frames_sent == {"MSG": FRAMES}
    assert link.bytes_sent == sum(len(data) for data in wire.received[1])
    assert not +link.dropped()


def test_what_the_queue_cannot_hold_is_dropped_and_counted(wire: Wire, link_of: Links) -> None:
    log: list[tuple[str, dict[str, Any]]] = []
    link = link_of(log=lambda event, fields: log.append((event, fields)))
    for seq in range(FRAMES):
        link.send(PORTS, message(seq), time.monotonic())
    drain(wire, link)
    dropped = link.dropped()["send_queue_full"]
    assert dropped > 100
    assert link.frames_sent["MSG"] == FRAMES - dropped
    assert log[0] == ("dropped", {"reason": "send_queue_full", "type": "MSG"})


def test_a_device_that_is_down_costs_frames_but_not_the_router(wire: Wire, link_of: Links) -> None:
    link = link_of()
    ip("-n", wire.names[0], "link", "set", wire.devices[0], "down")
    link.send(PORTS, message(1), time.monotonic())
    assert link.dropped()["send_failed"] == 1
    assert list(link.receive_control(time.monotonic())) == []
    assert list(link.receive_messages(time.monotonic())) == []
    ip("-n", wire.names[0], "link", "set", wire.devices[0], "up")
    deadline = time.monotonic() + TIMEOUT
    while not link.frames_sent:
        assert time.monotonic() < deadline
        link.send(PORTS, message(2), time.monotonic())


def request(seq: int) -> Frame:
    return Frame(FrameType.SR, 1, seq, 1, 9, SenderRequest(1_000_000))


def test_control_frames_that_a_turn_leaves_come_with_the_next(wire: Wire, link_of: Links) -> None:
    """A turn that has lasted too long stops handling them; the next one goes on where it stopped."""
    link = link_of()
    for seq in range(5):
        wire.pass_on(0, request(seq))
    seen: list[int] = []

    def difference() -> str | None:
        for event, _ in link.receive_control(time.monotonic()):
            seen.append(event.frame.seq)
            assert link.behind == (len(seen) < 5)
            break
        return None if len(seen) == 5 else f"read {seen}"

    wait_for(difference)
    assert seen == list(range(5))


def test_a_frame_in_part_is_awaited_for_a_while_and_counted_at_the_end(wire: Wire, link_of: Links) -> None:
    link = link_of()
    first, *_ = ethernet(Frame(FrameType.MSG, 1, 1, 1, 9, Message({"text": "x" * 2000})), 1, 1400)
    wire.inject(0, first)
    now = time.monotonic()

    def missing() -> str | None:
        assert list(link.receive_messages(now)) == []
        return None if link.next_deadline() is not None else "the fragment has not been read"

    wait_for(missing)
    assert not link.idle
    # Its deadline is known; another message is no reason to look for it again.
    link.changed = False
    assert list(link.receive_messages(now)) == []
    link.note_waiting()
    assert not link.changed
    # What comes later than that comes from a sender that is not idle.
    wait_for(lambda: None if link.idle else "the rest of a frame is awaited")
    assert not +link.dropped()
    link.give_up_partial()
    assert +link.dropped() == {"reassembly_timeout": 1}


def publication(seq: int) -> Frame:
    body = Publication(0, seq, 5, Message({"text": "x" * 100}), homes=(1,))
    return Frame(FrameType.PUB, 0, seq, 1, 9, body)


@pytest.mark.parametrize("made", [message, publication])
def test_control_frames_do_not_wait_behind_messages(wire: Wire, link_of: Links, made: Made) -> None:
    link = link_of()
    for seq in range(FRAMES):
        wire.pass_on(0, made(seq))
    wire.pass_on(0, request(7))
    (event,) = (event for event, _ in link.receive_control(time.monotonic()))
    assert event.frame == request(7)
    messages = list(link.receive_messages(time.monotonic()))
    assert [event.frame.seq for event, _ in messages] == list(range(len(messages)))
    assert len(messages) == BATCH


@pytest.mark.parametrize("made", [message, publication])
def test_control_frames_are_sent_before_messages_that_wait(wire: Wire, link_of: Links, made: Made) -> None:
    link = link_of(FRAMES)
    for seq in range(FRAMES):
        link.send(PORTS, made(seq), time.monotonic())
    link.send(PORTS, request(7), time.monotonic())
    drain(wire, link)
    wait_for(lambda: None if len(wire.frames_of(0)) > FRAMES else f"{len(wire.frames_of(0))} arrived")
    place = [frame.type for frame in wire.frames_of(0)].index(FrameType.SR)
    assert place < FRAMES / 2
    assert not +link.dropped()


def test_a_control_frame_that_waits_since_a_batch_is_looked_after(wire: Wire, link_of: Links) -> None:
    """The core may answer a message by an SR, which a full device does not take."""
    link = link_of(FRAMES)
    wire.pass_on(0, message(1))
    for _ in link.receive_messages(time.monotonic()):
        for seq in range(FRAMES):
            link.send(PORTS, request(seq), time.monotonic())
    link.note_waiting()
    assert link.control
    assert link.changed
    # Compiled code leaves messages to the link, where they wait behind it.
    assert not link.messages
    assert link.holds


def test_a_socket_knows_how_long_its_oldest_frame_has_waited(wire: Wire, link_of: Links) -> None:
    link = link_of()
    socket = link.sockets.messages
    assert socket.waited_s() == 0.0

    def unstamped() -> str | None:
        """The kernel begins to stamp frames a moment after the socket has asked for it."""
        # The age of a frame without a stamp is the time that the answer takes.
        if min(socket.waited_s() for _ in range(5)) > 0.001:
            return None
        socket.receive()
        wire.pass_on(0, message(0))
        return "no frame has a stamp"

    wait_for(unstamped)
    socket.receive()
    assert socket.waited_s() == 0.0
    sent = time.monotonic()
    wire.pass_on(0, message(1))
    arrived = time.monotonic()
    wait_for(lambda: None if socket.waited_s() > 0.2 else "it has waited for less")
    asked = time.monotonic()
    waited = socket.waited_s()
    answered = time.monotonic()
    wire.pass_on(0, message(2))
    # The stamps are of the wall clock, whose rate may be adjusted meanwhile.
    assert asked - arrived - 0.01 < waited < answered - sent + 0.01
    # A second frame, which came just now, is not the oldest.
    assert socket.waited_s() >= waited
    assert [event.frame.seq for event, _ in link.receive_messages(time.monotonic())] == [1, 2]
    assert socket.waited_s() == 0.0
