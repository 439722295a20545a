"""The attribute selectivity table: interfaces that no message without a certain attribute can match.

Source: Carzaniga and Wolf, SIGCOMM 2003 (determinant attributes), and the slides ("Selectivity Table"). An
attribute is selective for an interface if every filter of its predicate has a constraint on it. The papers
compute the table when the forwarding table is built; this one follows every change of a filter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable
from heapq import nlargest

from router.predicates.model import Type

#: Name and type: a constraint asks for both.
Attribute = tuple[str, Type]


class SelectivityTable:
    """Attributes that are selective for interfaces.

    Args:
        rounds: how many attributes are looked at for a message: those selective for most interfaces.
    """

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds
        #: By interface: how many filters there are, and how many of them have a constraint on an attribute.
        self._filters: Counter[int] = Counter()
        self._having: dict[int, Counter[Attribute]] = {}
        self._selective: dict[Attribute, set[int]] = {}
        self._selective_for: dict[int, list[Attribute]] = {}
        self._stale: set[int] = set()
        self._best: list[tuple[Attribute, set[int]]] = []

    def add(self, interface: int, attributes: Iterable[Attribute]) -> None:
        """The interface has one more filter, with constraints on these attributes (each given once)."""
        self._filters[interface] += 1
        self._having.setdefault(interface, Counter()).update(attributes)
        self._stale.add(interface)

    def drop(self, interface: int, attributes: Iterable[Attribute]) -> None:
        """Undo `add`."""
        self._filters[interface] -= 1
        having = self._having[interface]
        for attribute in attributes:
            having[attribute] -= 1
            if not having[attribute]:
                del having[attribute]
        self._stale.add(interface)

    def exclude(self, attributes: Container[Attribute], excluded: set[int]) -> None:
        """Adds to `excluded` interfaces that a message of these attributes cannot match."""
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
