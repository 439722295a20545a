"""The texts of SQL in `captures/accounting/sql`: each makes one table or step, on either engine.

A text is named after what it makes, and begins with a comment of what a row is. What it reads are the names
after `from` and `join` that it does not define itself: other texts, or inputs of `captures.accounting.steps`.
A text says of a run:

- `$name`: a value of `captures.accounting.steps.values`, as a literal;
- `experiment_s(time_ns)`: the experiment second of a time, ns since 1970 UTC;
- `bin_wall_s(second)`: the wall seconds of the time bin that begins at an experiment second;
- `incarnation(seq)`, `number(seq)`: the high and the low 32 bits of a sequence number.

To add a table: a text, and a row in `captures.tables`. Both engines must give the same bits: a sum
of whole numbers is cast to bigint, numbers that are not whole are never summed, and an order names columns
until it is total.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files

from captures.rundir.clock import Clock
from router.clock import NS

#: Window of the paper's figures 12 to 14, and the step by which it moves; experiment seconds.
WINDOW_S, STEP_S = 120.0, 2.0
_LOW_BITS = (1 << 32) - 1
_COMMENT = re.compile(r"--[^\n]*")
_READ = re.compile(r"\b(?:from|join)\s+(\w+)\b(?!\s*\()")
_DEFINED = re.compile(r"(?:\bwith(?:\s+recursive)?|,)\s+(\w+)\s+as\s*\(")
_VALUE = re.compile(r"\$(\w+)")
_FUNCTION = re.compile(r"\b(experiment_s|bin_wall_s|incarnation|number)\(([^()]+)\)")


@cache
def texts() -> dict[str, str]:
    """Every text, by name."""
    # A worker of a cluster has the package in an archive.
    found = {each.name.removesuffix(".sql"): each for each in files(__package__).joinpath("sql").iterdir()}
    return {name: found[name].read_text(encoding="utf-8") for name in sorted(found)}


def code_of(text: str) -> str:
    """A text without its comments."""
    return _COMMENT.sub("", text)


def reads(text: str) -> frozenset[str]:
    """The names of the tables that a text reads."""
    code = code_of(text).lower()
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
    """A text for the engines: with the values of a run, and without the functions of texts.

    Raises:
        KeyError: a value is missing.
    """

    def expression(found: re.Match[str]) -> str:
        function, given = found.groups()
        match function:
            case "experiment_s":
                return experiment_seconds(clock, given)
            case "bin_wall_s":
                return wall_seconds(clock, given, float(values["bin_s"]))
            case "incarnation":
                return f"(({given} >> 32) & {_LOW_BITS})"
        return f"({given} & {_LOW_BITS})"

    code = _FUNCTION.sub(expression, code_of(text))
    return _VALUE.sub(lambda found: values[found[1]], code)


def experiment_seconds(clock: Clock, time_ns: str) -> str:
    """Returns the experiment second at a wall time (ns since 1970 UTC), as an SQL expression.

    The operations and their order are those of `router.clock.Piece`, so that each engine computes the
    double that `Clock.experiment_at` returns.
    """
    return _of_pieces(
        time_ns,
        [str(piece.start_ns) for piece in clock.pieces],
        [
            f"({time_ns} - {piece.start_ns}) * {double(piece.rate)} / {double(NS)}"
            f" + {double(piece.experiment_s)}"
            for piece in clock.pieces
        ],
    )


def wall_seconds(clock: Clock, from_s: str, length_s: float) -> str:
    """Returns the wall seconds that `length_s` experiment seconds last from a second on, as SQL."""
    if len(clock.pieces) == 1:
        return double(length_s / clock.pieces[0].rate)

    def wall(experiment_s: str) -> str:
        return _of_pieces(
            experiment_s,
            [double(piece.experiment_s) for piece in clock.pieces],
            [
                f"({experiment_s} - {double(piece.experiment_s)}) / {double(piece.rate)}"
                f" + {double((piece.start_ns - clock.start_ns) / NS)}"
                for piece in clock.pieces
            ],
        )

    return f"({wall(f'({from_s} + {double(length_s)})')} - {wall(from_s)})"


def double(value: float) -> str:
    """Returns a number as SQL.

    Of a number without an exponent, engines make a decimal number, which they round a second time.
    """
    text = f"{float(value):.16e}"
    return f"({text})" if value < 0 else text


def _of_pieces(value: str, starts: Sequence[str], of_piece: Sequence[str]) -> str:
    """Returns the expression of the last piece that starts at or before a value: a binary search."""
    if len(of_piece) == 1:
        return f"({of_piece[0]})"
    middle = len(of_piece) // 2
    before = _of_pieces(value, starts[:middle], of_piece[:middle])
    after = _of_pieces(value, starts[middle:], of_piece[middle:])
    return f"(case when {value} < {starts[middle]} then {before} else {after} end)"
