"""Filters of `ifconfig` statements, as columns, in whatever order they come."""

from __future__ import annotations

from array import array

import numpy as np

from router.matching.columns import ConstraintColumns

#: A constraint without its name: type, operator and value as `ConstraintColumns` has them.
Coded = tuple[int, int, int]


class FilterCollector:
    """Collects filters until they are taken. Names and strings keep their numbers beyond that."""

    def __init__(self) -> None:
        #: Text -> index in the columns' `names` and `strings`.
        self.names: dict[str, int] = {}
        self.strings: dict[str, int] = {}
        self.clear()

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

    def add(self, name: int, coded: Coded) -> None:
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
        interface, start = np.array(self._interface, np.int32), np.array(self._start, np.int64)
        name, kind = np.array(self._name, np.int32), np.array(self._type, np.uint8)
        operator, value = np.array(self._operator, np.uint8), np.array(self._value, np.int64)
        self.clear()
        if (np.diff(interface) < 0).any():
            order = np.argsort(interface, kind="stable")
            sizes = np.diff(start)[order]
            sorted_start = np.concatenate(([0], np.cumsum(sizes)))
            source = np.repeat(start[:-1][order] - sorted_start[:-1], sizes) + np.arange(sorted_start[-1])
            interface, start = interface[order], sorted_start
            name, kind, operator, value = name[source], kind[source], operator[source], value[source]
        return ConstraintColumns(
            interface,
            start,
            name,
            kind,
            operator,
            value,
            [text.encode() for text in self.names],
            [text.encode() for text in self.strings],
        )
