"""A simplified disjunction of filters that grows one filter at a time."""

from __future__ import annotations

from collections.abc import Iterable

from router.predicates import intervals as iv
from router.predicates.model import Predicate
from router.predicates.normal import Family, NormalFilter
from router.predicates.values import ValueSet, includes_union, overlaps, pieces


class FilterSet:
    """Filters of which none is needless: none is covered by another, or by others on one attribute.

    Filters are indexed by their set of attribute names, because a filter can only cover filters that
    constrain at least its own attributes, and by family (`NormalFilter.families`), because filters that
    differ in one attribute can be merged into one that allows the union of their values.
    """

    def __init__(self, filters: Iterable[NormalFilter] = ()) -> None:
        self._members: dict[NormalFilter, None] = {}
        self._by_names: dict[frozenset[str], dict[NormalFilter, None]] = {}
        self._families: dict[Family, tuple[NormalFilter, ...]] = {}
        for filter_ in sorted(filters, key=lambda f: f.key):
            self.add(filter_)

    def __len__(self) -> int:
        return len(self._members)

    def copy(self) -> FilterSet:
        """An independent copy."""
        other = FilterSet()
        other._members = dict(self._members)
        other._by_names = {names: dict(group) for names, group in self._by_names.items()}
        other._families = dict(self._families)
        return other

    def predicate(self) -> Predicate:
        """The disjunction, in canonical filters, in their fixed order."""
        return Predicate(tuple(f.filter for f in sorted(self._members, key=lambda f: f.key)))

    def covers(self, filter_: NormalFilter, without: NormalFilter | None = None) -> bool:
        """Whether the filters, but for `without`, match every message that `filter_` matches.

        Sound. Exact where one filter alone covers it, and where several do that differ from it in what
        they ask of one attribute (if that is not about suffixes or substrings).
        """
        partial: dict[str, list[ValueSet]] = {}
        for names, group in self._by_names.items():
            if not names <= filter_.names:
                continue
            for candidate in group:
                if candidate is without:
                    continue
                failed = candidate.failures(filter_)
                if not failed:
                    return True
                if len(failed) == 1:
                    partial.setdefault(failed[0], []).append(candidate.attributes[failed[0]])
        return any(
            len(sets) > 1 and includes_union(sets, filter_.attributes[name]) for name, sets in partial.items()
        )

    def add(self, filter_: NormalFilter) -> bool:
        """Add a filter, and simplify; False if it was covered and nothing has changed."""
        changed = False
        waiting = [filter_]
        while waiting:
            new = waiting.pop()
            if self.covers(new):
                continue
            changed = True
            merged = self._merge(new)
            if merged:
                waiting += merged
            else:
                self._insert(new)
                self._drop_covered(new)
        return changed

    def _merge(self, new: NormalFilter) -> list[NormalFilter]:
        """Filters to stand for `new` and a family of members, which are taken out; none if none are fewer."""
        for name, family in new.families.items():
            members = self._families.get(family, ())
            if not members:
                continue
            values = new.attributes[name]
            joined = iv.union(values.intervals, *(member.attributes[name].intervals for member in members))
            parts = pieces(ValueSet(values.type, joined, values.suffix, values.substrings))
            if len(parts) <= len(members):
                for member in members:
                    self._remove(member)
                return [new.with_values(name, part) for part in parts]
        return []

    def _drop_covered(self, new: NormalFilter) -> None:
        """Take out what `new` has made needless."""
        needless: list[NormalFilter] = []
        doubtful: list[NormalFilter] = []
        for names, group in self._by_names.items():
            if not new.names <= names:
                continue
            for member in group:
                if member is new:
                    continue
                failed = new.failures(member)
                if not failed:
                    needless.append(member)
                elif len(failed) == 1 and overlaps(new.attributes[failed[0]], member.attributes[failed[0]]):
                    doubtful.append(member)
        for member in needless:
            self._remove(member)
        for member in sorted(doubtful, key=lambda f: f.key):
            if self.covers(member, without=member):
                self._remove(member)

    def _insert(self, filter_: NormalFilter) -> None:
        self._members[filter_] = None
        self._by_names.setdefault(filter_.names, {})[filter_] = None
        for family in filter_.families.values():
            self._families[family] = (*self._families.get(family, ()), filter_)

    def _remove(self, filter_: NormalFilter) -> None:
        del self._members[filter_]
        group = self._by_names[filter_.names]
        del group[filter_]
        if not group:
            del self._by_names[filter_.names]
        for family in filter_.families.values():
            rest = tuple(member for member in self._families[family] if member is not filter_)
            if rest:
                self._families[family] = rest
            else:
                del self._families[family]
