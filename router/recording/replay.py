"""A recording through the protocol core again: the same answers, and the state at any moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from router.protocol.broadcast import Branch
from router.protocol.events import Action
from router.protocol.router import Router
from router.protocol.scheme import Row
from router.recording.actions import describe_actions, encode_actions
from router.recording.events import describe_event
from router.recording.file import Input, Recording, RecordingError


@dataclass(frozen=True, slots=True)
class Step:
    """One event, replayed.

    Attributes:
        input: the event, its time, and what the live router answered.
        actions: what the replayed router answered.
        router: the replayed router, right after the event; the next step changes it.
    """

    input: Input
    actions: list[Action]
    router: Router


def replay(recording: Recording) -> Iterator[Step]:
    """Hands the events of a recording to a new core, one after the other.

    Raises:
        RecordingError: a record breaks the format.
    """
    router = _router(recording)
    for given in recording.inputs():
        yield Step(given, router.handle(given.event, given.at), router)


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a whole replay gave.

    Attributes:
        inputs: events replayed.
        difference: the first event that was answered otherwise, and both answers, in words, or what the core
            raised; None: all equal.
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
        RecordingError: there is no recording, or a record breaks the format.
    """
    recording = Recording(path)
    router = _router(recording)
    first_ns = None
    inputs = 0
    for given in recording.inputs():
        inputs = given.number
        first_ns = given.t_ns if first_ns is None else first_ns
        difference = None
        try:
            data = encode_actions(given.event, router.handle(given.event, given.at))
        except Exception as error:  # what ended the live router ends this one
            difference = f"{describe_event(given.event)}; replayed: the core raises {error!r}"
        else:
            if given.actions not in (None, data):
                difference = _difference(recording, given, data)
        if difference is not None:
            seconds = (given.t_ns - first_ns) / 1e9
            return Replayed(inputs, f"event {inputs}, at {seconds:.6f} s: {difference}", None, router)
    return Replayed(inputs, None, recording.cut, router)


def _router(recording: Recording) -> Router:
    try:
        return recording.origin.router()
    except (ValueError, TypeError) as error:
        raise RecordingError(f"{recording.path}: what the router was made of: {error}") from error


def _live_answers(recording: Recording, given: Input) -> list[str]:
    """What the live router answered, for people; nothing where the recording breaks off before."""
    try:
        return [] if given.actions is None else describe_actions(given.event, given.actions)
    except ValueError as error:
        raise RecordingError(f"{recording.path}: the answer to event {given.number}: {error}") from error


def _difference(recording: Recording, given: Input, replayed: bytes) -> str:
    live, again = _live_answers(recording, given), describe_actions(given.event, replayed)
    place = next(
        (place for place, (a, b) in enumerate(zip(live, again, strict=False)) if a != b),
        min(len(live), len(again)),
    )

    def shown(lines: list[str]) -> str:
        return lines[place] if place < len(lines) else "nothing more" if place else "nothing"

    return f"{describe_event(given.event)}; live: {shown(live)}; replayed: {shown(again)}"


def describe(recording: Recording) -> Iterator[str]:
    """A recording for people: each event with its time (wall clock, ns), and below it the live answers.

    Raises:
        RecordingError: a record breaks the format.
    """
    for given in recording.inputs():
        yield f"{given.t_ns} {describe_event(given.event)}"
        yield from (f"    {line}" for line in _live_answers(recording, given))
    if recording.cut is not None:
        yield f"the recording is cut: {recording.cut}"


@dataclass(frozen=True, slots=True)
class RouterState:
    """What a router knew at a moment.

    Attributes:
        t_ns: that moment, wall clock, ns.
        epoch: the epoch it originated in; 0 before the first.
        interfaces: interface -> neighbouring node.
        table: the rows of its routing table.
        branches: source -> this router's part in its tree, in that epoch.
    """

    t_ns: int
    epoch: int
    interfaces: Mapping[int, int]
    table: tuple[Row, ...]
    branches: Mapping[int, Branch]


def states_at(path: Path, times_ns: Iterable[int]) -> Iterator[RouterState]:
    """The states of one router at moments in ascending order, in one replay.

    An event counts from the time on that the router was told it; a frame comes into the capture of the host
    link a little before. After the end of the recording the last state stays.

    Args:
        times_ns: wall clock, ns.

    Raises:
        RecordingError: as `check`.
        ValueError: the times do not ascend.
    """
    recording = Recording(path)
    router = _router(recording)
    inputs = recording.inputs()
    following = next(inputs, None)
    last_ns = None
    for t_ns in times_ns:
        if last_ns is not None and t_ns < last_ns:
            raise ValueError(f"{t_ns} comes after {last_ns}; expected times in ascending order")
        last_ns = t_ns
        while following is not None and following.t_ns <= t_ns:
            router.handle(following.event, following.at)
            following = next(inputs, None)
        yield RouterState(t_ns, router.epoch, router.interfaces(), router.rows(), router.branches())
