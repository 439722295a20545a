"""The records of applications and of services in a run folder.

`router.records.applications` and `router.records.attention` have the records and their writers.
"""

from __future__ import annotations

import heapq
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from captures.rundir import RunLayout
from captures.rundir.faults import NEVER_NS
from captures.rundir.files import (
    Follower,
    RunFile,
    RunFolderError,
    check,
    missing,
    of_events,
    parsed,
    read_lines,
)
from captures.rundir.inputs import is_private
from router.predicates import Predicate
from router.predicates.parser import parse_predicate
from router.predicates.printer import predicate_to_json
from router.records.applications import APPLICATION_EVENTS, ApplicationEvent
from router.records.attention import ATTENTION_EVENTS, AttentionEvent

APPLICATIONS = RunFile(
    lambda run: [
        run.applications_of("<n>"),
        run.applications_after_restart("<n>", "<i>"),
        run.private_applications,
        run.application_of_member("<n>", "<pid>"),
        run.simulated_applications,
    ],
    "What the applications of the router of node n did, or all applications of a simulation: one event a "
    "line, in order of time, at most about 0.1 s after the event. After the i-th kill of the router, its "
    "next start writes a file of its own, which begins with the connections that the kill ended. In a run "
    "with privacy the router writes `connect`, `lose` and `disconnect` alone; applications write what they "
    "asked for (with exact predicates and messages) and the deliveries that they kept: those of the "
    "workload in `members.jsonl`, `cbcb pub` and `cbcb sub` with `--key-file`, process `pid`, in a file of "
    "their own.",
    of_events(APPLICATION_EVENTS),
)
SERVICE = RunFile(
    lambda run: [run.service_records_of("<n>"), run.simulated_service_records],
    'With [service] `kind = "attention"`: what the router of node n did for its applications, or all '
    "routers of a simulation; written as `logs/applications`.",
    of_events(ATTENTION_EVENTS),
)
#: Wall time after which every record of a run with privacy is in its file, whoever wrote it.
_WRITTEN_NS = 500_000_000
_Located = tuple[str, ApplicationEvent]
_Event = TypeVar("_Event")


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the predicates of an application.

    Attributes:
        requested_ns: when the router read the request, or noticed the end of the connection.
        in_force: the whole predicate from then on.
    """

    requested_ns: int
    in_force: Predicate

    @property
    def filters(self) -> list[list[list[Any]]]:
        """The predicate as `[[[name, type, operator, value], ...], ...]`."""
        return predicate_to_json(self.in_force)


@dataclass(frozen=True, slots=True)
class Recorded:
    """An event of an application.

    Attributes:
        event: the record.
        change: the change of predicates that the event is about; None: it is about none.
    """

    event: ApplicationEvent
    change: Change | None = None


class _Predicates:
    """The predicates that applications have in force, by their records."""

    def __init__(self) -> None:
        #: (node, application) -> its predicates: the declared one under 0, subscriptions under their numbers.
        self._of: defaultdict[tuple[int, str], dict[int, Predicate]] = defaultdict(dict)
        #: Applications whose connection has ended.
        self._gone: set[tuple[int, str]] = set()

    def take(self, where: str, event: ApplicationEvent) -> Recorded:
        """Takes an event: those of an application in order of time.

        Raises:
            RunFolderError: a predicate is malformed; names `where`.
        """
        name = event["event"]
        if name == "deliver" or name == "discard":
            return Recorded(event)
        application = event["node"], event["app"]
        own = self._of[application]
        match event["event"]:
            case "connect":
                self._gone.discard(application)
                return Recorded(event)
            case "set_predicate" | "subscribe" if application in self._gone:
                # A member read the answer of a router that had ended the connection.
                return Recorded(event)
            case "set_predicate":
                own[0] = _predicate(where, event["predicate"])
            case "subscribe":
                own[event["subscription"]] = _predicate(where, event["predicate"])
            case "unsubscribe":
                number = event.get("subscription")
                for revoked in [each for each in own if each] if number is None else [number]:
                    own.pop(revoked, None)
            case "disconnect":
                self._gone.add(application)
                if not own:
                    return Recorded(event)
                own.clear()
            case _:
                return Recorded(event)
        whole = Predicate(tuple(dict.fromkeys(filter_ for each in own.values() for filter_ in each)))
        return Recorded(event, Change(event["requested_ns"], whole))


def _predicate(where: str, text: str) -> Predicate:
    try:
        return parse_predicate(text)
    except ValueError as error:
        raise RunFolderError(f"{where}: predicate: {error}") from error


def read_applications(run: RunLayout) -> Iterator[tuple[str, Recorded]]:
    """Reads the events, each after its place (FILE:LINE): those of a node in order of time.

    The end of a file whose last line was not finished is left out.

    Raises:
        RunFolderError: the folder is missing, or a line is malformed.
    """
    if not run.applications_folder.is_dir():
        raise missing(run.applications_folder)
    predicates = _Predicates()
    for where, event in _events(run):
        yield where, predicates.take(where, event)


def _events(run: RunLayout) -> Iterator[_Located]:
    files = _files(run)
    if not is_private(run):
        # The events of a node are in one file.
        return chain.from_iterable(map(_events_of, files))
    # Other files are short, and may be more than a process can have open.
    long = (run.private_applications, run.simulated_applications)
    return heapq.merge(
        *(_events_of(path) if path in long else list(_events_of(path)) for path in files), key=_time
    )


def _events_of(path: Path) -> Iterator[_Located]:
    return read_lines(path, partial(_event, APPLICATION_EVENTS), unfinished=True)


def _time(located: _Located) -> int:
    return located[1]["t_ns"]


class ApplicationsFollower:
    """Reads the events of a run as routers and members write them."""

    def __init__(self, run: RunLayout) -> None:
        self._run = run
        self._followers: dict[Path, Follower[_Located]] = {}
        self._predicates = _Predicates()
        #: The events of each file that have been read and not returned.
        self._waiting: defaultdict[Path, deque[_Located]] = defaultdict(deque)

    def read(self) -> list[Recorded]:
        """Returns the events that have been written since the last call: those of a node in order of time.

        Events of a run with privacy are returned when they are so old that no earlier event of the node can
        be missing.

        Raises:
            RunFolderError: a line is malformed.
        """
        # The events of a node without privacy are in files that do not overlap in time.
        until_ns = time.time_ns() - _WRITTEN_NS if is_private(self._run) else NEVER_NS
        for path in _files(self._run):
            if path not in self._followers:
                self._followers[path] = Follower(
                    path, lambda where, line: (where, _event(APPLICATION_EVENTS, where, line))
                )
            self._waiting[path].extend(self._followers[path].read())
        ready = heapq.merge(*(_taken(waiting, until_ns) for waiting in self._waiting.values()), key=_time)
        return [self._predicates.take(where, event) for where, event in ready]


def _taken(waiting: deque[_Located], until_ns: int) -> Iterator[_Located]:
    """Takes the events up to a time from the front of a queue."""
    while waiting and _time(waiting[0]) <= until_ns:
        yield waiting.popleft()


def _files(run: RunLayout) -> list[Path]:
    return sorted(run.applications_folder.glob("*.jsonl"))


def read_attention(run: RunLayout) -> Iterator[tuple[str, AttentionEvent]]:
    """Reads the events of a service, each after its place (FILE:LINE): those of a node in order of time.

    The end of a file whose last line was not finished is left out.

    Raises:
        RunFolderError: the folder is missing, as it is with another service, or a line is malformed.
    """
    if not run.service_folder.is_dir():
        raise missing(run.service_folder)
    for path in sorted(run.service_folder.glob("*.jsonl")):
        yield from read_lines(path, attention_event, unfinished=True)


def _event(events: Mapping[str, type[_Event]], where: str, line: bytes) -> _Event:
    record = parsed(dict[str, Any], where, line)
    name = record.get("event")
    if not isinstance(name, str) or name not in events:
        expected = (
            f"event: {name!r}; expected {' or '.join(events)}" if "event" in record else "no field 'event'"
        )
        raise RunFolderError(f"{where}: {expected}")
    return check(events[name], where, record)


#: The event of a service that a line is; raises RunFolderError, which names the place: it is malformed.
attention_event = partial(_event, ATTENTION_EVENTS)
