"""The history of predicates and messages of the applications, read from the logs of a run."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from captures.rundir import RunLayout
from captures.rundir.applications import Recorded, read_applications
from captures.rundir.controller import read_controller
from captures.rundir.faults import FAULTS, delays, unwritten
from captures.rundir.inputs import read_topology
from testbed.results.oracle.connectivity import (
    Connectivity,
    HopLimit,
    connectivity,
    merged,
    outages,
    tree_changes,
)

Filters = list[list[list[Any]]]
#: The record of a message, which its router accepted between `requested_ns` and `t_ns`.
Sending = Mapping[str, Any]


@dataclass(frozen=True, order=True)
class Application:
    node: int
    name: str


@dataclass(frozen=True)
class Setting:
    """A predicate of an application.

    It may be in force from `requested_ns` on, and is from `confirmed_ns` on.
    """

    requested_ns: int
    confirmed_ns: int
    filters: Filters


def possible(settings: Sequence[Setting], from_ns: int, to_ns: int) -> range:
    """Returns the positions of the settings that may have been in force at any time in [from_ns, to_ns].

    -1 stands for the time before the first setting, when the application selects no message. Between request
    and confirmation of a setting, that setting and its predecessor are both possible.

    Args:
        settings: of an application, in order of time.
    """
    first = bisect_right(settings, from_ns, key=lambda setting: setting.confirmed_ns) - 1
    last = bisect_right(settings, to_ns, key=lambda setting: setting.requested_ns) - 1
    return range(first, max(first, last) + 1)


#: The delivery of a message that its router was killed too soon to record: source, seq, application, time.
UnknownDelivery = tuple[int, int, Application, int]


@dataclass
class History:
    """The oracle's knowledge of a run.

    `tree_changes` are the intervals (from, to; wall clock, ns; disjoint and in order) after a change of a
    link or node, or after the kill of a router, in which not every router was known to have the new trees;
    `delays` those in which a router was stopped, so that frames waited in it.
    """

    timelines: dict[Application, list[Setting]] = field(default_factory=dict)
    sendings: list[Sending] = field(default_factory=list)
    tree_changes: list[tuple[int, int]] = field(default_factory=list)
    connectivity: Connectivity = field(default_factory=Connectivity)
    delays: list[tuple[int, int]] = field(default_factory=list)
    unknown: list[UnknownDelivery] = field(default_factory=list)


def read_history(run: RunLayout, hop_limit: HopLimit | None = None, *, unfinished: bool = False) -> History:
    """Reads the records of applications and, if there is one, the log of the controller.

    Args:
        unfinished: whether the run goes on: then a last line without an end is left out.

    Raises:
        RunFolderError: the records of applications are missing, or a line is malformed (names file and line);
            or the run has a log of the controller and no usable topology.
    """
    history = History()
    faults = FAULTS.read_all(run)
    unrecorded = unwritten(faults)
    deliveries: dict[tuple[int, int], dict[Application, UnknownDelivery]] = defaultdict(dict)
    for _, recorded in read_applications(run):
        take_record(history, recorded)
        record = recorded.event
        if record["event"] == "deliver" and any(
            node == record["source"] and since <= record["t_ns"] <= until for node, since, until in unrecorded
        ):
            application = Application(record["node"], record["app"])
            key = record["source"], record["seq"]
            deliveries[key].setdefault(application, (*key, application, record["t_ns"]))
    for sending in history.sendings:
        deliveries.pop((sending["source"], sending["seq"]), None)
    history.unknown = [delivery for each in deliveries.values() for delivery in each.values()]
    if run.controller_log.exists():
        events = [event for _, event in read_controller(run.controller_log, unfinished=unfinished)]
        history.tree_changes = merged([*tree_changes(events), *outages(events, faults)])
        history.delays = delays(faults)
        history.connectivity = connectivity(events, read_topology(run), hop_limit)
    return history


def take_record(history: History, recorded: Recorded) -> None:
    """Adds one event of the applications to the history: those of an application in order of time."""
    record = recorded.event
    if record["event"] == "send_message":
        history.sendings.append(record)
    elif recorded.change is not None:
        application = Application(record["node"], record["app"])
        setting = Setting(recorded.change.requested_ns, record["t_ns"], recorded.change.filters)
        history.timelines.setdefault(application, []).append(setting)
