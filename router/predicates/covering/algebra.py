"""Covering, union and simplification of predicates.

Source: protocol paper, sections 3.1 (p covers q if p matches every message that q matches) and 3.5.6
(simplification). `covers` never claims what does not hold. It is exact

- between constraints and between filters (conjunctions), for every type and operator;
- for a filter against a predicate, if one filter of the predicate covers it, or if several do that differ
  from it in one attribute only, by intervals (comparisons, equality, prefix);
- for a filter against several filters that cover it together on any number of attributes, by intervals, if
  the search stays within its bound (`router.predicates.covering.boxes`).

The answer is "no" for covering beyond that bound, for covering by several filters that divide the values by
suffixes or substrings, and for some very long strings (`router.predicates.covering.values`).

Results are canonical. A filter is written with the fewest constraints of one fixed form (``x >= 200`` and not
the equivalent ``x > 199``; the strict bound if neither number is rounder), in order of names; filters are
sorted. Two simplified predicates that consist of the same filters are therefore equal.
"""

from __future__ import annotations

from router.predicates.covering.builder import PredicateBuilder
from router.predicates.covering.pool import POOL
from router.predicates.model import Predicate


def covers(p: Predicate, q: Predicate) -> bool:
    """Whether every message that `q` matches is known to match `p`; True is always right."""
    return p is q or PredicateBuilder(members=POOL.simplified(p)).covers(q)


def disjoin(p: Predicate, q: Predicate) -> Predicate:
    """Returns p ∨ q, simplified: the messages that p or q matches.

    Filters that are covered by another, or by several on one attribute, are removed; filters that differ in
    one attribute are merged if this reduces their number. Returns `p` itself if it is simplified already and
    covers `q`. For a table that grows, `router.predicates.covering.builder.PredicateBuilder` is faster.
    """
    union = PredicateBuilder(members=POOL.simplified(p))
    numbers = [number for number in POOL.numbers(q) if not POOL.covers(union.members, number)]
    union.members = POOL.add(union.members, numbers, jointly=False)
    return p if union.predicate == p else union.predicate


def simplify(p: Predicate) -> Predicate:
    """Returns the canonical form of a predicate, which matches the same messages.

    In addition to what `disjoin` does, filters that several others cover together are removed, as far as
    `covers` can tell. The result of simplifying a simplified predicate is equal to it.
    """
    members = POOL.simplified(p)
    while True:
        # Which filters can be merged may depend on their order: start from the canonical one. A round that
        # changes the set leaves fewer filters, so there is a last round.
        added = POOL.add(0, POOL.in_order(members), jointly=False)
        simple = added
        for number in POOL.in_order(added):
            rest = simple & ~(1 << number)
            if POOL.covers(rest, number):
                simple = rest
        if simple == members:
            break
        members = simple
    predicate = POOL.predicate(members)
    return p if predicate == p else predicate
