"""The routing tables of all routers at the end of a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, NotRequired, TypedDict, TypeVar, cast

from captures.rundir.files import RunFolderError, as_object, key_number, read_object, written_whole
from captures.rundir.layout import RunLayout
from captures.rundir.records import RunFile, check
from router.predicates.model import Predicate
from router.predicates.parser import parse_predicate
from router.wire import private
from router.wire.format import FrameType

_T = TypeVar("_T")


class TableRow(TypedDict):
    """A row of a routing table (`router.protocol.scheme.Row`)."""

    interface: Annotated[
        int | None,
        "interface that messages leave by; 0: the local applications; null: the row is about no single "
        "interface",
    ]
    scope: Annotated[str, "the messages that the row is about, in words; empty: all messages"]
    predicate: Annotated[str, "predicate of the messages that leave there, in the readable notation"]
    encoded: NotRequired[
        Annotated[str, "an encoded predicate: the TLVs of an XRA in hexadecimal; `predicate` is a note"]
    ]
    part: NotRequired[
        Annotated[
            str,
            "`local`: p0; `forwarding`: what messages are matched against; `rib`: predicates of other nodes, "
            "kept beside the forwarding state that is made of them",
        ]
    ]
    sources: NotRequired[
        Annotated[list[int] | None, "sources of the messages that the row is about; null: all"]
    ]
    copies: NotRequired[
        Annotated[bool, "whether the table holds the predicate for each of the sources separately"]
    ]


FILE = RunFile(
    lambda run: [run.routing_tables],
    "The table of every router at the end: a list of rows by node, as text. Rows with an empty predicate are "
    "left out.",
    (("", TableRow),),
)


def predicate_of(row: TableRow) -> Predicate:
    """The predicate of a row.

    Raises:
        ValueError: it is malformed.
    """
    if "encoded" in row:
        return private.decode_predicate(FrameType.XRA, bytes.fromhex(row["encoded"]))
    return parse_predicate(row["predicate"])


def by_predicate(function: Callable[[Predicate], _T]) -> Callable[[TableRow], _T]:
    """Returns a function that applies `function` to the predicate of a row.

    Rows with equal text and equal encoding share one call, since the predicate of a node is in the tables of
    many routers. Results live as long as the returned function. The returned function raises ValueError if a
    predicate is malformed, each time.
    """
    found: dict[tuple[str | None, str], _T] = {}

    def of_row(row: TableRow) -> _T:
        key = row.get("encoded"), row["predicate"]
        if key not in found:
            found[key] = function(predicate_of(row))
        return found[key]

    return of_row


def read_routing_tables(run: RunLayout) -> dict[int, list[TableRow]]:
    """Reads the rows by node; empty if the run kept no tables.

    Raises:
        RunFolderError: the file is malformed.
    """
    path = run.routing_tables
    if not path.exists():
        return {}
    found: dict[int, list[TableRow]] = {}
    for name, rows in read_object(path).items():
        own = found[key_number(path, name)] = []
        if not isinstance(rows, list):
            raise RunFolderError(f"{path}: node {name}: {rows!r}; expected a list of rows")
        for position, row in enumerate(rows):
            where = f"{path}: node {name}: row {position}"
            check(TableRow, where, as_object(where, row))
            own.append(cast("TableRow", row))
    return found


def write_routing_tables(run: RunLayout, tables: Iterable[tuple[int, Iterable[Mapping[str, Any]]]]) -> None:
    """Writes the rows by node whole or not at all; no more than the rows of one node are in memory."""
    with written_whole(run.routing_tables) as file:
        before = "{"
        for node, rows in tables:
            lines = ",\n".join(map(json.dumps, rows))
            file.write(f'{before}\n"{node}": [\n{lines}\n]')
            before = ","
        file.write("\n}\n" if before == "," else "{}\n")
