"""Covering, union, restriction and widening of encoded predicates.

An encoded predicate is a monotone disjunctive normal form over bits: a filter is implied by a predicate iff
one filter of the predicate is a subset of it. The answers are exact for encoded messages, and encoded
matching contains plain matching: no receiver is lost.

A question about a set of bits takes a time that grows with the bits of its suite: so does its weight
(`router.predicates.covering.widening` has that of plain filters).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import combinations

from router.predicates.covering.bitset import numbers_in
from router.predicates.covering.widening import MERGED_MAX
from router.predicates.encoded import ANY_FILTER, ENCODED_EVERYTHING, BloomFilter, BloomPredicate, Suite

#: Filters of which each pair is compared.
_COMPARED = 48


def minimal(filters: Iterable[BloomFilter]) -> tuple[BloomFilter, ...]:
    """The filters that no other filter covers, each once, in an order that depends on the filters alone."""
    given = set(filters)
    if ANY_FILTER in given:
        return (ANY_FILTER,)
    kept: list[BloomFilter] = []
    frequency = Counter(position for filter_ in given for position in numbers_in(filter_.bits))
    # By suite and their rarest bit, which each filter that they cover has; -1 without bits.
    filed: dict[tuple[Suite, int], list[BloomFilter]] = {}
    # A filter can only be covered by filters of fewer bits, which come first.
    for filter_ in sorted(given, key=order):
        own = [-1, *numbers_in(filter_.bits)]
        if not any(other.covers(filter_) for place in own for other in filed.get((filter_.suite, place), ())):
            kept.append(filter_)
            filed.setdefault((filter_.suite, min(own[1:], key=frequency.__getitem__, default=-1)), []).append(
                filter_
            )
    return tuple(kept)


def order(filter_: BloomFilter) -> tuple[int, Suite, int]:
    """The canonical order of filters: a filter comes before those that it covers."""
    return filter_.bits.bit_count(), filter_.suite, filter_.bits


def union(*predicates: BloomPredicate) -> BloomPredicate:
    """The disjunction of predicates: the minimal filters of all."""
    return BloomPredicate(minimal(filter_ for predicate in predicates for filter_ in predicate.encoded))


def widened(predicate: BloomPredicate, filters: int) -> BloomPredicate:
    """A predicate of at most so many filters that covers `predicate`.

    Repeatedly replaces two filters of one suite by their common bits, those of the pair with the most bits in
    common. More than `_COMPARED` filters are first reduced in groups, so that the time grows with their
    number. When there are more suites than filters, the result is the predicate that every message matches.

    Args:
        filters: 1 or more.
    """
    of_suite: dict[Suite, list[BloomFilter]] = {}
    for filter_ in minimal(predicate.encoded):
        of_suite.setdefault(filter_.suite, []).append(filter_)
    if len(of_suite) > filters:
        return ENCODED_EVERYTHING
    left = [filter_ for suite in sorted(of_suite) for filter_ in of_suite[suite]]
    while len(left) > max(_COMPARED, filters):
        goal = max(len(left) // 2, filters)
        smaller: dict[BloomFilter, None] = {}
        for start in range(0, len(left), _COMPARED):
            group = left[start : start + _COMPARED]
            merged = _merged(group, len(group) * goal // len(left))
            smaller.update(dict.fromkeys(sorted(merged, key=lambda each: (each.suite, order(each)))))
        if len(smaller) > (goal if goal == filters else goal + len(left) // 8):
            # Nearly every filter of a group has a suite of its own.
            smaller = dict.fromkeys(_one_a_suite(smaller))
        left = list(smaller)
    return BloomPredicate(minimal(_merged(left, filters) if len(left) > filters else left))


def _one_a_suite(filters: Iterable[BloomFilter]) -> list[BloomFilter]:
    common: dict[Suite, int] = {}
    for filter_ in filters:
        common[filter_.suite] = common.get(filter_.suite, filter_.bits) & filter_.bits
    return [BloomFilter(suite, bits) for suite, bits in common.items()]


def _merged(filters: Sequence[BloomFilter], most: int) -> list[BloomFilter]:
    """At most so many filters that cover `filters`, or one for each suite if there are more suites."""
    alive = dict(enumerate(filters))
    # The pair with the most common bits first; the bits and the numbers decide among equals.
    pairs = [
        (-common.bit_count(), common, one, other)
        for (one, first), (other, second) in combinations(alive.items(), 2)
        if first.suite == second.suite
        for common in (first.bits & second.bits,)
    ]
    heapify(pairs)
    number = len(alive)
    while len(alive) > most and pairs:
        _, common, one, other = heappop(pairs)
        if one not in alive or other not in alive:
            continue
        suite = alive.pop(one).suite
        del alive[other]
        for third, filter_ in alive.items():
            if filter_.suite == suite:
                both = common & filter_.bits
                heappush(pairs, (-both.bit_count(), both, third, number))
        alive[number] = BloomFilter(suite, common)
        number += 1
    return list(alive.values())


#: The weight of a filter without its bits.
_FILTER, _OCTETS = 2, 16
#: Suites for which the widened part of a predicate has a filter of its own.
_SUITES = 64


def weight_of(filter_: BloomFilter) -> int:
    """The weight of a filter: 2, plus one for each 16 bytes of its set of bits."""
    return _FILTER + filter_.suite.octets // _OCTETS


def widen(filters: Iterable[BloomFilter], weight: int, most: int) -> tuple[list[BloomFilter], int, bool]:
    """As `router.predicates.covering.widening.widen`.

    Of the filters beyond the bounds, those of one suite are replaced by their common bits.
    """
    kept: list[BloomFilter] = []
    total = excess = 0
    rest: dict[Suite, int] = {}
    for filter_ in filters:
        total += weight_of(filter_)
        if total <= weight and len(kept) < most:
            kept.append(filter_)
            continue
        excess += 1
        rest[filter_.suite] = rest.get(filter_.suite, filter_.bits) & filter_.bits
        if excess > MERGED_MAX or len(rest) > _SUITES:
            return [ANY_FILTER], weight, True
    kept += [BloomFilter(suite, bits) for suite, bits in rest.items()]
    return kept, min(total, weight), excess > 0
