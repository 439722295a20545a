"""The weight of encoded predicates, and their widening; see `router.predicates.covering.budget`.

A question about a set of bits takes a time that grows with the bits of its suite: so does its weight.
"""

from __future__ import annotations

from collections.abc import Iterable

from router.predicates.covering.budget import MERGED_MAX
from router.predicates.encoded.model import ANY_FILTER, BloomFilter, Suite

#: The weight of a filter without its bits.
_FILTER, _OCTETS = 2, 16
#: Suites for which the widened part of a predicate has a filter of its own.
_SUITES = 64


def weight_of(filter_: BloomFilter) -> int:
    """The weight of a filter: 32, plus one for each byte."""
    return _FILTER + filter_.suite.octets // _OCTETS


def widen(filters: Iterable[BloomFilter], weight: int, most: int) -> tuple[list[BloomFilter], int, bool]:
    """As `router.predicates.covering.budget.widen`.

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
