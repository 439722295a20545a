"""The definition of matching, to which every matching engine is compared.

Source: protocol paper, section 2. A message matches a constraint if it has an attribute of the same
name *and type* whose value satisfies the operator: the integer 3 does not match a constraint on the
double 3.0. Strings are compared by the bytes of their UTF-8 form, and false orders before true.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from router.predicates.model import Constraint, Filter, Message, Operator, Predicate, type_of

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
