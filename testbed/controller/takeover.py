"""The state that a controller leaves for one that is started after it, in a file of the run folder.

The file is written when an epoch is committed, and made unsettled before anything of the next one is sent. A
controller that finds it settled, and the network as it says, goes on without an epoch of its own; otherwise
it begins a new epoch, with a number that no router has seen. Which start of a router frames are for, the log
of the controller has: a line of it is written before the first frame to that start.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from captures.rundir.controller import controller_events
from captures.rundir.files import RunFolderError, read_json
from router.records.json_file import write_json


@dataclass(frozen=True, slots=True)
class Legacy:
    """The state of a controller.

    Attributes:
        epoch: the number of its last epoch.
        committed_epoch: the last that was committed at a router.
        settled: every member is in `epoch`, and the rest of the state is that of the network.
        members: the nodes of the epoch.
        down_ports: (node, port) of the ports that are down.
        seq: the number of the last frame to a router when the state was left.
    """

    epoch: int
    committed_epoch: int
    settled: bool
    members: frozenset[int] = frozenset()
    down_ports: frozenset[tuple[int, int]] = frozenset()
    seq: int = 0


def write_legacy(path: Path, legacy: Legacy) -> None:
    """Writes the file whole or not at all.

    Raises:
        OSError: the file cannot be written.
    """
    write_json(path, legacy)


def read_legacy(path: Path) -> Legacy | None:
    """Returns the state that the file holds; None: there is no file, or it is of no use."""
    with suppress(RunFolderError):
        return read_json(path, Legacy)
    return None


def read_incarnations(log: Path) -> dict[int, int]:
    """Returns the incarnations of the routers, by node, that a controller's log names up to its first
    malformed line; none if there is no log."""
    found: dict[int, int] = {}
    with suppress(RunFolderError):
        for _, event in controller_events(log, unfinished=True):
            if event["event"] == "hello":
                found[event["node"]] = event["incarnation"]
    return found
