"""Replay of the recordings of a run: comparison with the live run, and the state of a router at a time.

`RunLayout.recording` names the file of a recording; `router.recording.file` has its format.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from captures.rundir import RunLayout
from captures.rundir.inputs import MANIFEST
from captures.rundir.measures import read_routers_counters
from captures.rundir.routing_tables import ROUTING_TABLES, TableRow
from router.protocol.core.router import Router
from router.protocol.counters import Drop
from router.protocol.events import Accepted, Event, FrameReceived, Send, SendMessage
from router.protocol.schemes import Row
from router.recording.file import Recording, RecordingError
from router.recording.replay import Replayed, check, new_router
from router.wire.format import MESSAGES
from router.wire.frames import Frame
from testbed.support.errors import InputError


def recorded_nodes(run_dir: Path) -> list[int]:
    """Returns the nodes whose routers have recorded, in order, whether or not the recordings are still there.

    Raises:
        RunFolderError: the manifest is missing or malformed.
        InputError: the run has no recording.
    """
    run = RunLayout(run_dir)
    listed = (run.path / name for name in MANIFEST.read(run)["evidence"])
    nodes = sorted(int(path.stem[1:]) for path in listed if path.parent == run.recordings_folder)
    if not nodes:
        raise InputError(f"{run_dir}: no recordings; an emulation with record = true makes them")
    return nodes


@dataclass(frozen=True)
class Verdict:
    """The result of the replay of a router.

    Attributes:
        replayed: the result of the core; None: the recording cannot be read, which is then the only
            difference.
        differences: the first answer, every counter and every table entry that differ from the live run.
        compared: whether the live run has counters and tables to compare.
    """

    node: int
    replayed: Replayed | None
    differences: list[str]
    compared: bool


def replay_run(run_dir: Path, nodes: Iterable[int]) -> Iterator[Verdict]:
    """Replays routers of a run; compares answers, final counters and final tables with the live run's.

    Raises:
        RunFolderError: the run's counters or tables are malformed.
    """
    run = RunLayout(run_dir)
    counters = read_routers_counters(run) if run.routers_counters.exists() else {}
    tables = ROUTING_TABLES.read(run)
    for node in nodes:
        try:
            replayed = check(run.recording(node))
        except RecordingError as error:
            yield Verdict(node, None, [str(error)], compared=False)
            continue
        differences = [] if replayed.difference is None else [replayed.difference]
        if not differences and replayed.cut is not None and node in counters:
            differences = ["the router's counters and table at the end are beyond the recording"]
        if not differences and node in counters:
            differences += _counter_differences(replayed.router, counters[node])
        if not differences and node in tables:
            differences += _table_differences(replayed.router.rows(), tables[node])
        yield Verdict(node, replayed, differences, node in counters and node in tables)


def _table_differences(replayed: Iterable[Row], live: Iterable[TableRow]) -> list[str]:
    rows = {(row.interface, row.scope): row.as_json() for row in replayed}
    others = {(row["interface"], row["scope"]): row for row in live}
    different = [key for key in {**rows, **others} if rows.get(key) != others.get(key)]
    return [
        f"{_place(interface, scope)}: the table at the end is another"
        for interface, scope in sorted(different, key=lambda key: (-1 if key[0] is None else key[0], key[1]))
    ]


def _place(interface: int | None, scope: str) -> str:
    named = [] if interface is None else [f"interface {interface}"]
    return ", ".join([*named, *([scope] if scope else [])])


def _counter_differences(router: Router, live: dict[str, Any]) -> list[str]:
    """Compares the core's counters. The link's counters are separate, but share `dropped` with the core's."""
    dropped, again = live.get("dropped", {}), router.counters.dropped
    pairs = {name: (live.get(name), count) for name, count in router.counters.as_dict().items()}
    # The link counts reasons of the decoder as well.
    pairs |= {
        f"dropped {reason}": (dropped.get(reason, 0), again.get(reason, 0))
        for reason in sorted({*Drop, *again})
    }
    return [f"{name}: live {then}, replayed {now}" for name, (then, now) in pairs.items() if then != now]


@dataclass(frozen=True, slots=True)
class Decision:
    """A router's decision on a message.

    Attributes:
        table: the rows of its routing table at that time.
        dropped: the reason for which the router dropped the message; None: not dropped.
    """

    table: tuple[Row, ...]
    dropped: str | None


def decision(run: Path, node: int, source: int, seq: int) -> Decision | None:
    """Replays the recording of a router until it has decided on the message (`seq`: unsigned).

    Returns None if the router has no recording, or the recording does not have the message.

    Raises:
        RecordingError: the recording is malformed.
    """
    path = RunLayout(run).recording(node)
    if not path.is_file():
        return None
    found = None
    recording = Recording(path)
    router = new_router(recording)
    for given in recording.inputs():
        concerns = _concerns(given.event, node, source, seq)
        before = dict(router.core.counters.dropped) if concerns else {}
        actions = router.handle(given.event, given.at)
        sent = any(isinstance(each, Send) and _carries(each.frame, source, seq) for each in actions)
        if node == source:
            # A message that the source holds back is sent after it was accepted.
            concerns = sent or any(
                isinstance(action, Accepted) and (action.source, action.seq) == (source, seq)
                for action in actions
            )
        if concerns:
            counted = router.core.counters.dropped
            reasons = [str(reason) for reason, count in counted.items() if count > before.get(reason, 0)]
            taken = Decision(router.core.rows(), reasons[0] if reasons else None)
            # Of several copies (layer `rpf`), those that came off the tree are dropped, before or after
            # the copy that came by the tree.
            if found is None or taken.dropped is None:
                found = taken
            if sent or (node != source and taken.dropped is None):
                break
    return found


def _concerns(event: Event, node: int, source: int, seq: int) -> bool:
    if node == source:
        return isinstance(event, SendMessage)
    return isinstance(event, FrameReceived) and _carries(event.frame, source, seq)


def _carries(frame: Frame, source: int, seq: int) -> bool:
    return frame.type in MESSAGES and (frame.issuer, frame.seq) == (source, seq)
