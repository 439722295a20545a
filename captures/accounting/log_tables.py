"""What applications did and what the oracle says, as Arrow tables for the accounting."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from captures.rundir.clock import Clock
from captures.rundir.epochs import CONTROLLER
from captures.rundir.folder import RunFolder, RunFolderError
from captures.tables.catalogue import TABLES
from router.predicates.model import Message
from router.predicates.printer import format_message

APPLICATIONS = "logs/applications.jsonl"
ORACLE = "oracle.jsonl"
ROUTING_TABLES = "logs/tables.json"
_MESSAGE = [("source", pa.int32()), ("seq", pa.int64())]
SENT = pa.schema([*_MESSAGE, ("sent_ns", pa.int64()), ("message", pa.string())])
DELIVERIES = pa.schema([*_MESSAGE, ("node", pa.int32()), ("app", pa.string()), ("t_ns", pa.int64())])
DECLARED = pa.schema(
    [
        *(("node", pa.int32()), ("app", pa.string()), ("t_ns", pa.int64()), ("predicate", pa.string())),
        ("filters", pa.int32()),
    ]
)
OPENING = pa.schema([("node", pa.int32()), ("requested_ns", pa.int64())])


@dataclass(frozen=True, slots=True)
class FirstPredicate:
    """A node's first predicate: when it was asked for, and when its router had confirmed it (ns)."""

    requested_ns: int
    confirmed_ns: int


@dataclass(frozen=True, slots=True)
class ApplicationLog:
    """logs/applications.jsonl.

    Attributes:
        sent, deliveries, declared: tables with the columns of `SENT`, `DELIVERIES` and `DECLARED` (one row
            a predicate that a router confirmed; 0 filters withdraw it).
        first_predicates: of each node that set one.
        last_ns: time of the last event (0: there is none).
    """

    sent: pa.Table
    deliveries: pa.Table
    declared: pa.Table
    first_predicates: Mapping[int, FirstPredicate]
    last_ns: int
    _events: Sequence[tuple[Any, ...]] = ()

    def events(self, clock: Clock) -> pa.Table:
        """Every event, as the table `applications`."""
        return _table(
            [(clock.experiment_s(event[0]), *event) for event in self._events], TABLES["applications"].schema
        )


def signed64(number: int) -> int:
    """An unsigned 64-bit number as the signed one with the same bits: Spark has no unsigned type."""
    return number - 2**64 if number >= 2**63 else number


def read_applications(run: RunFolder) -> ApplicationLog:
    """Raises RunFolderError, naming file and line, where a line lacks what its event needs."""
    sent: list[tuple[Any, ...]] = []
    deliveries: list[tuple[Any, ...]] = []
    declared: list[tuple[Any, ...]] = []
    events: list[tuple[Any, ...]] = []
    first: dict[int, FirstPredicate] = {}
    last_ns = 0
    for where, line in run.lines(APPLICATIONS):
        with _needing(where):
            event, node, app, t_ns = line["event"], line["node"], line["app"], line["t_ns"]
            last_ns = max(last_ns, t_ns)
            message: tuple[int | None, int | None] = (None, None)
            text = None
            if event in ("deliver", "send_message"):
                message = (line["source"], signed64(line["seq"]))
            if event == "deliver":
                deliveries.append((*message, node, app, t_ns))
            elif event == "send_message":
                text = format_message(Message(line["attributes"]))
                sent.append((*message, line["requested_ns"], text))
            elif event == "set_predicate":
                text = line["predicate"]
                declared.append((node, app, t_ns, text, len(line["filters"])))
                found = FirstPredicate(line["requested_ns"], t_ns)
                if line["filters"] and (node not in first or found.requested_ns < first[node].requested_ns):
                    first[node] = found
            events.append((t_ns, line.get("requested_ns"), node, app, event, *message, text))
    with _needing(str(run.path / APPLICATIONS)):
        return ApplicationLog(
            *(_table(sent, SENT), _table(deliveries, DELIVERIES), _table(declared, DECLARED)),
            first,
            last_ns,
            events,
        )


def read_controller(run: RunFolder, clock: Clock) -> pa.Table:
    """The controller's log as the table `controller`.

    Raises RunFolderError as `read_applications`; without a log, the table is empty.
    """
    rows: list[tuple[Any, ...]] = []
    if (run.path / CONTROLLER).exists():
        for where, line in run.lines(CONTROLLER):
            with _needing(where):
                rest = dict(line)
                t_ns, event = rest.pop("t_ns"), rest.pop("event")
                columns = [rest.pop(name, None) for name in ("epoch", "node", "u", "v")]
                details = json.dumps(rest) if rest else None
                rows.append((clock.experiment_s(t_ns), t_ns, event, *columns, details))
    with _needing(str(run.path / CONTROLLER)):
        return _table(rows, TABLES["controller"].schema)


def read_routing_tables(run: RunFolder) -> pa.Table:
    """The routers' tables at the end of the run as the table `routing_tables`; empty if they were not kept.

    Raises RunFolderError as `read_applications`.
    """
    document = run.routing_tables()
    with _needing(str(run.path / ROUTING_TABLES)):
        return _table(
            [
                (int(node), row["interface"], row["scope"], row["predicate"])
                for node, rows in document.items()
                for row in rows
            ],
            TABLES["routing_tables"].schema,
        )


def read_oracle(run: RunFolder) -> pa.Table:
    """The oracle's answers as the table `oracle`. Raises RunFolderError as `read_applications`."""
    rows = []
    for where, line in run.lines(ORACLE):
        with _needing(where):
            rows.append(
                (
                    line["source"],
                    signed64(line["seq"]),
                    line["sent_ns"],
                    line["node"],
                    line["app"],
                    line["expected"],
                    line["decided"],
                )
            )
    with _needing(str(run.path / ORACLE)):
        return _table(rows, TABLES["oracle"].schema)


def opening_predicates(
    log: ApplicationLog, workload: Sequence[Mapping[str, Any]]
) -> dict[int, FirstPredicate]:
    """The first predicates of the nodes that the workload has set one at its earliest set_predicate.

    Without a workload, of all nodes that set one.
    """
    items = [item for item in workload if item.get("action") == "set_predicate"]
    if not items:
        return dict(log.first_predicates)
    earliest = min(item["at_s"] for item in items)
    nodes = {item["node"] for item in items if item["at_s"] == earliest}
    return {node: first for node, first in log.first_predicates.items() if node in nodes}


def opening_table(opening: Mapping[int, FirstPredicate]) -> pa.Table:
    """The table of `OPENING`."""
    return _table([(node, first.requested_ns) for node, first in sorted(opening.items())], OPENING)


def _table(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns: Sequence[Sequence[Any]] = list(zip(*rows, strict=True)) or [() for _ in schema]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


@contextmanager
def _needing(where: str) -> Iterator[None]:
    try:
        yield
    except KeyError as error:
        raise RunFolderError(f"{where}: no field {error}") from error
    except (TypeError, ValueError, OverflowError, pa.ArrowException) as error:
        raise RunFolderError(f"{where}: a field of the wrong type: {error}") from error
