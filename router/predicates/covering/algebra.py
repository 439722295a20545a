"""Covering and simplification of predicates.

Source: protocol paper, sections 3.1 (covering: p covers q if every message that q matches is matched by p)
and 3.5.6 (simplification). Covering is never claimed where it does not hold. It is exact

- for constraints and for filters (conjunctions) of every type and operator;
- for a filter against a predicate where one filter of it covers, or where several together do that differ
  from the covered one in what they ask of one attribute, by intervals (comparisons, equality, prefix);
- for a filter against several that together cover it on any number of attributes, by intervals, as long as
  the search stays within a bound (`router.predicates.covering.boxes`).

It answers "no" to what may be covered beyond that bound, or by several filters that split the values by
suffixes or substrings (and see `router.predicates.covering.values` for very long strings).

Results are canonical: each filter is written in the fewest constraints of one fixed form (``x >= 200`` where
``x > 199`` says the same, and the strict one where neither number is rounder), by name, and filters are
sorted. Two simplified predicates that consist of the same filters are therefore equal.
"""

from __future__ import annotations

from collections import OrderedDict
from weakref import ref

from router.predicates.covering.filterset import FilterSet
from router.predicates.covering.normal import normalise
from router.predicates.covering.pool import POOL
from router.predicates.model import Filter, Predicate


def covers_filter(a: Filter, b: Filter) -> bool:
    """Whether every message that matches `b` matches `a`. A filter that nothing matches is covered by all."""
    covered = normalise(b)
    if covered is None:
        return True
    covering = normalise(a)
    return covering is not None and not covering.failures(covered)


def covers(p: Predicate, q: Predicate) -> bool:
    """Whether every message that matches `q` is known to match `p`; True only if it is so."""
    if p is q:
        return True
    filters = _simplified(p)
    return all(POOL.covers(filters.members, number) for number in POOL.numbers(q))


def disjoin(p: Predicate, q: Predicate) -> Predicate:
    """p ∨ q, simplified: it matches exactly the messages that p or q matches.

    Filters covered by one other, or by several on one attribute, are dropped, and filters that differ in
    one attribute are merged where that makes fewer filters. `p` itself is returned if it is simplified
    already and covers `q`. A table that grows all the time is better kept in a
    `router.predicates.covering.builder.PredicateBuilder`.
    """
    filters = _simplified(p)
    missing = [number for number in POOL.numbers(q) if not POOL.covers(filters.members, number)]
    if missing:
        filters = FilterSet(filters.members)
        filters.add_numbers(missing)
    simple = POOL.predicate(filters.members)
    return p if simple == p else _remember(simple, filters)


def simplify(p: Predicate) -> Predicate:
    """The predicate in canonical form, without needless filters and constraints; it matches the same.

    Beyond what `disjoin` does, filters that several others cover together are dropped as far as
    `covers` can tell. Simplifying twice changes nothing more.
    """
    filters = _simplified(p)
    while True:
        # What can be merged may depend on the order in which filters came: start from the canonical one.
        # A round that changes anything leaves fewer filters, so there is a last one.
        ordered = FilterSet()
        ordered.add_numbers(POOL.in_order(filters.members))
        if not ordered.drop_covered_jointly() and ordered.members == filters.members:
            break
        filters = ordered
    simple = POOL.predicate(filters.members)
    return p if simple == p else _remember(simple, filters)


#: Filter sets of the predicates of recent calls, by identity: hashing a large table costs more than the
#: question asked of it. An entry goes when its predicate does, so that what a table was before it
#: grew is not kept.
_recent: OrderedDict[int, tuple[ref[Predicate], FilterSet]] = OrderedDict()
_RECENT_MAX = 64


def _simplified(p: Predicate) -> FilterSet:
    entry = _recent.get(id(p))
    if entry is not None:
        _recent.move_to_end(id(p))
        return entry[1]
    filters = FilterSet.of(p)
    _remember(p, filters)
    return filters


def _remember(p: Predicate, filters: FilterSet) -> Predicate:
    key = id(p)
    _recent[key] = (ref(p, lambda _: _recent.pop(key, None)), filters)
    if len(_recent) > _RECENT_MAX:
        _recent.popitem(last=False)
    return p
