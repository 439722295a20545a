"""Replay of a recording through the protocol core: compares the answers and shows the state at any time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from router.protocol.core.router import Layer, Router
from router.recording.actions import describe_actions, encode_actions
from router.recording.events import describe_event
from router.recording.file import RecordedEvent, Recording, RecordingError


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of the replay of a whole recording.

    Attributes:
        inputs: number of replayed events.
        difference: the first event with different answers, and both answers, in words, or the exception of
            the core; None: all answers are equal.
        cut: see `Recording`.
        router: the router at the end.
    """

    inputs: int
    difference: str | None
    cut: str | None
    router: Router


def check(path: Path) -> Replayed:
    """Replays a recording and compares every answer with the live router's, up to the first difference.

    Raises:
        RecordingError: `path` is not a recording, or a record breaks the format.
    """
    recording = Recording(path)
    router = new_router(recording)
    first_ns = None
    inputs = 0
    for given in recording.inputs():
        inputs = given.number
        first_ns = given.t_ns if first_ns is None else first_ns
        difference = None
        try:
            data = encode_actions(given.event, router.handle(given.event, given.at))
        except Exception as error:  # an error that ended the live router ends the replayed router
            difference = f"{describe_event(given.event)}; replayed: the core raises {error!r}"
        else:
            if given.actions not in (None, data):
                difference = _difference(recording, given, data)
        if difference is not None:
            seconds = (given.t_ns - first_ns) / 1e9
            return Replayed(inputs, f"event {inputs}, at {seconds:.6f} s: {difference}", None, router.core)
    return Replayed(inputs, None, recording.cut, router.core)


def new_router(recording: Recording) -> Layer:
    """The router at the begin of a recording; earlier ones of this process are not to be used any more.

    Raises:
        RecordingError: the parameters of the router are malformed.
    """
    try:
        return recording.origin.router()
    except (ValueError, TypeError) as error:
        raise RecordingError(f"{recording.path}: parameters of the router: {error}") from error


def _live_answers(recording: Recording, given: RecordedEvent) -> list[str]:
    """Returns the answer of the live router as text; empty if the recording ends before it."""
    try:
        return [] if given.actions is None else describe_actions(given.event, given.actions)
    except ValueError as error:
        raise RecordingError(f"{recording.path}: the answer to event {given.number}: {error}") from error


def _difference(recording: Recording, given: RecordedEvent, replayed: bytes) -> str:
    live, again = _live_answers(recording, given), describe_actions(given.event, replayed)
    place = next(
        (place for place, (a, b) in enumerate(zip(live, again, strict=False)) if a != b),
        min(len(live), len(again)),
    )

    def shown(lines: list[str]) -> str:
        return lines[place] if place < len(lines) else "nothing more" if place else "nothing"

    return f"{describe_event(given.event)}; live: {shown(live)}; replayed: {shown(again)}"


def describe(recording: Recording) -> Iterator[str]:
    """Yields a recording as lines of text: each event with its time (wall clock, ns), and below it the live
    answers.

    Raises:
        RecordingError: a record breaks the format.
    """
    for given in recording.inputs():
        yield f"{given.t_ns} {describe_event(given.event)}"
        yield from (f"    {line}" for line in _live_answers(recording, given))
    if recording.cut is not None:
        yield f"the recording is cut: {recording.cut}"


def state_at(path: Path, t_ns: int) -> Router:
    """The router as it was at a time, by a replay.

    An event takes effect at the time at which the router handled it; the capture of the host link has its
    frame a little earlier. After the end of the recording the last state holds.

    Args:
        t_ns: wall clock, ns.

    Raises:
        RecordingError: as `check`.
    """
    recording = Recording(path)
    router = new_router(recording)
    for given in recording.inputs():
        if given.t_ns > t_ns:
            break
        router.handle(given.event, given.at)
    return router.core
