"""Tables of predicates as columns: the form in which large tables are generated, parsed and indexed.

Five million constraints take minutes and gigabytes as Python objects; as arrays they take seconds, and 20
bytes each.
"""

from __future__ import annotations

import struct
from array import array
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from router.predicates import Constraint, Filter, Operator, Predicate, Type, Value

_DOUBLE = struct.Struct("<d")
_BITS = struct.Struct("<q")


@dataclass(frozen=True, slots=True)
class ConstraintColumns:
    """F filters of any number of interfaces, with C constraints in all.

    Attributes:
        interface: int32 [F], the interface of each filter, in ascending order.
        start: int64 [F + 1], filter f has the constraints start[f] to start[f + 1] - 1.
        name: int32 [C], index into `names`.
        type: uint8 [C], `router.predicates.Type`.
        operator: uint8 [C], `router.predicates.Operator`.
        value: int64 [C]; an integer itself, a boolean as 0 or 1, the bit pattern of a double, the index of a
            string in `strings`; 0 for the operator `any`.
        names: the distinct names, UTF-8.
        strings: the distinct strings, UTF-8.
    """

    interface: npt.NDArray[np.int32]
    start: npt.NDArray[np.int64]
    name: npt.NDArray[np.int32]
    type: npt.NDArray[np.uint8]
    operator: npt.NDArray[np.uint8]
    value: npt.NDArray[np.int64]
    names: list[bytes]
    strings: list[bytes]

    @property
    def filters(self) -> int:
        return len(self.interface)

    @property
    def constraints(self) -> int:
        return len(self.name)


class ColumnsBuilder:
    """Builds `ConstraintColumns` from filters in ascending order of their interfaces."""

    def __init__(self) -> None:
        self._interface, self._start = array("i"), array("q", [0])
        self._name, self._type, self._operator, self._value = array("i"), array("B"), array("B"), array("q")
        self._names: dict[str, int] = {}
        self._strings: dict[str, int] = {}

    def add(self, interface: int, filter_: Filter) -> None:
        """Adds a filter.

        Raises:
            ValueError: its interface is less than that of the previous filter.
        """
        if self._interface and interface < self._interface[-1]:
            raise ValueError(f"interface {interface} after {self._interface[-1]}; expected ascending order")
        self._interface.append(interface)
        names = self._names
        for constraint in filter_:
            self._name.append(names.setdefault(constraint.name, len(names)))
            self._type.append(constraint.type)
            self._operator.append(constraint.operator)
            value = constraint.value
            self._value.append(0 if value is None else self._as_number(value))
        self._start.append(len(self._name))

    def _as_number(self, value: Value) -> int:
        if isinstance(value, str):
            return self._strings.setdefault(value, len(self._strings))
        if isinstance(value, float):
            return int(_BITS.unpack(_DOUBLE.pack(value))[0])
        return int(value)

    def build(self) -> ConstraintColumns:
        """Returns the filters that were added."""
        return ConstraintColumns(
            np.array(self._interface, np.int32),
            np.array(self._start, np.int64),
            np.array(self._name, np.int32),
            np.array(self._type, np.uint8),
            np.array(self._operator, np.uint8),
            np.array(self._value, np.int64),
            [name.encode() for name in self._names],
            [string.encode() for string in self._strings],
        )


def to_predicates(columns: ConstraintColumns) -> dict[int, Predicate]:
    """Returns the predicates of a table by interface; for tables that fit into memory as objects.

    Raises:
        ValueError: a constraint is outside the model.
    """
    names = [name.decode() for name in columns.names]
    strings = [string.decode() for string in columns.strings]
    constraints = [
        Constraint(names[name], Type(kind), Operator(operator), _value(strings, kind, operator, value))
        for name, kind, operator, value in zip(
            columns.name.tolist(),
            columns.type.tolist(),
            columns.operator.tolist(),
            columns.value.tolist(),
            strict=True,
        )
    ]
    starts = columns.start.tolist()
    filters: dict[int, list[Filter]] = {}
    for number, interface in enumerate(columns.interface.tolist()):
        filters.setdefault(interface, []).append(
            Filter(tuple(constraints[starts[number] : starts[number + 1]]))
        )
    return {interface: Predicate(tuple(own)) for interface, own in filters.items()}


def _value(strings: list[str], kind: int, operator: int, number: int) -> Value | None:
    """The value of a constraint from the number in the column `value`."""
    if operator == Operator.ANY:
        return None
    return strings[number] if kind == Type.STRING else number_value(kind, number)


def number_value(kind: int, number: int) -> int | float | bool:
    """Returns the value of a type other than string from the number in the column `value`."""
    if kind == Type.DOUBLE:
        return float(_DOUBLE.unpack(_BITS.pack(number))[0])
    return bool(number) if kind == Type.BOOLEAN else number
