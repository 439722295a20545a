"""The log of the controller: the record of each event, its reader and its writer."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict

from captures.rundir.files import RunFile, check, of_events, parsed, read_lines
from router.records.json_file import json_line

#: A line of the log that has been checked against the record of its event.
ControllerEvent = Mapping[str, Any]


class Head(TypedDict):
    """The fields that every event begins with."""

    t_ns: Annotated[int, "when the controller logged it"]
    event: Annotated[str, "name of the event"]


class NodeEvent(TypedDict):
    """An event of one node."""

    node: Annotated[int, "the node"]


class LinkEvent(TypedDict):
    """An event of one link."""

    link: Annotated[int, "index of the link in the topology"]
    u: Annotated[int, "one end of the link"]
    v: Annotated[int, "the other end"]


class Listening(TypedDict):
    """The controller accepts connections of switches."""

    socket: Annotated[str, "path of the Unix socket on which it listens"]


class AllSwitchesReady(TypedDict):
    """Every switch has its rules."""

    switches: Annotated[int, "number of switches"]
    seconds: Annotated[float, "seconds since the first switch connected"]


class EpochStarted(TypedDict):
    """The controller computes and distributes new broadcast tables."""

    epoch: Annotated[int, "number of the epoch"]
    routers: Annotated[int, "number of its members"]
    down_links: Annotated[list[int], "indices of the links that the controller knows to be down"]
    down_nodes: Annotated[list[int], "nodes that are not members"]


class Committed(TypedDict):
    """Every member of an epoch has its table, and may originate in the epoch."""

    epoch: Annotated[int, "number of the epoch"]
    routers: Annotated[int, "number of its members"]
    seconds: Annotated[float, "seconds since the epoch started"]


class RouterHello(TypedDict):
    """A router has reported to the controller."""

    node: Annotated[int, "node of the router"]
    incarnation: Annotated[int, "number of its start; greater than at any earlier start"]
    restarted: Annotated[bool, "whether the router had reported before with a smaller number"]


class TableAcknowledged(TypedDict):
    """A router has its table of an epoch."""

    node: Annotated[int, "node of the router"]
    epoch: Annotated[int, "number of the epoch"]


class RouterUnresponsive(TypedDict):
    """A router has acknowledged nothing for a while and is left out of the next epoch."""

    node: Annotated[int, "node of the router"]
    waited_s: Annotated[float, "seconds for which the controller waited"]


class TakenOver(TypedDict):
    """A controller that was started after another one has its switches, and goes on where that one ended."""

    epoch: Annotated[int, "number of the epoch in force"]


class Failed(TypedDict):
    """The controller ends because of an error of its own."""

    error: Annotated[str, "the error"]


class UnknownSwitch(TypedDict):
    """A switch that is not part of the topology has connected, and was disconnected."""

    dpid: Annotated[int, "datapath identifier of the switch"]


class OpenflowError(TypedDict):
    """A switch has refused a message."""

    node: Annotated[int | None, "node of the switch; null: not known"]
    type: Annotated[int, "error type of OpenFlow"]
    code: Annotated[int, "error code of OpenFlow"]


class Rejection(StrEnum):
    """Why the controller takes no notice of a frame of a router, in every mode of `[security]`."""

    #: The router has asked for a new epoch too often.
    HELLO_RATE = "hello_rate"
    #: The router answers from another epoch than that of the frame.
    OTHER_EPOCH = "other_epoch"
    #: The frame names another issuer than the node of the switch that delivered it.
    WRONG_ISSUER = "wrong_issuer"
    #: The frame is neither HELLO nor ACK.
    UNEXPECTED_TYPE = "unexpected_type"


class FrameCounts(TypedDict):
    """The counters of the controller when it ends; they count Ethernet frames."""

    frames_sent: Annotated[Mapping[str, int], "frames sent, by frame type"]
    frames_received: Annotated[Mapping[str, int], "frames received, by frame type"]
    undecodable: Annotated[Mapping[str, int], "frames that do not decode, by reason"]
    rejected: Annotated[Mapping[str, int], "frames that were of no use, by reason"]
    refused: NotRequired[
        Annotated[
            Mapping[str, Mapping[str, int]],
            "the frames that are among `rejected` and whose node is known, by the node that sent them, or "
            "in whose name they came, and by reason",
        ]
    ]


#: Name of the event -> the fields that it has beside `Head`.
CONTROLLER_EVENTS: dict[str, type] = {
    "listening": Listening,
    "switch_connected": NodeEvent,
    "switch_taken_over": NodeEvent,
    "taken_over": TakenOver,
    "switch_disconnected": NodeEvent,
    "pipeline_installed": NodeEvent,
    "all_switches_ready": AllSwitchesReady,
    "epoch_started": EpochStarted,
    "table_acknowledged": TableAcknowledged,
    "committed": Committed,
    "hello": RouterHello,
    "link_down": LinkEvent,
    "link_up": LinkEvent,
    "node_down": NodeEvent,
    "node_up": NodeEvent,
    "router_unresponsive": RouterUnresponsive,
    "router_responsive": NodeEvent,
    "unknown_switch": UnknownSwitch,
    "openflow_error": OpenflowError,
    "failed": Failed,
    "counters": FrameCounts,
}

CONTROLLER = RunFile(
    lambda run: [run.controller_log],
    "The events of the controller, one a line.",
    (("Every event", Head), *of_events(CONTROLLER_EVENTS)),
)


def read_controller(log: Path, *, unfinished: bool = False) -> Iterator[tuple[str, ControllerEvent]]:
    """Reads the events, each after its place (FILE:LINE); none if there is no log.

    Args:
        unfinished: leave out a last line without an end, which its writer did not finish.

    Raises:
        RunFolderError: a line is malformed.
    """
    if log.exists():
        yield from read_lines(log, controller_event, unfinished=unfinished)


def controller_event(where: str, line: bytes) -> ControllerEvent:
    """A line of the log as an event.

    Events that are not in `CONTROLLER_EVENTS` are let through.

    Raises:
        RunFolderError: a field is missing or malformed; names `where`.
    """
    record = parsed(dict[str, Any], where, line)
    name = check(Head, where, record)["event"]
    check(CONTROLLER_EVENTS.get(name, Head), where, record)
    return record


class ControllerLog:
    """Appends events to the log, after its last whole line: a full disk may have left a part of one.

    Args:
        path: the log; it need not exist.
        buffered: whether events may wait in memory; otherwise each is written at once.

    Raises:
        OSError: the log cannot be opened; from every method, that it cannot be written.
    """

    def __init__(self, path: Path, *, buffered: bool = False) -> None:
        if path.exists():
            os.truncate(path, path.read_bytes().rfind(b"\n") + 1)
        self._file, self._buffered = path.open("ab"), buffered

    def write(self, event: str, fields: Mapping[str, Any], t_ns: int | None = None) -> None:
        """Appends an event.

        Args:
            event: its name, a key of `CONTROLLER_EVENTS`.
            fields: its fields.
            t_ns: its time; None: now.
        """
        head = Head(t_ns=time.time_ns() if t_ns is None else t_ns, event=event)
        self._file.write(json_line({**head, **fields}))
        if not self._buffered:
            self._file.flush()

    def close(self) -> None:
        self._file.close()
