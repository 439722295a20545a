"""The log of commands: what the user had done in a running emulation, besides publishing and subscribing."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

from captures.rundir.layout import RunLayout
from captures.rundir.records import RunFile, append_to_log, read_log


class CommandRecord(TypedDict):
    """A command that a running emulation accepted, or began to carry out."""

    at_s: Annotated[float, "experiment seconds"]
    time_ns: Annotated[int, "wall clock, ns"]
    command: Annotated[str, "the command, such as `link 0 1 down` or `exec 3 -- ip address`"]
    lossy_link: NotRequired[
        Annotated[int, "index of a link that loses frames from now on, by `link ... set`"]
    ]
    doubling: NotRequired[Annotated[bool, "the link doubles frames from now on"]]
    failure: NotRequired[
        Annotated[
            str, "why `link ... set` failed; the link has the properties that it had before, or this says not"
        ]
    ]


FILE = RunFile(
    lambda run: [run.commands],
    "What the user had done in the running emulation by `cbcb exec`, `shell`, `link`, `node` and `cli`; "
    "JSON lines. Without such a command the file is empty, and a simulation has none. The controller logs "
    "what a command changes in the network, and routers record what applications do.",
    (("", CommandRecord),),
)


def read_commands(run: RunLayout) -> list[CommandRecord]:
    """Reads the log; empty if the run has none.

    Raises:
        RunFolderError: a line is malformed.
    """
    return read_log(run.commands, CommandRecord)


def lossy_links(run: RunLayout) -> frozenset[int]:
    """Returns the indices of the links that a command made lose frames.

    Raises:
        RunFolderError: a line is malformed.
    """
    return frozenset(record["lossy_link"] for record in read_commands(run) if "lossy_link" in record)


def append_command(run: RunLayout, record: CommandRecord) -> None:
    """Appends a command.

    Raises:
        OSError: the line cannot be written.
    """
    append_to_log(run.commands, record)
