"""The state of a router when it received a message, from a replay of its recording up to that event."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from captures.rundir.layout import RunLayout
from router.protocol.events import Accepted, Event, FrameReceived, Send, SendMessage
from router.protocol.scheme import Row
from router.recording.file import Recording, RecordingError
from router.recording.replay import new_router
from router.wire.format import MESSAGES
from testbed.errors import InputError


@dataclass(frozen=True, slots=True)
class Decision:
    """A router's decision on a message.

    Attributes:
        table: the rows of its routing table at that time.
        dropped: the reason for which the router dropped the message; None: not dropped.
    """

    table: tuple[Row, ...]
    dropped: str | None


def decision(run: Path, node: int, source: int, seq: int) -> Decision | None:
    """Replays the recording of a router until it has decided on the message (`seq`: unsigned).

    Returns None if the router has no recording, or the recording does not have the message.

    Raises:
        InputError: the recording is malformed.
    """
    path = RunLayout(run).recording(node)
    if not path.is_file():
        return None
    found = None
    try:
        recording = Recording(path)
        router = new_router(recording)
        for given in recording.inputs():
            concerns = _concerns(given.event, node, source, seq)
            before = dict(router.core.counters.dropped) if concerns else {}
            actions = router.handle(given.event, given.at)
            sent = any(
                isinstance(action, Send)
                and (action.frame.issuer, action.frame.seq) == (source, seq)
                and action.frame.type in MESSAGES
                for action in actions
            )
            if node == source:
                # A message that the source holds back is sent after it was accepted.
                concerns = sent or any(
                    isinstance(action, Accepted) and (action.source, action.seq) == (source, seq)
                    for action in actions
                )
            if concerns:
                counted = router.core.counters.dropped
                reasons = [str(reason) for reason, count in counted.items() if count > before.get(reason, 0)]
                taken = Decision(router.core.rows(), reasons[0] if reasons else None)
                # Of several copies (layer `rpf`), those that came off the tree are dropped, before or after
                # the copy that came by the tree.
                if found is None or taken.dropped is None:
                    found = taken
                if sent or (node != source and taken.dropped is None):
                    break
    except RecordingError as error:
        raise InputError(str(error)) from error
    return found


def _concerns(event: Event, node: int, source: int, seq: int) -> bool:
    if node == source:
        return isinstance(event, SendMessage)
    return (
        isinstance(event, FrameReceived)
        and event.frame.type in MESSAGES
        and (event.frame.issuer, event.frame.seq) == (source, seq)
    )
