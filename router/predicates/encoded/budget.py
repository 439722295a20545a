"""Bounds on encoded predicates of other routers; see `router.predicates.covering.budget`.

What exceeds a bound is widened: of the filters beyond it, those of one suite are replaced by their common
bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from router.predicates.covering.budget import Chunk, PredicateLimits
from router.predicates.encoded.model import ANY_FILTER, BloomFilter, BloomPredicate, Suite

#: Bytes of a set of bits that count as one unit of weight.
_BYTES = 16
#: Suites for which the widened part of a predicate has a filter of its own.
_SUITES = 64


def weight_of(filter_: BloomFilter) -> int:
    """The weight of a filter: one, plus one for each 16 bytes."""
    return 1 + filter_.suite.octets // _BYTES


def total_weight(predicate: BloomPredicate) -> int:
    """The weight of all filters of a predicate."""
    return sum(map(weight_of, predicate.encoded))


def chunks(filters: Iterable[BloomFilter], limits: PredicateLimits, allowed: int) -> Iterator[Chunk]:
    """Divides a predicate into chunks, whose disjunction covers it.

    The disjunction is equivalent to the predicate if all filters together are not heavier than `allowed` and
    not more than `predicate_filters`.

    Args:
        filters: of the predicate.
        allowed: at most `predicate_weight` counts.

    Raises:
        Exception: what reading the filters raises, at the filter that is due.
    """
    allowed = min(allowed, limits.predicate_weight)
    total, kept, weight = 0, 0, 0
    waiting: list[BloomFilter] = []
    rest: dict[Suite, int] = {}
    everything = False
    for filter_ in filters:
        own = weight_of(filter_)
        if weight and weight + own > limits.turn_weight:
            yield Chunk(BloomPredicate(waiting), weight, bool(rest) or everything)
            waiting, weight = [], 0
        total += own
        weight += own
        if total <= allowed and kept < limits.predicate_filters:
            kept += 1
            waiting.append(filter_)
        elif filter_.suite in rest or len(rest) < _SUITES:
            rest[filter_.suite] = rest.get(filter_.suite, filter_.bits) & filter_.bits
        else:
            everything = True
    waiting += [ANY_FILTER] if everything else [BloomFilter(suite, bits) for suite, bits in rest.items()]
    yield Chunk(BloomPredicate(waiting), weight, bool(rest) or everything, last=True)
