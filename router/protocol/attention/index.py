"""Finding matches by the value of one attribute: subscriptions for a publication, and the reverse.

A filter with an equality can match only messages that have the attribute with that value; a hash table of
attributes finds the few candidates among many. Filters without an equality are compared one by one.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from router.predicates.model import Filter, Message, Operator, Predicate, Type, Value
from router.predicates.semantics import matches

T = TypeVar("T")

#: An attribute: name, type and value. Of equal Python values of two types, only one matches.
Attribute = tuple[str, Type, Value]


def equalities_of(filter_: Filter) -> list[Attribute]:
    """The attributes that a message must have for the filter to match it."""
    return [
        (each.name, each.type, each.value)
        for each in filter_.constraints
        if each.operator is Operator.EQ and each.value is not None
    ]


class PredicateIndex(Generic[T]):
    """Objects with a predicate each, in the order in which they were added.

    Attributes:
        compared: constraints that were compared with messages so far, of equalities that are all of a filter
            the objects.
    """

    def __init__(self) -> None:
        #: The predicate of each object, its constraints, and the attributes by which it is found.
        self._items: dict[T, tuple[Predicate, int, list[Attribute]]] = {}
        #: Attribute -> the objects with a filter that has it as an equality -> whether it is all of a filter.
        self._by_attribute: dict[Attribute, dict[T, bool]] = {}
        #: The objects with a filter without an equality.
        self._others: dict[T, None] = {}
        #: The constraints of those in `_others`.
        self._others_weight = 0
        self.compared = 0

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, item: T) -> bool:
        return item in self._items

    def add(self, item: T, predicate: Predicate) -> None:
        """Adds an object, which is not in the index."""
        attributes: list[Attribute] = []
        weight, other = 0, False
        for filter_ in predicate.filters:
            weight += len(filter_.constraints)
            equalities = equalities_of(filter_)
            if equalities:
                attribute = equalities[0]
                attributes.append(attribute)
                objects = self._by_attribute.setdefault(attribute, {})
                objects[item] = len(filter_.constraints) == 1 or objects.get(item, False)
            else:
                other = True
        weight = weight or 1
        self._items[item] = predicate, weight, attributes
        if other:
            self._others[item] = None
            self._others_weight += weight

    def remove(self, item: T) -> None:
        """Removes an object; nothing happens if it is not in the index."""
        found = self._items.pop(item, None)
        if found is None:
            return
        _, weight, attributes = found
        if item in self._others:
            del self._others[item]
            self._others_weight -= weight
        for attribute in attributes:
            objects = self._by_attribute.get(attribute)
            if objects is not None:
                objects.pop(item, None)
                if not objects:
                    del self._by_attribute[attribute]

    def matching(self, message: Message) -> list[T]:
        """The objects whose predicate matches a message, each once."""
        found: dict[T, None] = {}
        for attribute in message.typed():
            objects = self._by_attribute.get(attribute)
            if objects is None:
                continue
            self.compared += len(objects)
            for item, whole in objects.items():
                if item in found:
                    continue
                if not whole:
                    predicate, weight, _ = self._items[item]
                    self.compared += weight
                    if not matches(predicate, message):
                        continue
                found[item] = None
        self.compared += self._others_weight
        for item in self._others:
            if item not in found and matches(self._items[item][0], message):
                found[item] = None
        return list(found)
