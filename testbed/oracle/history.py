"""What the applications asked for and sent, and when: read from the logs of a run."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from captures.rundir.epochs import NEEDED
from testbed.errors import InputError
from testbed.oracle.connectivity import Connectivity, connectivity, read_network, tree_changes

Filters = list[list[list[Any]]]
_T = TypeVar("_T")


@dataclass(frozen=True, order=True)
class Application:
    """An application: the node it runs on and its name there."""

    node: int
    name: str


@dataclass(frozen=True)
class Setting:
    """One predicate of one application. Perhaps in force from `requested_ns`, surely from `confirmed_ns`."""

    requested_ns: int
    confirmed_ns: int
    filters: Filters


@dataclass
class Timeline:
    """The settings of one application, in order of time. Before the first it selects nothing."""

    settings: list[Setting] = field(default_factory=list)

    def in_force(self, at_ns: int) -> int | None:
        """Position of the setting in force at a moment (by confirmation), or None before the first."""
        position = bisect_right(self.settings, at_ns, key=lambda setting: setting.confirmed_ns) - 1
        return position if position >= 0 else None

    def possible(self, from_ns: int, to_ns: int) -> range:
        """Positions of the settings that may have been in force at any time in [from_ns, to_ns].

        -1 stands for the time before the first setting. Between request and confirmation of a setting both
        it and the one before are possible.
        """
        first = bisect_right(self.settings, from_ns, key=lambda setting: setting.confirmed_ns) - 1
        last = bisect_right(self.settings, to_ns, key=lambda setting: setting.requested_ns) - 1
        return range(first, max(first, last) + 1)


@dataclass(frozen=True)
class Sending:
    """A message that was sent: `source` and `seq` name it; the router took it between the two times."""

    source: int
    seq: int
    requested_ns: int
    confirmed_ns: int
    attributes: dict[str, Any]


@dataclass
class History:
    """All that the oracle knows of a run.

    `tree_changes` are the times (from, to; wall clock, ns; disjoint and in order) in which a link or node had
    gone or come back and not every router was known to have the new trees.
    """

    timelines: dict[Application, Timeline] = field(default_factory=dict)
    sendings: list[Sending] = field(default_factory=list)
    tree_changes: list[tuple[int, int]] = field(default_factory=list)
    connectivity: Connectivity = field(default_factory=Connectivity)


def read_history(run_dir: Path) -> History:
    """Reads `logs/applications.jsonl` and, if there is one, `logs/controller.jsonl` of a run folder.

    Raises:
        InputError: the applications' log is missing, or a line is malformed (names file and line); or there
            is a controller's log and no usable topology.json.
    """
    history = History()
    applications = run_dir / "logs" / "applications.jsonl"
    if not applications.exists():
        raise InputError(f"{applications}: not found; expected the applications' log of a run")
    for _ in _parsed(applications, lambda record: take_record(history, record)):
        pass
    for timeline in history.timelines.values():
        timeline.settings.sort(key=lambda setting: setting.confirmed_ns)
    history.sendings.sort(key=lambda sending: sending.requested_ns)
    controller = run_dir / "logs" / "controller.jsonl"
    if controller.exists():
        events = list(_parsed(controller, checked_event))
        history.tree_changes = tree_changes(events)
        history.connectivity = connectivity(events, read_network(run_dir / "topology.json"))
    return history


def checked_event(record: dict[str, Any]) -> dict[str, Any]:
    """An event of the controller, with the fields that are needed of it.

    Raises:
        KeyError: it lacks one.
    """
    int(record["t_ns"])
    for field_name in NEEDED.get(record["event"], ()):
        record[field_name]
    return record


def take_record(history: History, record: dict[str, Any]) -> None:
    """Adds one event of the applications to what is known, in the order of the log.

    Raises:
        KeyError: it lacks a field.
    """
    if record["event"] == "set_predicate":
        application = Application(record["node"], record["app"])
        timeline = history.timelines.setdefault(application, Timeline())
        timeline.settings.append(Setting(record["requested_ns"], record["t_ns"], record["filters"]))
    elif record["event"] == "send_message":
        history.sendings.append(
            Sending(
                record["source"], record["seq"], record["requested_ns"], record["t_ns"], record["attributes"]
            )
        )


def _parsed(path: Path, take: Callable[[dict[str, Any]], _T]) -> Iterator[_T]:
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                yield take(json.loads(line))
            except KeyError as error:
                raise InputError(f"{path}:{number}: no field {error}") from error
            except (ValueError, TypeError) as error:
                raise InputError(f"{path}:{number}: {error}") from error
