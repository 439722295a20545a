"""The attribute selectivity table: excludes interfaces by the attributes that a message lacks.

Source: Carzaniga and Wolf, SIGCOMM 2003 (determinant attributes), and the slides ("Selectivity Table"). An
attribute is selective for an interface if every filter of its predicate has a constraint on the attribute.
The papers compute the table when the forwarding table is built; this table is updated with each filter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable
from heapq import nlargest

from router.predicates.model import Type

#: Name and type: a constraint requires both.
Attribute = tuple[str, Type]


class SelectivityTable:
    """The attributes that are selective for each interface.

    Args:
        rounds: the number of attributes to check for a message: those that are selective for most interfaces.
    """

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds
        #: By interface: the number of filters, and of those with a constraint on each attribute.
        self._filters: Counter[int] = Counter()
        self._having: dict[int, Counter[Attribute]] = {}
        self._selective: dict[Attribute, set[int]] = {}
        self._selective_for: dict[int, list[Attribute]] = {}
        self._stale: set[int] = set()
        self._best: list[tuple[Attribute, set[int]]] = []

    def add(self, interface: int, attributes: Iterable[Attribute]) -> None:
        """Adds a filter of an interface, with constraints on these attributes (without duplicates)."""
        self._filters[interface] += 1
        self._having.setdefault(interface, Counter()).update(attributes)
        self._stale.add(interface)

    def drop(self, interface: int, attributes: Iterable[Attribute]) -> None:
        """Removes a filter that was added."""
        self._filters[interface] -= 1
        having = self._having[interface]
        for attribute in attributes:
            having[attribute] -= 1
            if not having[attribute]:
                del having[attribute]
        self._stale.add(interface)

    def exclude(self, attributes: Container[Attribute], excluded: set[int]) -> None:
        """Adds to `excluded` the interfaces that a message with these attributes cannot match."""
        if self._stale:
            self._refresh()
        for attribute, interfaces in self._best:
            if attribute not in attributes:
                excluded |= interfaces

    def _refresh(self) -> None:
        for interface in self._stale:
            for attribute in self._selective_for.pop(interface, ()):
                self._selective[attribute].remove(interface)
                if not self._selective[attribute]:
                    del self._selective[attribute]
            filters = self._filters[interface]
            if not filters:
                del self._filters[interface], self._having[interface]
                continue
            having = self._having[interface]
            self._selective_for[interface] = [a for a, count in having.items() if count == filters]
            for attribute in self._selective_for[interface]:
                self._selective.setdefault(attribute, set()).add(interface)
        self._stale.clear()
        self._best = nlargest(self._rounds, self._selective.items(), key=lambda item: len(item[1]))
