"""Collects the filters of `ifconfig` statements, in any order of interfaces, as columns."""

from __future__ import annotations

from array import array
from dataclasses import replace
from itertools import product

import numpy as np
import numpy.typing as npt

from router.matching.columns import ColumnsBuilder, ConstraintColumns
from router.predicates.model import Constraint, Operator, Type

#: Attributes of any type that a filter may require: it stands for 4 filters for each of them.
MOST_EXISTENCES = 4
#: A constraint without its name: type, operator and value as in `ConstraintColumns`.
Coded = tuple[int, int, int]


class FilterCollector(ColumnsBuilder):
    """Collects filters constraint by constraint, until `take`.

    Names and strings keep their numbers after `take`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._existing: set[int] = set()

    def clear(self) -> None:
        """Removes all collected filters."""
        self._interface, self._start = array("i"), array("q", [0])
        self._name, self._type, self._operator, self._value = array("i"), array("B"), array("B"), array("q")
        self._existing.clear()

    def __len__(self) -> int:
        """Returns the number of collected filters."""
        return len(self._interface)

    @property
    def constraints(self) -> int:
        """The number of collected constraints."""
        return len(self._name)

    def name_number(self, name: str) -> int:
        """Returns the index of an attribute name."""
        return self._names.setdefault(name, len(self._names))

    def coded(self, constraint: Constraint) -> Coded:
        """Returns a constraint as numbers."""
        value = constraint.value
        return constraint.type, constraint.operator, 0 if value is None else self._as_number(value)

    def add_constraint(self, name: int, coded: Coded) -> None:
        """Adds a constraint to the current filter."""
        kind, operator, value = coded
        self._name.append(name)
        self._type.append(kind)
        self._operator.append(operator)
        self._value.append(value)

    def add_existence(self, name: int) -> None:
        """Adds the existence of an attribute of any type to the current filter.

        Raises:
            ValueError: the filter would stand for too many filters.
        """
        if len(self._existing | {name}) > MOST_EXISTENCES:
            raise ValueError(f"expected at most {MOST_EXISTENCES} times 'any any' in a filter")
        self._existing.add(name)

    def end_filter(self, interface: int) -> None:
        """Ends the current filter, which belongs to this interface.

        The constraints of the model have a type: a filter with the existence of attributes of any type
        becomes a filter for each combination of types.
        """
        if self._existing:
            self._expand(interface)
            return
        self._interface.append(interface)
        self._start.append(len(self._name))

    def _expand(self, interface: int) -> None:
        start = self._start[-1]
        # A constraint on an attribute holds only where the attribute exists.
        names = sorted(self._existing - set(self._name[start:]))
        self._existing.clear()
        columns = (self._name, self._type, self._operator, self._value)
        common = [column[start:] for column in columns]
        for column in columns:
            del column[start:]
        for kinds in product(Type, repeat=len(names)):
            for column, values in zip(columns, common, strict=True):
                column.extend(values)
            for name, kind in zip(names, kinds, strict=True):
                self.add_constraint(name, (kind, Operator.ANY, 0))
            self.end_filter(interface)

    def take(self) -> ConstraintColumns:
        """Returns and removes the collected filters; those of one interface are in order of collection."""
        table = self.build()
        self.clear()
        in_order = bool((np.diff(table.interface) >= 0).all())
        return table if in_order else chosen(table, np.argsort(table.interface, kind="stable"))


def chosen(table: ConstraintColumns, rows: npt.NDArray[np.int64]) -> ConstraintColumns:
    """Returns some filters of a table, in another order."""
    sizes = np.diff(table.start)[rows]
    start = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    # The places of the constraints of each filter, in the new order of the filters.
    places = np.repeat(table.start[:-1][rows] - start[:-1], sizes) + np.arange(start[-1])
    return replace(
        table,
        interface=table.interface[rows],
        start=start,
        **{each: getattr(table, each)[places] for each in ("name", "type", "operator", "value")},
    )
