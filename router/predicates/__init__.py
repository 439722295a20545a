"""The content-based service model: messages, constraints, filters and predicates.

Source: protocol paper, section 2. A message is a set of typed, named attributes; a predicate is a
disjunction of filters, each a conjunction of constraints on single attributes. All values here are
immutable and hashable; the order of constraints in a filter and of filters in a predicate is kept
as given; `router.predicates.covering.algebra` makes canonical forms.

`matches` is the definition to which every matching engine is compared. A message matches a constraint if it
has an attribute of the same name *and type* whose value satisfies the operator: the integer 3 does not match
a constraint on the double 3.0. Strings are compared by the bytes of their UTF-8 form, and false orders before
true.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

#: A value of an attribute or constraint. The Python type is the CBCB type: `bool` is boolean (and
#: never integer), `int` is a 64-bit signed integer, `float` a finite double, `str` a string.
Value = str | int | float | bool

INTEGER_MIN = -(2**63)
INTEGER_MAX = 2**63 - 1
#: Limits of the wire format: bytes of UTF-8.
NAME_MAX_BYTES = 255
STRING_MAX_BYTES = 65_535


class Type(IntEnum):
    """Attribute types; the numbers are those of the wire format."""

    # An enumeration's own hash is computed in Python.
    __hash__ = int.__hash__

    STRING = 1
    INTEGER = 2
    DOUBLE = 3
    BOOLEAN = 4


class Operator(IntEnum):
    """Constraint operators; the numbers are those of the wire format."""

    EQ = 1
    NE = 2
    LT = 3
    GT = 4
    LE = 5
    GE = 6
    PREFIX = 7
    SUFFIX = 8
    SUBSTRING = 9
    ANY = 10


#: The text of each operator, in both notations.
SYMBOLS: Mapping[Operator, str] = {
    Operator.EQ: "=",
    Operator.NE: "!=",
    Operator.LT: "<",
    Operator.GT: ">",
    Operator.LE: "<=",
    Operator.GE: ">=",
    Operator.PREFIX: "=*",
    Operator.SUFFIX: "*=",
    Operator.SUBSTRING: "**",
    Operator.ANY: "any",
}
STRING_ONLY = frozenset({Operator.PREFIX, Operator.SUFFIX, Operator.SUBSTRING})


def type_of(value: Value) -> Type:
    """Returns the CBCB type of a Python value.

    Raises:
        TypeError: the value has none of the four types.
    """
    if isinstance(value, bool):
        return Type.BOOLEAN
    if isinstance(value, int):
        return Type.INTEGER
    if isinstance(value, float):
        return Type.DOUBLE
    if isinstance(value, str):
        return Type.STRING
    raise TypeError(f"expected str, int, float or bool, got {type(value).__name__}")


def _check_name(name: str) -> None:
    length = len(name) if name.isascii() else len(name.encode("utf-8", "strict"))
    if not 1 <= length <= NAME_MAX_BYTES:
        raise ValueError(f"attribute name of {length} bytes; expected 1 to {NAME_MAX_BYTES}")


def _check_value(name: str, value: Value) -> Type:
    kind = type_of(value)
    if kind is Type.INTEGER and not INTEGER_MIN <= value <= INTEGER_MAX:  # type: ignore[operator]
        raise ValueError(f"{name}: integer {value} does not fit in 64 bits, signed")
    if kind is Type.DOUBLE and not math.isfinite(value):  # type: ignore[arg-type]
        raise ValueError(f"{name}: double {value} is not finite")
    if isinstance(value, str):
        length = len(value) if value.isascii() else len(value.encode("utf-8", "strict"))
        if length > STRING_MAX_BYTES:
            raise ValueError(f"{name}: string of {length} bytes; at most {STRING_MAX_BYTES}")
    return kind


@dataclass(frozen=True, slots=True)
class Constraint:
    """One elementary condition: name, type, operator and value (`None` for `Operator.ANY`).

    A message matches it if it has an attribute of this name *and type* whose value satisfies the
    operator. Strings order by the bytes of their UTF-8 form (which is the order of Python's `str`),
    false orders before true.

    Raises:
        ValueError: value and type disagree, or the operator does not apply to the type.
    """

    name: str
    type: Type
    operator: Operator
    value: Value | None = None

    def __post_init__(self) -> None:
        _check_name(self.name)
        if self.operator is Operator.ANY:
            if self.value is not None:
                raise ValueError(f"{self.name}: operator any takes no value")
            return
        if self.value is None:
            raise ValueError(f"{self.name}: operator {SYMBOLS[self.operator]} needs a value")
        kind = _check_value(self.name, self.value)
        if kind is not self.type:
            raise ValueError(f"{self.name}: {kind.name.lower()} value for type {self.type.name.lower()}")
        if self.operator in STRING_ONLY and kind is not Type.STRING:
            raise ValueError(f"{self.name}: operator {SYMBOLS[self.operator]} is for strings only")


@dataclass(frozen=True, slots=True)
class Filter:
    """A conjunction of constraints.

    The empty filter matches every message.
    """

    constraints: tuple[Constraint, ...] = ()
    #: Its wire form, kept by `router.wire.predicate`: predicates of many routers contain the same filters.
    encoded: bytes | None = field(default=None, init=False, repr=False, compare=False)

    def __iter__(self) -> Iterator[Constraint]:
        return iter(self.constraints)

    def __len__(self) -> int:
        return len(self.constraints)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Predicate:
    """A disjunction of filters: a content-based address.

    The empty one matches no message.
    """

    filters: tuple[Filter, ...] = ()
    #: Kept by `covering.widening.total_weight`.
    weight: int = field(default=-1, init=False, repr=False, compare=False)
    #: Kept by pools of filters: the state of the pool, the numbers of the filters, and their set, simplified
    #: if the pool simplifies sets; None: the set is not known. The RA of a predicate meets many tables.
    numbered: tuple[object, tuple[int, ...], int | None] | None = field(
        default=None, init=False, repr=False, compare=False
    )

    def __iter__(self) -> Iterator[Filter]:
        return iter(self.filters)

    def __len__(self) -> int:
        return len(self.filters)

    def __bool__(self) -> bool:
        return bool(self.filters)

    @property
    def unreadable(self) -> str | None:
        """A text in the place of filters that cannot be read; None: they can."""
        return None


#: The content-based address of a node that receives no message.
NOTHING = Predicate()
#: The content-based address of a node that receives every message.
EVERYTHING = Predicate((Filter(),))


class Message(dict[str, Value]):
    """A set of typed attributes, by name.

    It must not be changed after construction.

    Raises:
        ValueError, TypeError: a name or value is outside the model.
    """

    #: `_typed` is kept by `typed`: routers that cache a publication ask for it again and again.
    __slots__ = ("__weakref__", "_typed")
    _typed: tuple[tuple[str, Type, Value], ...]

    def __init__(self, attributes: Mapping[str, Value]) -> None:
        for name, value in attributes.items():
            _check_name(name)
            _check_value(name, value)
        super().__init__(attributes)

    def typed(self) -> tuple[tuple[str, Type, Value], ...]:
        """Returns the attributes with the types of their values, in their order."""
        try:
            return self._typed
        except AttributeError:
            self._typed = tuple((name, type_of(value), value) for name, value in self.items())
            return self._typed

    @property
    def unreadable(self) -> str | None:
        """A text in the place of attributes that cannot be read; None: they can."""
        return None


#: For each operator except `any`: whether a value (first argument) satisfies it with the constraint's value.
#: The order of Python's strings (by code point) is that of their UTF-8 bytes.
TESTS: dict[Operator, Callable[[Any, Any], bool]] = {
    Operator.EQ: lambda value, bound: bool(value == bound),
    Operator.NE: lambda value, bound: bool(value != bound),
    Operator.LT: lambda value, bound: bool(value < bound),
    Operator.GT: lambda value, bound: bool(value > bound),
    Operator.LE: lambda value, bound: bool(value <= bound),
    Operator.GE: lambda value, bound: bool(value >= bound),
    Operator.PREFIX: lambda value, bound: bool(value.startswith(bound)),
    Operator.SUFFIX: lambda value, bound: bool(value.endswith(bound)),
    Operator.SUBSTRING: lambda value, bound: bound in value,
}


def matches_constraint(constraint: Constraint, message: Message) -> bool:
    """Whether the message has the attribute, in the constraint's type, with a value that satisfies it."""
    value = message.get(constraint.name)
    if value is None or type_of(value) is not constraint.type:
        return False
    return constraint.operator is Operator.ANY or TESTS[constraint.operator](value, constraint.value)


def matches_filter(filter_: Filter, message: Message) -> bool:
    """Whether the message matches every constraint of the filter."""
    return all(matches_constraint(constraint, message) for constraint in filter_)


def matches(predicate: Predicate, message: Message) -> bool:
    """Whether the message matches at least one filter of the predicate."""
    return any(matches_filter(filter_, message) for filter_ in predicate)
