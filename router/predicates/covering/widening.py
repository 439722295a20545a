"""The weight of a predicate, and the widening of a predicate that exceeds a bound.

The weight of a filter stands for the time that the algebra of filters takes for it, some 25 us for each unit.
The indexes of the pool find what is related to an equality, an order or a prefix: each counts one. A filter
with ``!=``, a suffix or a substring is compared with others: each of these counts four. A filter counts one
by itself, and one more for each 160 bytes of its names and strings.

A predicate within its bounds is unchanged. Beyond them it is widened: it then matches more messages, and
every message that the original matches. No receiver loses a message by it.

`oversimplify` reduces the number of filters. Source: protocol paper, section 3.5.6, which gives the idea and
an example and leaves the algorithm open. A wider table costs unwanted traffic and never a receiver: the
result covers the original predicate.

Two filters are merged into the narrowest filter that covers both (`normal.merge`). It constrains the
attributes that both constrain, to the values from the lower to the higher end, with the patterns that both
require. The two filters are chosen by their *widening*: the estimated share of messages that the merged
filter matches and neither of the two does. The estimate depends on the predicate alone:

- the bounds of the predicate's filters on an attribute divide its values into cells, and each cell is
  assumed to contain the same share of the values, so that the unit of an attribute has no influence;
- a suffix or substring of n characters (the longest, if there are several) is assumed to be in 1/(n+1) of
  the strings; values excluded by ``!=`` count as allowed;
- a message has a given attribute with probability 1/2, and attributes are independent of each other.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from router.predicates import EVERYTHING, Constraint, Filter, Operator, Predicate
from router.predicates.covering.algebra import simplify
from router.predicates.covering.normal import Attribute, NormalFilter, merge, normalise
from router.predicates.covering.pool import POOL
from router.predicates.covering.values import DOMAINS, ValueSet, common_patterns

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


_PRESENT = 0.5
#: Filters up to which the closest two are searched for among all, if `max_filters` is not greater.
_CLOSEST = 128
_Row = NDArray[np.float64]


def oversimplify(predicate: Predicate, max_filters: int) -> Predicate:
    """Returns a predicate of at most `max_filters` filters that covers `predicate`.

    A predicate that has few enough filters after simplification is not widened. Otherwise the two filters
    with the least widening are merged repeatedly, which is n² elementary steps in NumPy for n filters.
    Beyond some hundred filters, neighbours of the canonical order are merged first, in time that is linear in
    their number. The result does not depend on the order of the filters. Two filters without a common
    attribute are merged into ``*``, so a `max_filters` that is too small leads to ``*``.

    Args:
        max_filters: 1 or more.
    """
    simple = POOL.predicate(POOL.simplified(predicate))
    most = max(_CLOSEST, 2 * max_filters)
    if len(simple) <= most:
        simple = simplify(simple)
    if len(simple) <= max_filters:
        return simple
    filters = [normal for normal in map(normalise, simple) if normal is not None]
    if len(filters) > most:
        filters = _neighbours_merged(filters, most)
    if len(filters) > max_filters:
        filters = _Merging(filters).merged(max_filters)
    return simplify(Predicate(tuple(member.filter for member in filters)))


def _neighbours_merged(filters: Sequence[NormalFilter], most: int) -> list[NormalFilter]:
    """At most so many filters that cover those given: filters of one signature are merged in runs.

    Filters of different signatures are merged only if there are too many signatures.
    """
    by_signature: dict[frozenset[Attribute], list[NormalFilter]] = {}
    for filter_ in filters:
        by_signature.setdefault(filter_.signature, []).append(filter_)
    groups = list(by_signature.values()) if 2 * len(by_signature) <= most else [list(filters)]
    # Each group has at least one run, and the others are divided by the sizes of the groups.
    runs = most - len(groups)
    found: list[NormalFilter] = []
    for group in groups:
        count = 1 + runs * len(group) // len(filters)
        size = -(-len(group) // count)
        for start in range(0, len(group), size):
            merged = group[start]
            for other in group[start + 1 : start + size]:
                merged = merge(merged, other, exclusions=False)
            found.append(merged)
    return found


class _Column:
    """The constraints of the filters on one attribute, in arrays with an element for each filter."""

    def __init__(self, attribute: Attribute, filters: list[NormalFilter]) -> None:
        kind = attribute[1]
        bottom, top = DOMAINS[kind]
        sets = [filter_.attributes[attribute[0]] for filter_ in filters if attribute in filter_.signature]
        ends = {end for values in sets for end in (values.intervals[0][0], values.intervals[-1][1])}
        self._bounds: list[Any] = sorted(ends - {bottom, top})
        self._cells = len(self._bounds) + 1
        self.present = np.zeros(len(filters), dtype=np.bool_)
        #: Each filter allows the cells from `first` to `end` - 1.
        self._first = np.zeros(len(filters), dtype=np.int64)
        self._end = np.zeros(len(filters), dtype=np.int64)
        #: The number of each distinct pattern; the pattern of each filter; and for two patterns the share of
        #: what they have in common (a row is computed when it is first needed).
        self._patterns: dict[ValueSet, int] = {}
        self._pattern = np.zeros(len(filters), dtype=np.int64)
        self._common: dict[int, list[float]] = {}
        #: For each filter, the share of strings with its pattern, and of messages with an allowed value.
        self._alone = np.ones(len(filters))
        self.shares = np.ones(len(filters))
        for row, filter_ in enumerate(filters):
            if attribute in filter_.signature:
                self.put(row, filter_.attributes[attribute[0]])

    def put(self, row: int, values: ValueSet) -> None:
        """Sets the values that filter number `row` allows."""
        self.present[row] = True
        self._first[row] = bisect_right(self._bounds, values.intervals[0][0])
        self._end[row] = bisect_left(self._bounds, values.intervals[-1][1]) + 1
        pattern = ValueSet(values.type, (), values.suffix, values.substrings)
        self._pattern[row] = self._patterns.setdefault(pattern, len(self._patterns))
        self._alone[row] = _pattern_share(pattern)
        cells = int(self._end[row] - self._first[row])
        self.shares[row] = cells * (_PRESENT / self._cells) * self._alone[row]

    def drop(self, row: int) -> None:
        """Removes the constraints of filter number `row` on the attribute."""
        self.present[row] = False
        self.shares[row] = 1.0

    def shares_with(self, row: int) -> tuple[_Row, _Row]:
        """Returns, for `row` and each filter, the shares of the merged values and of the common values."""
        first, end, number = self._first[row], self._end[row], int(self._pattern[row])
        merged = np.maximum(self._end, end) - np.minimum(self._first, first)
        both = np.maximum(np.minimum(self._end, end) - np.maximum(self._first, first), 0)
        common = np.array(self._common_with(number))[self._pattern]
        narrower = np.minimum(self._alone, self._alone[row])
        scale = _PRESENT / self._cells
        return merged * scale * common, both * scale * narrower

    def _common_with(self, number: int) -> list[float]:
        row = self._common.setdefault(number, [])
        patterns = list(self._patterns)
        for other in patterns[len(row) :]:
            joined = ValueSet(other.type, (), *common_patterns(patterns[number], other))
            row.append(_pattern_share(joined))
        return row


def _pattern_share(values: ValueSet) -> float:
    return 1 / (1 + max(map(len, (values.suffix, *values.substrings))))


class _Merging:
    """Filters, each with its partner: the filter whose merging with it has the least widening.

    After a merge, only the widenings of the merged filter are recomputed. A filter whose partner was merged
    keeps its old least widening as a lower bound, because the true value cannot be smaller; it is recomputed
    when this bound is the smallest of all.
    """

    def __init__(self, filters: list[NormalFilter]) -> None:
        self._filters: list[NormalFilter | None] = list(filters)
        attributes = sorted({attribute for filter_ in filters for attribute in filter_.signature})
        self._columns = {attribute: _Column(attribute, filters) for attribute in attributes}
        self._shares = np.array([self._share(row) for row in range(len(filters))])
        self._least = np.zeros(len(filters))
        self._partner = np.zeros(len(filters), dtype=np.int64)
        self._gone = np.zeros(len(filters), dtype=np.bool_)
        self._stale = np.zeros(len(filters), dtype=np.bool_)

    def merged(self, count: int) -> list[NormalFilter]:
        """The `count` filters that are left when the closest ones have been merged."""
        for row in range(len(self._filters)):
            self._look(row)
        for _ in range(len(self._filters) - count):
            self._merge_closest()
        return [filter_ for filter_ in self._filters if filter_ is not None]

    def _merge_closest(self) -> None:
        """Merges the two filters with the least widening."""
        while self._stale[row := int(np.argmin(self._least))]:
            self._look(row)
        kept, dropped = sorted((row, int(self._partner[row])))
        a, b = self._filters[kept], self._filters[dropped]
        assert a is not None and b is not None
        merged = merge(a, b)
        self._filters[kept], self._filters[dropped] = merged, None
        for attribute in a.signature:
            self._columns[attribute].drop(kept)
        for attribute in b.signature:
            self._columns[attribute].drop(dropped)
        for attribute, values in merged.items():
            self._columns[attribute].put(kept, values)
        self._shares[kept] = self._share(kept)
        self._gone[dropped] = True
        self._least[dropped] = np.inf
        self._stale |= np.isin(self._partner, (kept, dropped))
        self._stale[dropped] = False
        widening = self._look(kept)
        closer = (widening < self._least) | (self._stale & (widening <= self._least))
        closer[kept] = False
        self._least[closer] = widening[closer]
        self._partner[closer] = kept
        self._stale[closer] = False

    def _look(self, row: int) -> _Row:
        """Finds the partner of a filter; returns its widening with each filter (infinite with itself)."""
        widening = self._widening(row)
        self._partner[row] = int(np.argmin(widening))
        self._least[row] = widening[self._partner[row]]
        self._stale[row] = False
        return widening

    def _share(self, row: int) -> float:
        """The share of messages that filter number `row` matches."""
        filter_ = self._filters[row]
        assert filter_ is not None
        share = 1.0
        for attribute in sorted(filter_.signature):
            share *= float(self._columns[attribute].shares[row])
        return share

    def _widening(self, row: int) -> _Row:
        filter_ = self._filters[row]
        assert filter_ is not None
        merged = np.ones(len(self._filters))
        both = self._shares.copy()
        for attribute in sorted(filter_.signature):
            column = self._columns[attribute]
            of_merged, of_both = column.shares_with(row)
            merged *= np.where(column.present, of_merged, 1.0)
            both *= np.where(column.present, of_both / column.shares, column.shares[row])
        widening: _Row = np.maximum(merged - self._shares[row] - self._shares + both, 0.0)
        widening[self._gone] = np.inf
        widening[row] = np.inf
        return widening
