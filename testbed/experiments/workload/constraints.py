"""Evaluation of predicates on messages, from their JSON form (`router.predicates.printer`).

Written from the definition only (protocol paper, section 2): the oracle shares no code with the routers that
it judges. An attribute meets a constraint if their names and types are equal and its value satisfies the
operator; strings compare by the bytes of their UTF-8 form, false is less than true, and types never mix.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import contains, eq, ge, gt, le, lt, ne
from typing import Any

#: An attribute as messages carry it and constraints name it: (name, type).
Key = tuple[str, str]
#: A value in comparable form: strings as UTF-8 bytes.
Comparable = Any
Test = Callable[[Comparable], bool]

#: Whether a value and the bound of a constraint meet an operator.
_Meets = Callable[[Comparable, Comparable], bool]
_OF_ALL: dict[str, _Meets] = {"=": eq, "!=": ne, "<": lt, ">": gt, "<=": le, ">=": ge, "any": lambda *_: True}
_OF_STRINGS: dict[str, _Meets] = {"=*": bytes.startswith, "*=": bytes.endswith, "**": contains}
_PYTHON_TYPES: dict[str, type] = {"string": str, "integer": int, "double": float, "boolean": bool}
_TYPE_NAMES: dict[type, str] = {kind: name for name, kind in _PYTHON_TYPES.items()}


def attributes_of(message: Mapping[str, Any]) -> dict[Key, Comparable]:
    """Returns the attributes of a message as {(name, type): comparable value}.

    Raises:
        ValueError: a value is of none of the four types.
    """
    attributes: dict[Key, Comparable] = {}
    for name, value in message.items():
        # `type(...)` and not isinstance: a bool is not an integer in messages.
        kind = _TYPE_NAMES.get(type(value))
        if kind is None:
            raise ValueError(
                f"attribute {name!r}: expected string, integer, double or boolean, got {value!r}"
            )
        attributes[name, kind] = value.encode() if kind == "string" else value
    return attributes


def compile_constraint(constraint: Sequence[Any]) -> tuple[Key, Test]:
    """Returns the attribute that `[name, type, operator, value]` refers to, and the test of its value.

    Raises:
        ValueError: not such a list, an unknown type or operator, or a value that is not of the type.
    """
    if not isinstance(constraint, (list, tuple)) or len(constraint) != 4:
        raise ValueError(f"constraint {constraint!r}: expected [name, type, operator, value]")
    name, kind, operator, value = constraint
    if kind not in _PYTHON_TYPES:
        raise ValueError(f"constraint {constraint!r}: expected a type of {', '.join(_PYTHON_TYPES)}")
    meets = (_OF_ALL | _OF_STRINGS if kind == "string" else _OF_ALL).get(operator)
    if meets is None:
        raise ValueError(f"constraint {constraint!r}: no operator {operator!r} for type {kind}")
    if operator != "any" and type(value) is not _PYTHON_TYPES[kind]:
        raise ValueError(f"constraint {constraint!r}: expected a value of type {kind}")
    bound = value.encode() if isinstance(value, str) else value
    return (name, kind), lambda value: meets(value, bound)


class PredicateIndex:
    """An index of many predicates, which finds those that select a message.

    Each filter is indexed by that attribute of it that the fewest filters use; for a message, only the
    filters indexed by its attributes are evaluated.
    """

    def __init__(self, predicates: Iterable[Sequence[Sequence[Sequence[Any]]]]) -> None:
        """Builds the index. Predicates are lists of filters, which are lists of constraints; numbers start at
        0.

        Raises:
            ValueError: a constraint is malformed.
        """
        compiled = [
            (number, [compile_constraint(constraint) for constraint in filter_])
            for number, filters in enumerate(predicates)
            for filter_ in filters
        ]
        uses = Counter(key for _, tests in compiled for key, _ in tests)
        self._always: set[int] = set()
        self._filed: dict[Key, list[tuple[int, Test, frozenset[Key], list[tuple[Key, Test]]]]] = {}
        for number, tests in compiled:
            if not tests:
                self._always.add(number)
                continue
            first = min(range(len(tests)), key=lambda position: uses[tests[position][0]])
            key, test = tests[first]
            rest = tests[:first] + tests[first + 1 :]
            needed = frozenset(key for key, _ in rest)
            self._filed.setdefault(key, []).append((number, test, needed, rest))

    def matching(self, message: Mapping[str, Any]) -> set[int]:
        """Returns the numbers of the predicates that select `message`.

        Raises:
            ValueError: an attribute's value is of none of the four types.
        """
        attributes = attributes_of(message)
        present = attributes.keys()
        found = set(self._always)
        for key, value in attributes.items():
            for number, test, needed, rest in self._filed.get(key, ()):
                # Most filters fail this test: the message lacks an attribute.
                possible = needed <= present and number not in found and test(value)
                if possible and all(meets(attributes[other]) for other, meets in rest):
                    found.add(number)
        return found
