"""A simplified disjunction of filters that grows one filter at a time."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

from router.predicates import intervals as iv
from router.predicates.boxes import covered_jointly
from router.predicates.index import FilterIndex
from router.predicates.model import Predicate
from router.predicates.normal import Family, NormalFilter
from router.predicates.thresholds import Bits
from router.predicates.values import ValueSet, includes_union, pieces


class FilterSet:
    """Filters of which none is needless: none is covered by another, or by others on one attribute.

    Candidates for covering come from a `FilterIndex`. Filters that differ in one attribute are kept by
    family (`NormalFilter.families`), because they can be merged into one that allows the union of their
    values.
    """

    def __init__(self, filters: Iterable[NormalFilter] = ()) -> None:
        self._index = FilterIndex()
        self._families: dict[Family, Bits] = {}
        #: The filters in canonical order.
        self._sorted: list[NormalFilter] = []
        for filter_ in sorted(filters, key=_key):
            self.add(filter_)

    def __len__(self) -> int:
        return len(self._index)

    def copy(self) -> FilterSet:
        """An independent copy."""
        other = FilterSet()
        other._index = self._index.copy()
        other._families = dict(self._families)
        other._sorted = list(self._sorted)
        return other

    def predicate(self) -> Predicate:
        """The disjunction, in canonical filters, in their fixed order."""
        return Predicate(tuple(member.filter for member in self._sorted))

    def covers(self, filter_: NormalFilter) -> bool:
        """Whether the filters are known to match every message that `filter_` matches.

        Sound. Exact where one filter alone covers it, where several do that differ from it in what they ask
        of one attribute (if that is not about suffixes or substrings), and where several do together on any
        number of attributes by intervals, within the bound of `router.predicates.boxes`.
        """
        return self._covers(filter_) or covered_jointly(filter_, self._index)

    def add(self, filter_: NormalFilter) -> bool:
        """Add a filter, and simplify; False if it was covered and nothing has changed.

        Covering by several members on several attributes is not looked for: see `drop_covered_jointly`.
        """
        if self._covers(filter_):
            return False
        self.add_uncovered(filter_)
        return True

    def add_uncovered(self, filter_: NormalFilter) -> None:
        """As `add`, for a filter that is known not to be covered (`covers`)."""
        waiting = [filter_]
        while waiting:
            new = waiting.pop()
            if new is not filter_ and self._covers(new):
                continue
            merged = self._merge(new)
            if merged:
                waiting += merged
            else:
                self._drop_covered(new, self._insert(new))

    def drop_covered_jointly(self) -> bool:
        """Take out members that others cover together, in canonical order; whether there were any."""
        needless = False
        for member in list(self._sorted):
            if covered_jointly(member, self._index, hidden=self._index.bit(member)):
                self._remove(member)
                needless = True
        return needless

    def _covers(self, filter_: NormalFilter, hidden: Bits = 0) -> bool:
        """Whether a member, or several on one attribute, cover the filter; `hidden` are left out."""
        whole, parts = self._index.covering(filter_)
        partial: dict[str, list[ValueSet]] = {}
        for candidates in (whole & ~hidden, parts & ~hidden):
            for candidate in self._index.select(candidates):
                failed = candidate.failures(filter_)
                if not failed:
                    return True
                if len(failed) == 1:
                    partial.setdefault(failed[0], []).append(candidate.attributes[failed[0]])
        return any(
            len(sets) > 1 and includes_union(sets, filter_.attributes[name]) for name, sets in partial.items()
        )

    def _merge(self, new: NormalFilter) -> list[NormalFilter]:
        """Filters to stand for `new` and some of its family, which are taken out; none if none are fewer."""
        for attribute, family in new.families.items():
            index = self._index.attribute(attribute)
            relatives = self._families.get(family, 0)
            if index is None or not relatives:
                continue
            name, values = attribute[0], new.attributes[attribute[0]]
            members = list(self._index.select(relatives & index.beside(values)))
            joined = iv.union(values.intervals, *(member.attributes[name].intervals for member in members))
            parts = pieces(ValueSet(values.type, joined, values.suffix, values.substrings))
            if len(parts) <= len(members):
                for member in members:
                    self._remove(member)
                return [new.with_values(name, part) for part in parts]
        return []

    def _drop_covered(self, new: NormalFilter, itself: Bits) -> None:
        """Take out what `new`, which is the member `itself`, has made needless."""
        whole, parts = self._index.covered(new)
        needless: list[NormalFilter] = []
        doubtful: list[NormalFilter] = []
        for member in self._index.select((whole | parts) & ~itself):
            failed = new.failures(member)
            if not failed:
                needless.append(member)
            elif len(failed) == 1:
                doubtful.append(member)
        for member in needless:
            self._remove(member)
        for member in sorted(doubtful, key=_key):
            if self._covers(member, hidden=self._index.bit(member)):
                self._remove(member)

    def _insert(self, filter_: NormalFilter) -> Bits:
        bit = self._index.add(filter_)
        for family in filter_.families.values():
            self._families[family] = self._families.get(family, 0) | bit
        insort(self._sorted, filter_, key=_key)
        return bit

    def _remove(self, filter_: NormalFilter) -> None:
        bit = self._index.remove(filter_)
        for family in filter_.families.values():
            rest = self._families[family] ^ bit
            if rest:
                self._families[family] = rest
            else:
                del self._families[family]
        del self._sorted[bisect_left(self._sorted, filter_.key, key=_key)]


def _key(filter_: NormalFilter) -> tuple[tuple[object, ...], ...]:
    return filter_.key
