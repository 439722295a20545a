"""The answers of the oracle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, TypedDict

from captures.rundir.files import read_lines, write_lines
from captures.rundir.layout import RunLayout
from captures.rundir.records import RunFile, check


class OracleAnswer(TypedDict):
    """A pair of message and application that is expected, or that the oracle leaves open."""

    source: Annotated[int, "node that originated the message"]
    seq: Annotated[int, "sequence number of the message, 64 bits, unsigned"]
    sent_ns: Annotated[
        int,
        "when the application asked to send the message, ns since 1970 UTC; when it was delivered, if its "
        "router was killed too soon to record it",
    ]
    node: Annotated[int, "node of the application that may receive"]
    app: Annotated[str, "name of that application"]
    expected: Annotated[bool, "whether the predicate in force at `sent_ns` selects the message"]
    decided: Annotated[bool, "false: a change lay so close that either outcome is right"]


FILE = RunFile(
    lambda run: [run.oracle],
    "The answers of the oracle: a line for each pair of message and application that is expected or not "
    "decided. A pair without a line is not expected, and decided.",
    (("", OracleAnswer),),
)


def read_oracle(run: RunLayout) -> Iterator[tuple[str, OracleAnswer]]:
    """Reads the answers, each after its place (FILE:LINE).

    Raises:
        RunFolderError: the file is missing, or a line is malformed.
    """
    for where, record in read_lines(run.oracle):
        yield where, check(OracleAnswer, where, record)


def write_oracle(run: RunLayout, answers: Iterable[OracleAnswer]) -> None:
    """Writes the answers whole or not at all; another process may judge the same run at the same time."""
    write_lines(run.oracle, answers)
