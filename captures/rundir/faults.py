"""Acts upon a running emulation: the faults of its parts, and the commands of its user.

Parts are processes that were stopped, killed, started, or lost. Oracle and accounting leave out what a part
that was away cannot have done or written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal, NotRequired, TypedDict

from captures.rundir import RunLayout
from captures.rundir.files import Log

_Process = Literal["router", "controller", "captures", "switches", "switch", "database", "application"]
PartName = Literal[_Process, "machine", "tunnel", "run"]
#: The end of an outage that goes on.
NEVER_NS = 2**63 - 1
#: Wall time for which what a router has done may be unwritten (`router.records.json_file.DELAY_S`), with
#: room for a process that does not get a processor.
_UNWRITTEN_NS = 2_000_000_000


class FaultRecord(TypedDict):
    """A part of the run that was stopped, killed, started or held short on purpose, or that was lost."""

    t_ns: Annotated[int, "before the signal, or after the start"]
    at_s: Annotated[float, "experiment seconds"]
    what: Annotated[
        Literal[
            "stopped", "resumed", "killed", "started", "exhausted", "replenished", "cut", "joined", "lost"
        ],
        "`started`: a part that was killed works again; `exhausted`, `replenished`: it has no free file "
        "descriptor, and has some again; `cut`, `joined`: a tunnel loses all frames, and carries them again; "
        "`lost`: it ended by itself, or not as planned, and the run with it",
    ]
    part: Annotated[
        PartName, "the part; `run`: the user interrupted the run, or which part was lost is not known"
    ]
    node: NotRequired[Annotated[int, "node of the part, of which a run has several"]]
    app: NotRequired[Annotated[str, "name of the application"]]
    link: NotRequired[Annotated[str, "link of the tunnel, by its nodes, such as `0-1`"]]
    why: NotRequired[Annotated[str, "of a part that was lost: the error"]]


class CommandRecord(TypedDict):
    """A command that a running emulation accepted, or began to carry out."""

    at_s: Annotated[float, "experiment seconds"]
    time_ns: Annotated[int, "time of the command"]
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


FAULTS = Log(
    lambda run: [run.faults],
    "The processes of an emulation that its events stopped, killed, started or held short, and those that "
    "it lost; empty without a fault, and missing in a simulation.",
    form=FaultRecord,
    optional=True,
)
COMMANDS = Log(
    lambda run: [run.commands],
    "What the user had done in the running emulation by `cbcb exec`, `shell`, `link`, `node` and `cli`; "
    "empty without a command, and missing in a simulation. The controller logs what a command changes in "
    "the network, routers what applications do.",
    form=CommandRecord,
    optional=True,
)


def lossy_links(run: RunLayout) -> frozenset[int]:
    """Returns the indices of the links that a command made lose frames.

    Raises:
        RunFolderError: a line is malformed.
    """
    return frozenset(record["lossy_link"] for record in COMMANDS.read_all(run) if "lossy_link" in record)


def delays(faults: Sequence[FaultRecord]) -> list[tuple[int, int]]:
    """The intervals in which frames may have waited, in a stopped router or switches without their database.

    Returns:
        from, to (wall clock, ns).
    """
    return _intervals(faults, {("router", "stopped"): "resumed", ("database", "killed"): "started"})


def cuts(faults: Sequence[FaultRecord]) -> list[tuple[int, int]]:
    """The intervals in which a tunnel lost all frames; as `delays`."""
    return _intervals(faults, {("tunnel", "cut"): "joined"})


def _intervals(faults: Sequence[FaultRecord], ends: Mapping[tuple[str, str], str]) -> list[tuple[int, int]]:
    return [
        (record["t_ns"], _next(faults[number:], ends[key], record))
        for number, record in enumerate(faults)
        if (key := (record["part"], record["what"])) in ends
    ]


def killed_routers(faults: Iterable[FaultRecord]) -> list[tuple[int, int]]:
    """The routers that were killed: node, time (wall clock, ns)."""
    return [
        (record["node"], record["t_ns"])
        for record in faults
        if record["what"] == "killed" and record["part"] == "router" and "node" in record
    ]


def restarted_routers(faults: Iterable[FaultRecord]) -> list[tuple[int, int]]:
    """The routers that were started after a kill: node, and which kill of the router it was, from 1 on."""
    kills: Counter[int] = Counter()
    found = []
    for record in faults:
        if record["part"] == "router" and "node" in record:
            kills[record["node"]] += record["what"] == "killed"
            if record["what"] == "started":
                found.append((record["node"], kills[record["node"]]))
    return found


def unwritten(faults: Iterable[FaultRecord]) -> list[tuple[int, int, int]]:
    """The times in which a router may have sent messages that it had no time to record: node, from, to."""
    return [(node, t_ns - _UNWRITTEN_NS, t_ns + _UNWRITTEN_NS) for node, t_ns in killed_routers(faults)]


def lost_parts(faults: Iterable[FaultRecord]) -> list[FaultRecord]:
    """The records of the parts that the run lost, with which it ended."""
    return [record for record in faults if record["what"] == "lost"]


def _next(faults: Iterable[FaultRecord], what: str, of: FaultRecord) -> int:
    """The time at which a part is next in a state; NEVER_NS: not in the log."""
    same = (of["part"], of.get("node"), of.get("link"))
    for record in faults:
        if record["what"] == what and (record["part"], record.get("node"), record.get("link")) == same:
            return record["t_ns"]
    return NEVER_NS
