"""The weight of a predicate, and the widening of a predicate that exceeds a bound.

The weight of a filter stands for the time that the algebra of filters takes for it, some 25 us for each unit.
The indexes of the pool find what is related to an equality, an order or a prefix: each counts one. A filter
with ``!=``, a suffix or a substring is compared with others: each of these counts four. A filter counts one
by itself, and one more for each 160 bytes of its names and strings.

A predicate within its bounds is unchanged. Beyond them it is widened: it then matches more messages, and
every message that the original matches. No receiver loses a message by it.
"""

from __future__ import annotations

from collections.abc import Iterable

from router.predicates.covering.merging import merge
from router.predicates.covering.normal import Attribute, NormalFilter, normalise
from router.predicates.model import EVERYTHING, Constraint, Filter, Operator, Predicate

#: Bytes of names and strings that count as one constraint.
_BYTES = 160
#: Constraints that count four.
_DEAR = frozenset({Operator.NE, Operator.SUFFIX, Operator.SUBSTRING})
_DEAR_WEIGHT = 4
#: The greatest bound on the weight of a filter (`[protocol] filter_weight`). The texts of a filter of more
#: constraints are not read: it exceeds every bound without them.
FILTER_WEIGHT_MAX = 5_000
#: Filters beyond the bounds that are read and merged; with more, the predicate matches everything.
MERGED_MAX = 250
#: Different sets of attributes for which the merged part of a predicate has a filter of its own.
_SIGNATURES = 64


def weight_of(filter_: Filter) -> int:
    """Returns the weight of a filter; texts do not count in a filter of more than 5,000 constraints."""
    if len(filter_) > FILTER_WEIGHT_MAX:
        return 1 + len(filter_)
    return 1 + sum(map(_weight, filter_)) + sum(map(_length, filter_)) // _BYTES


def _weight(constraint: Constraint) -> int:
    return _DEAR_WEIGHT if constraint.operator in _DEAR else 1


def _length(constraint: Constraint) -> int:
    value = constraint.value
    return len(constraint.name) + (len(value) if isinstance(value, str) else 0)


def total_weight(predicate: Predicate) -> int:
    """Returns the weight of all filters of a predicate; computed once for each object."""
    weight = predicate.weight
    if weight < 0:
        weight = sum(map(weight_of, predicate))
        object.__setattr__(predicate, "weight", weight)
    return weight


def widen(
    filters: Iterable[Filter], filter_weight: int, weight: int, most: int
) -> tuple[list[Filter], int, bool]:
    """Returns a predicate within bounds that covers a predicate.

    The leading constraints of a heavy filter are kept. The filters beyond the bounds of the predicate are
    merged into one filter for each set of attributes. If there are many such sets or many such filters, the
    predicate is ``*``, and the rest of its filters is not read.

    Args:
        filters: of the predicate.
        filter_weight: bounds the weight of a filter.
        weight, most: bound the weight of the predicate and the number of its filters.

    Returns:
        The filters; the weight of those that were read; whether the predicate was widened.

    Raises:
        Exception: what reading the filters raises.
    """
    kept: list[Filter] = []
    hulls: dict[frozenset[Attribute], NormalFilter] = {}
    total = excess = 0
    widened = False
    for original in filters:
        own, filter_ = weight_of(original), original
        if own > filter_weight:
            own, filter_, widened = filter_weight, _shortened(original, filter_weight), True
        total += own
        if total <= weight and len(kept) < most:
            kept.append(filter_)
            continue
        excess += 1
        normal = normalise(filter_)
        if normal is not None:
            known = hulls.get(normal.signature)
            hulls[normal.signature] = normal if known is None else merge(known, normal, exclusions=False)
        if excess > MERGED_MAX or len(hulls) > _SIGNATURES:
            return list(EVERYTHING), weight, True
    kept += [normal.filter for normal in hulls.values()]
    return kept, min(total, weight), widened or excess > 0


def _shortened(filter_: Filter, limit: int) -> Filter:
    """The leading constraints of a filter, up to a weight."""
    kept: list[Constraint] = []
    weight, length = 1, 0
    for constraint in filter_:
        weight += _weight(constraint)
        length += _length(constraint)
        if weight + length // _BYTES > limit:
            break
        kept.append(constraint)
    return Filter(tuple(kept))
