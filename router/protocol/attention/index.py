"""Finding matches by the value of one attribute: subscriptions for a publication, and the reverse.

A filter with an equality can match only messages that have the attribute with that value; a hash table of
attributes finds the few candidates among many. Filters without an equality are compared one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from router.predicates.model import Filter, Message, Operator, Predicate, Type, Value, type_of
from router.predicates.semantics import matches

T = TypeVar("T")

#: An attribute: name, type and value. Of equal Python values of two types, only one matches.
Attribute = tuple[str, Type, Value]


def attributes_of(message: Message) -> Iterator[Attribute]:
    """The attributes of a message."""
    for name, value in message.items():
        yield name, type_of(value), value


def equalities_of(filter_: Filter) -> list[Attribute]:
    """The attributes that a message must have for the filter to match it."""
    return [
        (each.name, each.type, each.value)
        for each in filter_
        if each.operator is Operator.EQ and each.value is not None
    ]


class PredicateIndex(Generic[T]):
    """Objects with a predicate each, in the order in which they were added.

    Attributes:
        compared: constraints that were compared with messages so far, of equalities that are all of a filter
            the objects.
    """

    def __init__(self) -> None:
        self._predicates: dict[T, Predicate] = {}
        #: Attribute -> the objects with a filter that has it as an equality -> whether it is all of a filter.
        self._by_attribute: dict[Attribute, dict[T, bool]] = {}
        #: The objects with a filter without an equality.
        self._others: dict[T, None] = {}
        #: The constraints of each object, and of those in `_others`.
        self._weights: dict[T, int] = {}
        self._others_weight = 0
        self.compared = 0

    def __len__(self) -> int:
        return len(self._predicates)

    def __contains__(self, item: T) -> bool:
        return item in self._predicates

    def add(self, item: T, predicate: Predicate) -> None:
        """Adds an object, which is not in the index."""
        self._predicates[item] = predicate
        self._weights[item] = sum(map(len, predicate)) or 1
        for filter_ in predicate:
            equalities = equalities_of(filter_)
            if equalities:
                objects = self._by_attribute.setdefault(equalities[0], {})
                objects[item] = objects.get(item, False) or len(filter_) == 1
            elif item not in self._others:
                self._others[item] = None
                self._others_weight += self._weights[item]

    def remove(self, item: T) -> None:
        """Removes an object; nothing happens if it is not in the index."""
        predicate = self._predicates.pop(item, None)
        if predicate is None:
            return
        weight = self._weights.pop(item)
        if item in self._others:
            del self._others[item]
            self._others_weight -= weight
        for filter_ in predicate:
            for attribute in equalities_of(filter_)[:1]:
                objects = self._by_attribute.get(attribute)
                if objects is not None:
                    objects.pop(item, None)
                    if not objects:
                        del self._by_attribute[attribute]

    def matching(self, message: Message) -> list[T]:
        """The objects whose predicate matches a message, each once."""
        found: dict[T, None] = {}
        for attribute in attributes_of(message):
            objects = self._by_attribute.get(attribute, {})
            self.compared += len(objects)
            for item, whole in objects.items():
                if item in found:
                    continue
                if not whole:
                    self.compared += self._weights[item]
                    if not matches(self._predicates[item], message):
                        continue
                found[item] = None
        self.compared += self._others_weight
        for item in self._others:
            if item not in found and matches(self._predicates[item], message):
                found[item] = None
        return list(found)
