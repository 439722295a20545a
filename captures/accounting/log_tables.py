"""The logs of a run and the oracle's answers as Arrow tables for the accounting."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from captures.frames.bodies import attribute_maps, signed64
from captures.rundir import RunLayout, oracle
from captures.rundir.applications import read_applications
from captures.rundir.clock import Clock
from captures.rundir.controller import read_controller
from captures.rundir.files import RunFolderError
from captures.rundir.inputs import WorkloadLine
from captures.rundir.oracle import OracleAnswer
from captures.rundir.routing_tables import TableRow
from captures.tables import TABLES
from router.predicates import Message, Value
from router.predicates.printer import format_message, format_predicate

_MESSAGE = [("source", pa.int64()), ("seq", pa.int64())]
SENT = pa.schema([*_MESSAGE, ("sent_ns", pa.int64()), ("message", pa.string())])
DELIVERIES = pa.schema([*_MESSAGE, ("node", pa.int32()), ("app", pa.string()), ("t_ns", pa.int64())])
DISCARDED = pa.schema([*DELIVERIES, ("discard_cause", pa.string())])
DECLARED = pa.schema(
    [
        *(("node", pa.int32()), ("app", pa.string()), ("t_ns", pa.int64()), ("predicate", pa.string())),
        *(("filters", pa.int32()), ("requested_ns", pa.int64()), ("place", pa.int64())),
    ]
)
OPENING = pa.schema([("node", pa.int32()), ("requested_ns", pa.int64()), ("confirmed_ns", pa.int64())])


#: Of a node's first predicate, the times of the request and of the confirmation, ns since 1970 UTC.
FirstPredicate = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ApplicationTables:
    """The records of applications as tables.

    Attributes:
        sent, deliveries, lost, discarded, declared: tables with the columns of `SENT` (and `attributes`, as
            frames have them), `DELIVERIES` (two of them: messages that routers handed over, and messages that
            found the connection broken), `DISCARDED` (messages that members of a private network discarded)
            and `DECLARED` (one row for each change of an application's predicate; a predicate of 0 filters
            withdraws the last one; `place`: in the order of the records, of which two may have one time).
        first_predicates: node -> its first predicate.
        last_ns: time of the last event, ns since 1970 UTC; 0: no event.
        left: node and time, ns since 1970 UTC, of each application that has left.
        rows: every event, as in the table `applications` without its first column.
    """

    sent: pa.Table
    deliveries: pa.Table
    lost: pa.Table
    discarded: pa.Table
    declared: pa.Table
    first_predicates: Mapping[int, FirstPredicate]
    last_ns: int
    left: Sequence[tuple[int, int]]
    rows: Sequence[tuple[Any, ...]] = ()

    def events(self, clock: Clock) -> pa.Table:
        ordered = sorted(self.rows, key=lambda event: event[0])
        rows = [(clock.experiment_at(event[0]), *event) for event in ordered]
        return as_table(rows, TABLES["applications"].schema)


def application_tables(run: RunLayout) -> ApplicationTables:
    """Reads the records of applications.

    Raises:
        RunFolderError: the records are missing, or a line is malformed; names file and line.
    """
    sent: list[tuple[Any, ...]] = []
    contents: list[Mapping[str, Value]] = []
    deliveries: list[tuple[Any, ...]] = []
    lost: list[tuple[Any, ...]] = []
    discarded: list[tuple[Any, ...]] = []
    declared: list[tuple[Any, ...]] = []
    events: list[tuple[Any, ...]] = []
    first: dict[int, FirstPredicate] = {}
    last_ns = 0
    for where, recorded in read_applications(run):
        line = recorded.event
        node, app, t_ns = line["node"], line["app"], line["t_ns"]
        last_ns = max(last_ns, t_ns)
        message: tuple[int | None, int | None] = (None, None)
        requested_ns = text = None
        match line["event"]:
            case "deliver" | "lose":
                message = (line["source"], signed64(line["seq"]))
                (deliveries if line["event"] == "deliver" else lost).append((*message, node, app, t_ns))
            case "discard":
                message, text = (line["source"], signed64(line["seq"])), line["cause"]
                discarded.append((*message, node, app, t_ns, text))
            case "send_message":
                message, requested_ns = (line["source"], signed64(line["seq"])), line["requested_ns"]
                with _expecting(where):
                    text = format_message(Message(line["attributes"]))
                sent.append((*message, requested_ns, text))
                contents.append(line["attributes"])
        if recorded.change is not None:
            requested_ns, in_force = recorded.change.requested_ns, recorded.change.in_force
            text = format_predicate(in_force)
            declared.append((node, app, t_ns, text, len(in_force), requested_ns, len(declared)))
            if in_force and (node not in first or requested_ns < first[node][0]):
                first[node] = requested_ns, t_ns
        events.append((t_ns, requested_ns, node, app, line["event"], *message, text))
    with _expecting(str(run.applications_folder)):
        return ApplicationTables(
            as_table(sent, SENT).append_column("attributes", attribute_maps(contents)),
            as_table(deliveries, DELIVERIES),
            as_table(lost, DELIVERIES),
            as_table(discarded, DISCARDED),
            as_table(declared, DECLARED),
            first,
            last_ns,
            [(event[2], event[0]) for event in events if event[4] == "disconnect"],
            events,
        )


def controller_table(run: RunLayout, clock: Clock) -> pa.Table:
    """The log of the controller as the table `controller`; empty if there is none.

    Raises:
        RunFolderError: a line is malformed; names file and line.
    """
    rows: list[tuple[Any, ...]] = []
    for _, line in read_controller(run.controller_log):
        rest = dict(line)
        t_ns, event = rest.pop("t_ns"), rest.pop("event")
        columns = [rest.pop(name, None) for name in ("epoch", "node", "u", "v")]
        details = json.dumps(rest) if rest else None
        rows.append((clock.experiment_at(t_ns), t_ns, event, *columns, details))
    with _expecting(str(run.controller_log)):
        return as_table(rows, TABLES["controller"].schema)


def routing_rows(tables: Mapping[int, Sequence[TableRow]]) -> pa.Table:
    """The rows of routers by node, as the table `routing_tables`."""
    return as_table(
        [
            (node, row["interface"], row["scope"], row["predicate"], row.get("part", "forwarding"))
            for node, rows in tables.items()
            for row in rows
        ],
        TABLES["routing_tables"].schema,
    )


def oracle_table(run: RunLayout) -> pa.Table:
    """The answers of the oracle as the table `oracle`.

    Raises:
        RunFolderError: the file is missing, or a line is malformed; names file and line.
    """
    with _expecting(str(run.oracle)):
        return oracle_rows(line for _, line in oracle.ORACLE.read(run))


def oracle_rows(answers: Iterable[OracleAnswer]) -> pa.Table:
    rows = [{**line, "seq": signed64(line["seq"])} for line in answers]
    return pa.Table.from_pylist(rows, TABLES["oracle"].schema)


def opening_predicates(log: ApplicationTables, workload: Sequence[WorkloadLine]) -> dict[int, FirstPredicate]:
    """The predicates that the first wave of RAs answers: node -> its first predicate.

    The nodes are those of the earliest set_predicate of the workload; without a workload, all nodes that set
    a predicate.
    """
    items = [line for line in workload if line["action"] == "set_predicate"]
    if not items:
        return dict(log.first_predicates)
    earliest = min(line["at_s"] for line in items)
    nodes = {line["node"] for line in items if line["at_s"] == earliest}
    return {node: first for node, first in log.first_predicates.items() if node in nodes}


def as_table(rows: Iterable[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    """The table of these rows, with one chunk: Spark accepts no column without any."""
    columns: Sequence[Sequence[Any]] = list(zip(*rows, strict=True)) or [() for _ in schema]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


@contextmanager
def _expecting(where: str) -> Iterator[None]:
    """Raises errors of conversion as RunFolderError, with the place that was read."""
    try:
        yield
    except (TypeError, ValueError, OverflowError, pa.ArrowException) as error:
        raise RunFolderError(f"{where}: a field of the wrong type: {error}") from error
