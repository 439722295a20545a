"""Merging of two filters into one that covers both: the step of every widening of a predicate."""

from __future__ import annotations

from router.predicates.covering import intervals as iv
from router.predicates.covering.normal import NormalFilter
from router.predicates.covering.values import ValueSet, common_patterns, pieces, tidy


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
