"""What applications did and what the oracle says, as Arrow tables for the accounting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from captures.rundir import RunFolder, RunFolderError

APPLICATIONS = "logs/applications.jsonl"
ORACLE = "oracle.jsonl"
_MESSAGE = [("source", pa.int32()), ("seq", pa.int64())]
SENT = pa.schema([*_MESSAGE, ("sent_ns", pa.int64())])
DELIVERIES = pa.schema([*_MESSAGE, ("node", pa.int32()), ("app", pa.string())])
ORACLE_ANSWERS = pa.schema(
    [
        *_MESSAGE,
        ("sent_ns", pa.int64()),
        ("node", pa.int32()),
        ("app", pa.string()),
        ("expected", pa.bool_()),
        ("decided", pa.bool_()),
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
        sent, deliveries: tables with the columns of `SENT` and `DELIVERIES`.
        first_predicates: of each node that set one.
        last_ns: time of the last event (0: there is none).
    """

    sent: pa.Table
    deliveries: pa.Table
    first_predicates: Mapping[int, FirstPredicate]
    last_ns: int


def signed64(number: int) -> int:
    """An unsigned 64-bit number as the signed one with the same bits: Spark has no unsigned type."""
    return number - 2**64 if number >= 2**63 else number


def read_applications(run: RunFolder) -> ApplicationLog:
    """Raises RunFolderError, naming file and line, where a line lacks what its event needs."""
    sent: list[tuple[Any, ...]] = []
    deliveries: list[tuple[Any, ...]] = []
    first: dict[int, FirstPredicate] = {}
    last_ns = 0
    for where, line in run.lines(APPLICATIONS):
        with _needing(where):
            event, node = line["event"], line["node"]
            last_ns = max(last_ns, line["t_ns"])
            if event == "deliver":
                deliveries.append((line["source"], signed64(line["seq"]), node, line["app"]))
            elif event == "send_message":
                sent.append((line["source"], signed64(line["seq"]), line["requested_ns"]))
            elif event == "set_predicate" and line["filters"]:
                found = FirstPredicate(line["requested_ns"], line["t_ns"])
                if node not in first or found.requested_ns < first[node].requested_ns:
                    first[node] = found
    with _needing(str(run.path / APPLICATIONS)):
        return ApplicationLog(_table(sent, SENT), _table(deliveries, DELIVERIES), first, last_ns)


def read_oracle(run: RunFolder) -> pa.Table:
    """The table of `ORACLE_ANSWERS`. Raises RunFolderError as `read_applications`."""
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
        return _table(rows, ORACLE_ANSWERS)


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
