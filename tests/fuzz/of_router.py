"""Targets of the router: frames, the core, applications, recordings."""

from __future__ import annotations

import json
import socket
from collections.abc import Collection
from contextlib import suppress
from typing import Any

from tests.fuzz.inputs import Run, Source, files_of_this_process


def decoder() -> Run:
    """Decodes frames: what decodes is encoded to a frame that is equal."""
    from router.wire.header import DecodeError
    from tests.support.whole_frames import decode, encode

    def run(data: bytes) -> None:
        with suppress(DecodeError):
            frame = decode(data)
            again = decode(encode(frame))
            assert again == frame, f"{frame} is encoded as {again}"

    return run


def intake() -> Run:
    """Takes a sequence of Ethernet frames: fragments, tags cut short, padding."""
    from router.wire.codec import forwarded_frame
    from router.wire.header import ETHERTYPE, node_address
    from router.wire.intake import FrameIntake

    def run(data: bytes) -> None:
        taken = FrameIntake(forwarded_frame)
        source = Source(data)
        while source.left:
            head = b"\x03\0\0\0\0\x01" + node_address(source.number(3)) + ETHERTYPE.to_bytes(2, "big")
            taken.take(head + source.take(source.number(256)), source.number(256) / 100)
        reassembler = taken.reassembler
        reassembler.expire(1e9)
        assert not len(reassembler)

    return run


def core() -> Run:
    """Frames of neighbours and requests of applications, in any order, at any time, in several schemes."""
    from router.predicates import EVERYTHING, NOTHING, Message
    from router.protocol.events import (
        ApplicationGone,
        ControllerFrame,
        Event,
        FrameReceived,
        RequestUpdate,
        Send,
        SendMessage,
        SetPredicate,
        Settle,
        Tick,
    )
    from router.protocol.options import RouterOptions
    from router.wire.codec import encode_body, forwarded_frame
    from router.wire.frames import Commit, Flags, Frame, FrameType
    from router.wire.header import DecodeError, Header
    from tests.support.one_router import BELOW, CONTROL, NEXT_TABLE, NODE, TABLE, control, set_up
    from tests.support.tree_entries import with_subtrees

    table = with_subtrees(TABLE, BELOW)
    variants = (
        RouterOptions(),
        RouterOptions(reliable_control=True),
        RouterOptions(scheme="pif-classes", sr_policy="periodic", sr_period_s=1.0),
        RouterOptions(sr_policy="count", sr_threshold=1, max_filters=2),
        RouterOptions(scheme="pif-strict", ra_min_interval_s=0.5, ra_period_s=2.0),
        RouterOptions(scheme="psf"),
        RouterOptions(scheme="drp", reliable_control=True),
        RouterOptions(service="attention"),
    )
    types = tuple(FrameType)
    nodes = (NODE, 11, 12, 13, 21, 22, 0, 2**32 - 1)

    def frame(source: Source) -> Frame | None:
        kind, issuer = types[source.number(len(types))], nodes[source.number(len(nodes))]
        flags, hops, epoch = Flags(source.number(32) & ~Flags.SIGNED), source.number(4), source.number(4)
        seq = CONTROL | source.number(8) if kind in (FrameType.TABLE, FrameType.COMMIT) else source.number(8)
        body = source.take(source.number(256))
        header = Header(kind, flags, hops, issuer, seq, epoch, len(body), 0, 1, len(body))
        try:
            return forwarded_frame(header, body)
        except DecodeError:
            return None

    def run(data: bytes) -> None:
        source = Source(data)
        router = set_up(variants[source.number(len(variants))], table)
        now = 0.0
        while source.left:
            event: Event = Tick()
            what = source.number(16)
            if what < 8:
                received = frame(source)
                if received is None:
                    continue
                event = FrameReceived(nodes[what], received)
            elif what == 8:
                control(router, FrameType.TABLE, 2, NEXT_TABLE, now)
                event = ControllerFrame(Frame(FrameType.COMMIT, NODE, CONTROL | 2, 2, 1, Commit(1)))
            elif what == 9:
                received = frame(source)
                if received is None:
                    continue
                event = ControllerFrame(received)
            elif what == 10:
                event = SetPredicate(source.number(3), EVERYTHING if source.number(2) else NOTHING)
            elif what == 11:
                event = SendMessage(1, Message({"a": source.number(4)}))
            elif what == 12:
                event = ApplicationGone(source.number(3))
            elif what == 13:
                event = RequestUpdate() if source.number(8) else Settle()
            else:
                now += source.number(256) / 16
            for action in router.handle(event, now):
                if isinstance(action, Send):
                    assert action.interfaces
                    assert action.interfaces <= {1, 2, 3}
                    encode_body(action.frame)
        tuple(router.rows())
        due = router.next_deadline()
        assert due is None or due == due

    return run


def sockets() -> Run:
    """Lines of an application: cut anywhere, any JSON, requests of both services; answers are JSON."""
    from router.protocol.options import RouterOptions
    from router.protocol.services import RequestError
    from router.runtime.lines import LineSocket, LineTooLongError
    from tests.support.one_router import set_up

    ours, theirs = socket.socketpair()
    ours.close()
    options = [RouterOptions(service=service) for service in ("exhaustive", "attention")]
    operations = [set_up(each).session(1).commands().keys() for each in options]

    def request(line: bytes | LineTooLongError, known: Collection[str]) -> tuple[str, dict[str, Any]] | None:
        if isinstance(line, LineTooLongError):
            return None
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            return None
        operation = found.get("op") if isinstance(found, dict) else None
        return (operation, found) if isinstance(operation, str) and operation in known else None

    def run(data: bytes) -> None:
        source = Source(data)
        service = source.number(2)
        lines = LineSocket(theirs, 1 + source.number(256))
        received: list[bytes | LineTooLongError] = []
        while source.left:
            received += lines.feed(source.take(1 + source.number(64)))
        requests = [each for line in received if (each := request(line, operations[service])) is not None]
        if not requests:
            # To make a router takes most of the time of an input.
            return
        router = set_up(options[service])
        commands = router.session(1).commands()
        for operation, fields in requests:
            with suppress(RequestError, ValueError):
                served = commands[operation](fields, lambda event: router.handle(event, 0.0))
                if isinstance(served, tuple):
                    json.dumps(served[0])

    return run


def recordings() -> Run:
    """Recordings of routers: read, described and replayed."""
    from router.recording.file import Recording, RecordingError
    from router.recording.replay import describe

    path = files_of_this_process() / "fuzzed.rec"

    def run(data: bytes) -> None:
        path.write_bytes(data)
        with suppress(RecordingError):
            for _ in describe(Recording(path)):
                pass

    return run
