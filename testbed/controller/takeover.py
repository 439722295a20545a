"""The state that a controller leaves for one that is started after it, in a file of the run folder.

The file is written when an epoch is committed, and made unsettled before anything of the next one is sent. A
controller that finds it settled, and the network as it says, goes on without an epoch of its own; otherwise
it begins a new epoch, with a number that no router has seen. Which start of a router frames are for, the log
of the controller has: a line of it is written before the first frame to that start.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from captures.rundir.controller import controller_event
from captures.rundir.files import RunFolderError, read_lines, read_object, write_json


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
    content = asdict(legacy) | {
        "members": sorted(legacy.members),
        "down_ports": sorted(legacy.down_ports),
    }
    write_json(path, content)


def read_legacy(path: Path) -> Legacy | None:
    """Returns the state that the file holds; None: there is no file, or it is of no use."""
    if not path.exists():
        return None
    with suppress(RunFolderError, KeyError, TypeError, ValueError):
        content = read_object(path)
        return Legacy(
            epoch=int(content["epoch"]),
            committed_epoch=int(content["committed_epoch"]),
            settled=bool(content["settled"]),
            members=frozenset(map(int, content["members"])),
            down_ports=frozenset((int(node), int(port)) for node, port in content["down_ports"]),
            seq=int(content["seq"]),
        )
    return None


def read_incarnations(log: Path) -> dict[int, int]:
    """Returns the incarnations of the routers, by node, that a controller's log names up to its first
    malformed line; none if there is no log."""
    found: dict[int, int] = {}
    with suppress(RunFolderError):
        for where, line in read_lines(log, unfinished=True):
            event = controller_event(where, line)
            if event["event"] == "hello":
                found[event["node"]] = event["incarnation"]
    return found
