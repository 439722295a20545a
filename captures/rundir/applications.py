"""The records of applications in a run folder: those that its routers wrote, or its simulation.

`router.records.applications` has the records and their writer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from captures.rundir.files import RunFolderError, missing, read_lines
from captures.rundir.follow import Follower
from captures.rundir.layout import RunLayout
from captures.rundir.records import RunFile, check
from router.predicates.model import Predicate
from router.predicates.parser import parse_predicate
from router.predicates.printer import predicate_to_json
from router.records.applications import APPLICATION_EVENTS, ApplicationEvent

__all__ = ["FILE", "ApplicationEvent", "ApplicationsFollower", "Change", "Recorded", "read_applications"]

FILE = RunFile(
    lambda run: [run.applications_of("<n>"), run.private_applications, run.simulated_applications],
    "What the applications of the router of node n did, the applications of the workload of a run with "
    "privacy (which write the file themselves), or all applications of a simulation: one event a "
    "line, in order of time; times are wall clock in ns since 1970 UTC. The router writes a line at most "
    "about 0.1 s after the event, and the last lines when it ends.",
    tuple((f"Event `{name}`", record) for name, record in APPLICATION_EVENTS.items()),
)


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

    def take(self, where: str, record: dict[str, Any]) -> Recorded:
        """Reads an object of a file, in the order of the file.

        Raises:
            RunFolderError: the object is no event of an application; names `where`.
        """
        event = _event(where, record)
        own = self._of[event["node"], event["app"]]
        match event["event"]:
            case "set_predicate":
                own[0] = _predicate(where, event["predicate"])
            case "subscribe":
                own[event["subscription"]] = _predicate(where, event["predicate"])
            case "unsubscribe":
                number = event.get("subscription")
                for revoked in [each for each in own if each] if number is None else [number]:
                    own.pop(revoked, None)
            case "disconnect" if own:
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
    for path in _files(run):
        predicates = _Predicates()
        for where, record in read_lines(path, unfinished=True):
            yield where, predicates.take(where, record)


class ApplicationsFollower:
    """Reads the events of a run as routers write them."""

    def __init__(self, run: RunLayout) -> None:
        self._run = run
        self._followers: dict[Path, Follower[Recorded]] = {}

    def read(self) -> list[Recorded]:
        """Returns the events that have been written since the last call: those of a node in order of time.

        Raises:
            RunFolderError: a line is malformed.
        """
        for path in _files(self._run):
            if path not in self._followers:
                self._followers[path] = Follower(path, _Predicates().take)
        return [recorded for follower in self._followers.values() for recorded in follower.read()]


def _files(run: RunLayout) -> list[Path]:
    return sorted(run.applications_folder.glob("*.jsonl"))


def _event(where: str, record: dict[str, Any]) -> ApplicationEvent:
    name = record.get("event")
    event = APPLICATION_EVENTS.get(name) if isinstance(name, str) else None
    if event is None:
        if "event" not in record:
            raise RunFolderError(f"{where}: no field 'event'")
        raise RunFolderError(f"{where}: event: {name!r}; expected {' or '.join(APPLICATION_EVENTS)}")
    check(event, where, record)
    return cast("ApplicationEvent", record)
