"""The texts of SQL in `captures/accounting/sql`: each makes one table or step, on either engine.

A text is named after what it makes, and begins with a comment of what a row is. What it reads are the names
after `from` and `join` that it does not define itself: other texts, or inputs of `captures.accounting.steps`.
A text says of a run:

- `$name`: a value of `captures.accounting.steps.values`, as a literal;
- `experiment_s(time_ns)`: the experiment second of a time, ns since 1970 UTC;
- `bin_wall_s(second)`: the wall seconds of the time bin that begins at an experiment second.

To add a table: a text, and a row in `captures.tables.catalogue`. Both engines must give the same bits: a sum
of whole numbers is cast to bigint, numbers that are not whole are never summed, and an order names columns
until it is total.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path

from captures.accounting.times import experiment_seconds, wall_seconds
from captures.rundir.clock import Clock

_FOLDER = Path(__file__).with_name("sql")
_COMMENT = re.compile(r"--[^\n]*")
_READ = re.compile(r"\b(?:from|join)\s+(\w+)")
_DEFINED = re.compile(r"(?:\bwith(?:\s+recursive)?|,)\s+(\w+)\s+as\s*\(")
_VALUE = re.compile(r"\$(\w+)")
_TIME = re.compile(r"\b(experiment_s|bin_wall_s)\(([^()]+)\)")


@cache
def texts() -> dict[str, str]:
    """Every text, by name."""
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(_FOLDER.glob("*.sql"))}


def reads(text: str) -> frozenset[str]:
    """The names of the tables that a text reads."""
    code = _COMMENT.sub("", text)
    return frozenset(_READ.findall(code)) - frozenset(_DEFINED.findall(code))


def in_order(names: Iterable[str], read_by: Callable[[str], Iterable[str]]) -> list[str]:
    """The names that `names` need, themselves included, each after all that it reads.

    Args:
        read_by: name -> the names that it reads directly.
    """
    ordered: dict[str, None] = {}

    def add(name: str) -> None:
        if name not in ordered:
            for read in sorted(read_by(name)):
                add(read)
            ordered[name] = None

    for name in names:
        add(name)
    return list(ordered)


def written_out(text: str, clock: Clock, values: Mapping[str, str]) -> str:
    """A text for the engines: with the values of a run, and without the functions of time.

    Raises:
        KeyError: a value is missing.
    """

    def time(found: re.Match[str]) -> str:
        function, column = found.groups()
        if function == "experiment_s":
            return experiment_seconds(clock, column)
        return wall_seconds(clock, column, float(values["bin_s"]))

    code = _TIME.sub(time, _COMMENT.sub("", text))
    return _VALUE.sub(lambda found: values[found[1]], code)
