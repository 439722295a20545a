"""Normal forms of filters: the set of allowed values of each attribute; the merging of two filters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from struct import Struct

from router.predicates import Constraint, Filter, Type
from router.predicates.covering import intervals as iv
from router.predicates.covering.values import (
    ValueSet,
    common_patterns,
    constraints_of,
    includes,
    pieces,
    tidy,
    value_set,
)

#: Name and type. Attributes of one name and two types are unrelated.
Attribute = tuple[str, Type]
#: See `NormalFilter.families`.
Family = tuple[object, ...]
_DOUBLE, _LONG = Struct(">d"), Struct(">Q")
_SIGN = 1 << 63


class NormalFilter:
    """The normal form of a filter that some message can match.

    Compared by identity.

    Attributes:
        attributes: the allowed values, never an empty set, by attribute name; in order of names.
        signature: the name and type of each attribute.
    """

    def __init__(self, attributes: Mapping[str, ValueSet]) -> None:
        self.attributes = {name: attributes[name] for name in sorted(attributes)}
        self.signature = frozenset((name, values.type) for name, values in attributes.items())

    def items(self) -> Iterator[tuple[Attribute, ValueSet]]:
        """Yields each attribute with its allowed values, in order of names."""
        return (((name, values.type), values) for name, values in self.attributes.items())

    @cached_property
    def filter(self) -> Filter:
        """The canonical filter; it depends on the sets of values alone."""
        return Filter(
            tuple(c for name, values in self.attributes.items() for c in constraints_of(name, values))
        )

    @cached_property
    def key(self) -> bytes:
        """The sort key that defines the canonical order of filters.

        Filters are in the order of their tuples of constraints, and constraints in that of name, type,
        operator and value. Texts are sorted in a fraction of the time that tuples take.
        """
        return b"".join(map(_sort_key, self.filter))

    @cached_property
    def families(self) -> dict[Attribute, Family]:
        """For each attribute, a key that is equal for filters that differ in its intervals only.

        The other attributes enter by a hash: filters with equal keys are to be compared (`differs_only_in`).
        """
        hashes = {name: hash((name, values)) for name, values in self.attributes.items()}
        whole = 0
        for value in hashes.values():
            whole ^= value
        return {
            (name, values.type): (name, values.type, values.suffix, values.substrings, whole ^ hashes[name])
            for name, values in self.attributes.items()
        }

    def differs_only_in(self, name: str, other: NormalFilter) -> bool:
        """Whether both constrain the same attributes, with the same values but for attribute `name`."""
        mine, theirs = self.attributes, other.attributes
        return mine.keys() == theirs.keys() and all(
            values == theirs[own] for own, values in mine.items() if own != name
        )

    def failures(self, other: NormalFilter) -> list[str]:
        """Returns the attributes on which `other` allows values, or absence, that this filter excludes.

        The search ends at the second. Attributes are independent of each other, so this filter covers
        `other` exactly if there is none.
        """
        failed: list[str] = []
        theirs = other.attributes
        for name, values in self.attributes.items():
            if name not in theirs or not includes(values, theirs[name]):
                failed.append(name)
                if len(failed) == 2:
                    break
        return failed


def _sort_key(constraint: Constraint) -> bytes:
    """Bytes in the order of name, type, operator and value; none is the beginning of another."""
    head = _text_key(constraint.name) + bytes((constraint.type, constraint.operator))
    value = constraint.value
    if value is None:
        return head
    if isinstance(value, str):
        return head + _text_key(value)
    if isinstance(value, float):
        (bits,) = _LONG.unpack(_DOUBLE.pack(value))
        return head + _LONG.pack(bits ^ (2 * _SIGN - 1 if bits & _SIGN else _SIGN))
    return head + _LONG.pack(value + _SIGN)


def _text_key(text: str) -> bytes:
    return text.encode().replace(b"\0", b"\0\xff") + b"\0"


@lru_cache(maxsize=16_384)
def normalise(filter_: Filter) -> NormalFilter | None:
    """Returns the normal form of a filter; None if no message can match it.

    A filter with constraints on one name in two types is such a case: a message has at most one attribute
    of a name.
    """
    by_name: dict[str, list[Constraint]] = {}
    for constraint in filter_:
        by_name.setdefault(constraint.name, []).append(constraint)
    attributes: dict[str, ValueSet] = {}
    for name, constraints in by_name.items():
        kind = constraints[0].type
        if any(constraint.type is not kind for constraint in constraints):
            return None
        attributes[name] = value_set(kind, constraints)
        if not attributes[name].intervals:
            return None
    return NormalFilter(attributes)


def merge(a: NormalFilter, b: NormalFilter, exclusions: bool = True) -> NormalFilter:
    """Returns the narrowest filter that covers both, except for single values that one excludes by ``!=``.

    It keeps such exclusions only if the union of the values needs no other constraints: merging is to make
    filters fewer and shorter.

    Args:
        exclusions: False to keep no exclusions at all.
    """
    merged: dict[str, ValueSet] = {}
    for name, values in a.attributes.items():
        others = b.attributes.get(name)
        if others is not None and others.type is values.type:
            merged[name] = _merge_values(values, others, exclusions)
    return NormalFilter(merged)


def _merge_values(a: ValueSet, b: ValueSet, exclusions: bool) -> ValueSet:
    joined = iv.union(a.intervals, b.intervals)
    if not exclusions or len(pieces(ValueSet(a.type, joined))) > 1:
        joined = ((joined[0][0], joined[-1][1]),)
    merged = ValueSet(a.type, joined, *common_patterns(a, b))
    return merged if merged.is_plain else tidy(merged)
