"""Filters of `ifconfig` statements, as columns, in whatever order they come."""

from __future__ import annotations

from array import array

import numpy as np

from router.matching.common.columns import ColumnsBuilder, ConstraintColumns
from router.predicates.model import Constraint

#: A constraint without its name: type, operator and value as `ConstraintColumns` has them.
Coded = tuple[int, int, int]


class FilterCollector(ColumnsBuilder):
    """Collects filters, constraint by constraint, until they are taken.

    Names and strings keep their numbers beyond that.
    """

    def clear(self) -> None:
        """Drops what was collected."""
        self._interface, self._start = array("i"), array("q", [0])
        self._name, self._type, self._operator, self._value = array("i"), array("B"), array("B"), array("q")

    def __len__(self) -> int:
        """How many filters there are."""
        return len(self._interface)

    @property
    def constraints(self) -> int:
        """How many constraints there are."""
        return len(self._name)

    def name_number(self, name: str) -> int:
        """The index of an attribute name."""
        return self._names.setdefault(name, len(self._names))

    def coded(self, constraint: Constraint) -> Coded:
        """A constraint as numbers."""
        value = constraint.value
        return constraint.type, constraint.operator, 0 if value is None else self._as_number(value)

    def add_constraint(self, name: int, coded: Coded) -> None:
        """One more constraint of the filter that is being collected."""
        kind, operator, value = coded
        self._name.append(name)
        self._type.append(kind)
        self._operator.append(operator)
        self._value.append(value)

    def end_filter(self, interface: int) -> None:
        """The constraints added since the last one are a filter of this interface."""
        self._interface.append(interface)
        self._start.append(len(self._name))

    def take(self) -> ConstraintColumns:
        """What was collected, filters of one interface in the order in which they came; begins anew."""
        table = self.build()
        self.clear()
        return table if (np.diff(table.interface) >= 0).all() else _in_order(table)


def _in_order(table: ConstraintColumns) -> ConstraintColumns:
    """The same filters in ascending order of their interfaces."""
    order = np.argsort(table.interface, kind="stable")
    sizes = np.diff(table.start)[order]
    start = np.concatenate(([0], np.cumsum(sizes)))
    source = np.repeat(table.start[:-1][order] - start[:-1], sizes) + np.arange(start[-1])
    return ConstraintColumns(
        table.interface[order],
        start,
        table.name[source],
        table.type[source],
        table.operator[source],
        table.value[source],
        table.names,
        table.strings,
    )
