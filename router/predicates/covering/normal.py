"""Normal forms of filters: for each attribute, the set of values that the filter allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache

from router.predicates.covering.values import ValueSet, constraints_of, includes, value_set
from router.predicates.model import Constraint, Filter, Type

#: Name and type. Attributes of one name and different types have nothing in common.
Attribute = tuple[str, Type]
#: What a filter keeps when one attribute is taken out: see `NormalFilter.families`.
Family = tuple[object, ...]


class NormalFilter:
    """A filter that some message can match, attribute by attribute. Compared by identity.

    Attributes:
        attributes: the values allowed, by attribute name, in order of names; never an empty set.
        signature: the names of the attributes, each with its type.
    """

    def __init__(self, attributes: Mapping[str, ValueSet]) -> None:
        self.attributes = {name: attributes[name] for name in sorted(attributes)}
        self.signature = frozenset((name, values.type) for name, values in attributes.items())

    def items(self) -> Iterator[tuple[Attribute, ValueSet]]:
        """Attributes with the values allowed, in order of names."""
        return (((name, values.type), values) for name, values in self.attributes.items())

    @cached_property
    def filter(self) -> Filter:
        """The canonical filter: a pure function of the sets of values."""
        return Filter(
            tuple(c for name, values in self.attributes.items() for c in constraints_of(name, values))
        )

    @cached_property
    def key(self) -> tuple[tuple[object, ...], ...]:
        """Sort key that puts canonical filters in a fixed order."""
        return tuple((c.name, int(c.type), int(c.operator), c.value) for c in self.filter)

    @cached_property
    def families(self) -> dict[Attribute, Family]:
        """For each attribute, all that is equal in filters that differ in its intervals only."""
        pairs = tuple(self.attributes.items())
        return {
            (name, values.type): (
                name,
                values.type,
                values.suffix,
                values.substrings,
                pairs[:i] + pairs[i + 1 :],
            )
            for i, (name, values) in enumerate(pairs)
        }

    def with_values(self, name: str, values: ValueSet) -> NormalFilter:
        """The same filter with other values for one attribute."""
        return NormalFilter({**self.attributes, name: values})

    def failures(self, other: NormalFilter) -> list[str]:
        """Attributes (two at most) on which `other` allows values, or absence, that this filter does not.

        Attributes are independent of each other, so this filter covers `other` exactly when there are none.
        """
        failed: list[str] = []
        theirs = other.attributes
        for name, values in self.attributes.items():
            if name not in theirs or not includes(values, theirs[name]):
                failed.append(name)
                if len(failed) == 2:
                    break
        return failed


@lru_cache(maxsize=16_384)
def normalise(filter_: Filter) -> NormalFilter | None:
    """The normal form of a filter; None if no message can match it.

    Constraints on one name in two types are such a case: a message has one attribute of a name.
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
