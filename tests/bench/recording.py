"""The cost of recording for a router: frames handled as by a live router, with and without a recorder."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from router.matching.factory import DEFAULT
from router.predicates.model import Message
from router.predicates.parser import parse_predicate
from router.protocol.core.router import Router
from router.protocol.events import ControllerFrame, FrameReceived, Send, SetPredicate
from router.protocol.options import RouterOptions
from router.recording.file import Origin, Recorder
from router.wire.codec import HEADER_LENGTH, decode_header, encode, forwarded_frame, fragment
from router.wire.frames import Commit, Frame, FrameType
from tests.support.tree_entries import TreeEntry, table_of

_FRAMES = 20_000
_ROUNDS = 9
#: Frames that a router takes in one turn of its loop (`router.runtime.link.BATCH`).
_ORIGIN = Origin(1, RouterOptions(), DEFAULT, seed=1, incarnation=1)


def _router() -> Router:
    """Returns node 1 between nodes 0 and 2; node 2 and an application select the messages of node 0."""
    router = _ORIGIN.router().core
    table = table_of(
        ((1, 0), (2, 2)), (TreeEntry(0, 1, (2,), 0), TreeEntry(1, 0, (1, 2), 0), TreeEntry(2, 2, (1,), 0))
    )
    for kind, body in ((FrameType.TABLE, table), (FrameType.COMMIT, Commit(1))):
        router.handle(ControllerFrame(Frame(kind, 1, 1 << 32 | 1, 1, 1, body)), 0.0)
    wanted = parse_predicate('class = "alert" and severity > 3')
    router.handle(SetPredicate(1, wanted), 0.0)
    router.handle(FrameReceived(2, Frame(FrameType.RA, 2, 1, 1, 9, wanted)), 0.0)
    return router


def _seconds(payloads: list[bytes], recorder: Recorder | None) -> float:
    router = _router()
    started = time.perf_counter()
    for number, payload in enumerate(payloads):
        frame = forwarded_frame(decode_header(payload), payload[HEADER_LENGTH:])
        event = FrameReceived(0, frame)
        if recorder is not None:
            recorder.event(event, float(number), (payload[:HEADER_LENGTH], payload[HEADER_LENGTH:], b""))
        actions = router.handle(event, float(number))
        if recorder is not None:
            recorder.actions(event, actions)
        for action in actions:
            if isinstance(action, Send):
                fragment(action.frame)
    return time.perf_counter() - started


def main() -> None:
    """Prints the best of nine rounds each: microseconds, and bytes of recording, for each message."""
    message = Message({"class": "alert", "severity": 6, "load": 0.75, "web": True, "device": "web-server"})
    payloads = [encode(Frame(FrameType.MSG, 0, seq, 1, 9, message)) for seq in range(1, _FRAMES + 1)]
    plain, recorded, size = [], [], 0
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(_ROUNDS):
            plain.append(_seconds(payloads, None))
            path = Path(folder) / "r1.rec"
            recorder = Recorder(path, _ORIGIN)
            recorded.append(_seconds(payloads, recorder))
            recorder.end()
            recorder.close()
            size = path.stat().st_size
    without, with_it = (min(each) / _FRAMES * 1e6 for each in (plain, recorded))
    print(f"one MSG with five attributes, {len(payloads[0])} bytes: read, forwarded, delivered, encoded")
    print(f"without recording {without:6.2f} us")
    print(f"with recording    {with_it:6.2f} us, {size / _FRAMES:.0f} bytes on disk")
