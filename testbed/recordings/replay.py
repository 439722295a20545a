"""The recordings of a run: replayed and held against what it left; and the state of a router at a moment.

`RunLayout.recording` says where a router records, `router.recording.file` how.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from captures.rundir.counters import read_routers_counters
from captures.rundir.files import RunFolderError
from captures.rundir.layout import RunLayout
from captures.rundir.manifest import read_manifest
from captures.rundir.routing_tables import read_routing_tables
from router.predicates.lexer import ParseError
from router.predicates.parser import parse_predicate
from router.protocol.counters import Drop
from router.protocol.router import Router
from router.protocol.scheme import Row
from router.recording.file import RecordingError
from router.recording.replay import Replayed, RouterState, check, states_at
from testbed.errors import InputError
from testbed.oracle.history import read_history


def recorded_nodes(run_dir: Path) -> list[int]:
    """The nodes whose routers have recorded, in order.

    Raises:
        InputError: there is no recording.
    """
    run = RunLayout(run_dir)
    folder = run.recordings_folder
    nodes = sorted(int(path.stem[1:]) for path in folder.glob(run.recording("*").name))
    if not nodes:
        raise InputError(f"{folder}: no recordings; an emulation with record = true makes them")
    return nodes


def wall_clock_ns(run_dir: Path, at_s: float) -> int:
    """Experiment seconds as wall clock, ns. Second 0 is when the first predicate was requested.

    Raises:
        RunFolderError: the manifest or the log of the applications is missing or malformed.
    """
    run = RunLayout(run_dir)
    manifest = read_manifest(run)
    requested = [
        setting.requested_ns
        for timeline in read_history(run).timelines.values()
        for setting in timeline.settings
        if setting.filters
    ]
    return min(requested, default=manifest["started_ns"]) + round(at_s / manifest["time_scale"] * 1e9)


def router_states(run_dir: Path, node: int, times_ns: Iterable[int]) -> Iterator[RouterState]:
    """The states of the router of `node` at moments in ascending order, in one replay.

    Args:
        times_ns: wall clock, ns, as in logs and captures.

    Raises:
        InputError: there is no usable recording of that router.
        ValueError: the times do not ascend.
    """
    try:
        yield from states_at(RunLayout(run_dir).recording(node), times_ns)
    except RecordingError as error:
        raise InputError(str(error)) from error


@dataclass(frozen=True)
class Verdict:
    """What the replay of one router gave.

    Attributes:
        node: of the router.
        replayed: what the core gave; None: its recording cannot be read, as the only difference says.
        differences: the first answer, every counter and every table entry that are not as in the live run.
        compared: whether the live run left counters and tables to compare with.
    """

    node: int
    replayed: Replayed | None
    differences: list[str]
    compared: bool


def replay_run(run_dir: Path, nodes: Iterable[int]) -> Iterator[Verdict]:
    """Replays routers of a run; holds answers, final counters and final tables against the live run's.

    Raises:
        RunFolderError: the run's counters or tables are malformed.
    """
    run = RunLayout(run_dir)
    counters = read_routers_counters(run) if run.routers_counters.exists() else {}
    tables = _tables(run)
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


def _tables(run: RunLayout) -> dict[int, tuple[Row, ...]]:
    """Node -> rows of its table; empty if the run kept no tables."""
    try:
        return {
            node: tuple(
                Row(row["interface"], row["scope"], parse_predicate(row["predicate"])) for row in rows
            )
            for node, rows in read_routing_tables(run).items()
        }
    except ParseError as error:
        raise RunFolderError(f"{run.routing_tables}: {error}") from error


def _table_differences(replayed: Iterable[Row], live: Iterable[Row]) -> list[str]:
    """The rows that two tables do not share."""
    rows = {(row.interface, row.scope): row for row in replayed}
    others = {(row.interface, row.scope): row for row in live}
    different = [key for key in {**rows, **others} if rows.get(key) != others.get(key)]
    return [
        f"{_place(interface, scope)}: the table at the end is another"
        for interface, scope in sorted(different, key=lambda key: (-1 if key[0] is None else key[0], key[1]))
    ]


def _place(interface: int | None, scope: str) -> str:
    """A row of a table, in words."""
    named = [] if interface is None else [f"interface {interface}"]
    return ", ".join([*named, *([scope] if scope else [])])


def _counter_differences(router: Router, live: dict[str, Any]) -> list[str]:
    """What the core counts; the link's counters are not its own, but share `dropped` with it."""
    found = [
        f"{name}: live {live.get(name)}, replayed {count}"
        for name, count in router.counters.as_dict().items()
        if live.get(name) != count
    ]
    dropped, again = live.get("dropped", {}), router.counters.dropped
    # Reasons why something does not decode are the link's as well.
    found += [
        f"dropped {reason}: live {dropped.get(reason, 0)}, replayed {again.get(reason, 0)}"
        for reason in sorted({*Drop, *again})
        if dropped.get(reason, 0) != again.get(reason, 0)
    ]
    return found
