"""Files of tables and messages: the Siena Fast Forwarding driver's language, and JSON lines.

Both are written in batches of a few megabytes of text. A JSON line is
``{"interface": n, "filter": [[name, type, operator, value], ...]}`` (the predicate of an interface is the
disjunction of its filters, which follow one another) or ``{"attributes": {name: value, ...}}``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import starmap
from typing import TextIO

from router.matching.columns import ConstraintColumns, number_value
from router.predicates import SYMBOLS, Message, Operator, Type
from testbed.experiments.siena_ff import driver_name, driver_value

#: Number of filters, or messages, in a batch.
_BATCH = 20_000
#: Called with the number of filters and messages written so far.
Report = Callable[[int], None]


def write_driver(table: ConstraintColumns, messages: Iterable[Message], out: TextIO, report: Report) -> None:
    """Writes `ifconfig` statements, one filter a line; `consolidate`; `select` statements."""
    names = [driver_name(name.decode()) for name in table.names]
    values = [driver_value(value.decode()) for value in table.strings]
    operators = {int(o): f" {symbol} " for o, symbol in SYMBOLS.items()}
    types = {int(kind): kind.name.lower() for kind in Type}

    def constraint(name: int, kind: int, operator: int, value: int) -> str:
        if operator == Operator.ANY:
            return f"{names[name]} any {types[kind]}"
        if kind == Type.STRING:
            return names[name] + operators[operator] + values[value]
        return names[name] + operators[operator] + driver_value(number_value(kind, value))

    previous = None
    for lines in _filters(table, constraint, report):
        pieces = []
        for interface, constraints in lines:
            if interface != previous:
                pieces.append(f"ifconfig {interface} " if previous is None else f";\nifconfig {interface} ")
                previous = interface
            else:
                pieces.append("\n| ")
            pieces.append(", ".join(constraints) or "*")
        out.write("".join(pieces))
    out.write(";\nconsolidate;\n" if previous is not None else "consolidate;\n")

    for number, message in enumerate(messages, start=len(table.interface) + 1):
        attributes = " ".join(f"{driver_name(name)} = {driver_value(v)}" for name, v in message.items())
        out.write(f"select {attributes};\n")
        if number % _BATCH == 0:
            report(number)


def write_json(table: ConstraintColumns, messages: Iterable[Message], out: TextIO, report: Report) -> None:
    """Writes a line for each filter, then a line for each message."""
    names = [_json(name.decode()) for name in table.names]
    values = [_json(value.decode()) for value in table.strings]
    types = {int(kind): _json(kind.name.lower()) for kind in Type}
    operators = {int(o): _json(symbol) for o, symbol in SYMBOLS.items()}

    def constraint(name: int, kind: int, operator: int, value: int) -> str:
        if operator == Operator.ANY:
            text = "null"
        else:
            text = values[value] if kind == Type.STRING else _json(number_value(kind, value))
        return f"[{names[name]},{types[kind]},{operators[operator]},{text}]"

    for lines in _filters(table, constraint, report):
        out.write(
            "".join(
                f'{{"interface":{interface},"filter":[{",".join(constraints)}]}}\n'
                for interface, constraints in lines
            )
        )
    for number, message in enumerate(messages, start=len(table.interface) + 1):
        out.write(f'{{"attributes":{_json(message)}}}\n')
        if number % _BATCH == 0:
            report(number)


def _filters(
    table: ConstraintColumns, constraint: Callable[[int, int, int, int], str], report: Report
) -> Iterator[list[tuple[int, list[str]]]]:
    """Batches of filters: the interface of each, and the texts of its constraints."""
    for first in range(0, len(table.interface), _BATCH):
        bounds = table.start[first : first + _BATCH + 1]
        part = slice(int(bounds[0]), int(bounds[-1]))
        columns = (table.name, table.type, table.operator, table.value)
        texts = list(starmap(constraint, zip(*(column[part].tolist() for column in columns), strict=True)))
        ends = (bounds - bounds[0]).tolist()
        yield [
            (interface, texts[begin:end])
            for interface, begin, end in zip(
                table.interface[first : first + _BATCH].tolist(), ends, ends[1:], strict=False
            )
        ]
        report(first + len(ends) - 1)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
