"""The routing tables of all routers at the end of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Annotated, Any, NotRequired, TypedDict, TypeVar

from captures.rundir import RunLayout
from captures.rundir.files import Document
from router.predicates import Predicate
from router.predicates.parser import parse_predicate
from router.records.json_file import to_json, written_whole
from router.wire import private
from router.wire.format import FrameType

_T = TypeVar("_T")


class TableRow(TypedDict):
    """A row of a routing table (`router.protocol.schemes.Row`)."""

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


ROUTING_TABLES = Document(
    lambda run: [run.routing_tables],
    "The table of every router at the end: a list of rows by node, as text. Rows with an empty predicate are "
    "left out.",
    (("", TableRow),),
    form=dict[int, list[TableRow]],
    optional=True,
)


def predicate_of(row: TableRow) -> Predicate:
    """The predicate of a row.

    Raises:
        ValueError: it is malformed.
    """
    return _predicate(row["predicate"], row.get("encoded"))


def _predicate(text: str, encoded: str | None) -> Predicate:
    if encoded is None:
        return parse_predicate(text)
    return private.decode_predicate(FrameType.XRA, bytes.fromhex(encoded))


def by_predicate(function: Callable[[Predicate], _T]) -> Callable[[TableRow], _T]:
    """Returns a function that applies `function` to the predicate of a row.

    Rows with equal text and equal encoding share one call, since the predicate of a node is in the tables of
    many routers. Results live as long as the returned function. The returned function raises ValueError if a
    predicate is malformed, each time.
    """
    of_texts = cache(lambda text, encoded: function(_predicate(text, encoded)))
    return lambda row: of_texts(row["predicate"], row.get("encoded"))


def write_routing_tables(run: RunLayout, tables: Iterable[tuple[int, Iterable[Mapping[str, Any]]]]) -> None:
    """Writes the rows by node whole or not at all; no more than the rows of one node are in memory."""
    with written_whole(run.routing_tables) as file:
        before = b"{"
        for node, rows in tables:
            lines = b",\n".join(map(to_json, rows))
            file.write(b'%b\n"%d": [\n%b\n]' % (before, node, lines))
            before = b","
        file.write(b"\n}\n" if before == b"," else b"{}\n")
