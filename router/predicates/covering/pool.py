"""The pool of filters of a process: each filter is stored once, with its relations to the others.

The tables of a router largely contain the same filters: p_i of each interface, and what RA filtering stores
for each class of issuers; so do the tables of all routers of a simulation. The pool interns each filter under
a number; a table is a set of numbers (`router.predicates.covering.bitset.Bits`). Whether one filter covers
another is computed once, when a table first needs it. Most further questions are an intersection of sets.

Answers depend on the filters alone, not on their numbers: processes with different histories agree. This
includes questions that are cut off because a filter is related to too many others (`PAIRS_MAX`), which counts
the filters to be considered and not those that this process has yet to compare.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from router.predicates import Message, Predicate
from router.predicates.covering import intervals as iv
from router.predicates.covering.bitset import Bits, bits_of, numbers_in
from router.predicates.covering.index import FilterIndex
from router.predicates.covering.normal import NormalFilter, normalise
from router.predicates.covering.numbering import FilterAlgebra, store
from router.predicates.covering.relations import Relations, covered_jointly
from router.predicates.covering.values import ValueSet, includes, includes_union, pieces

#: The least number of filters at which the pool looks for filters that no table holds any more.
_SWEEP_AT = 1024
#: A filter is compared with others of a table, one by one, if at most so many are related to it. If there are
#: more, the index answers for those with single intervals, and other filters count as not covering, and not
#: covered: a table then has more filters than it needs, and matches the same messages.
PAIRS_MAX = 256
#: Pairs that it takes to see whether a filter is covered by others together, beside which it is stored.
_PAIRS_EACH = 16
#: Intervals of filters that are merged at once.
INTERVALS_MAX = 2_048
#: The comparison of filters with suffixes, substrings or gaps takes the time of this many others.
_PATTERN_PAIRS = 8


class FilterPool(FilterAlgebra):
    """Filters by number, and the relations between them.

    A number is valid as long as a registered holder has it (`register`). A number that no holder has is
    valid until the next call of `numbers`.

    Args:
        pairs: filters of a table with which a filter is compared (`PAIRS_MAX`).
    """

    def __init__(self, pairs: int = PAIRS_MAX) -> None:
        self._most_pairs, self._few_pairs = pairs, pairs // _PATTERN_PAIRS
        self._index = FilterIndex()
        super().__init__(self._index.canonical, self._index.keys)
        self._numbers: dict[tuple[tuple[str, ValueSet], ...], int] = {}
        self._relations: dict[int, Relations] = {}
        #: The filters with suffixes, substrings or gaps.
        self._costly: Bits = 0
        self._sweep_at = _SWEEP_AT
        self._covered: OrderedDict[tuple[int, Bits, bool], bool] = OrderedDict()
        #: Filters that match the same as others together.
        self._merges: OrderedDict[tuple[int, Bits], tuple[int, ...]] = OrderedDict()
        #: Searches for filters that cover another which were cut off (`PAIRS_MAX`, `relations`).
        self.undecided = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def _is_comparable(self, relations: Relations, near: Bits) -> bool:
        """Whether filters related to a filter are few enough to be compared with it one by one."""
        costly = near if relations.bit & self._costly else near & self._costly
        return near.bit_count() + costly.bit_count() * (_PATTERN_PAIRS - 1) <= self._most_pairs

    # Filters and numbers.

    def numbers(self, predicate: Predicate) -> tuple[int, ...]:
        """Returns the filters of a predicate that some message can match, in canonical order.

        Interns them. Filters that no registered holder has may be removed from the pool first.
        """
        known = predicate.numbered
        if known is not None and known[0] is self._numbering:
            return known[1]
        normals = [normal for normal in map(normalise, predicate) if normal is not None]
        if len(self) >= self._sweep_at:
            self._sweep_if_worthwhile()
        found = tuple(dict.fromkeys(map(self.number, sorted(normals, key=lambda normal: normal.key))))
        object.__setattr__(predicate, "numbered", (self._numbering, found, None))
        return found

    def simplified(self, predicate: Predicate) -> Bits:
        """Returns the filters of a predicate as a simplified set.

        No filter is covered by another, or by others that differ from it in one attribute only. Interns the
        filters as `numbers` does.
        """
        numbers = self.numbers(predicate)
        known = predicate.numbered
        assert known is not None
        if known[2] is not None:
            return known[2]
        found = self.add(0, numbers, jointly=False)
        object.__setattr__(predicate, "numbered", (self._numbering, numbers, found))
        return found

    def number(self, filter_: NormalFilter) -> int:
        """Returns the number of a filter; interns it if it is new."""
        key = tuple(filter_.attributes.items())
        found = self._numbers.get(key)
        return self._intern(filter_, key) if found is None else found

    def filter(self, number: int) -> NormalFilter:
        return self._index.filter(number)

    # Questions.

    def covers(self, members: Bits, number: int) -> bool:
        relations = self._related(number, members)
        return bool(members & relations.bit) or self._covers(relations, members)

    def _covers(self, relations: Relations, members: Bits, jointly: bool = True) -> bool:
        """As `covers`, of a filter that is up to date (`_related`), by other members than itself.

        Args:
            jointly: whether to look for several members that cover the filter together and differ from it
                in more than one attribute.
        """
        near = members & relations.possible_covers
        if not near:
            return False
        if near.bit_count() > self._few_pairs and not self._is_comparable(relations, near):
            self.undecided += 1
            return bool(near & self._index.ranges_around(self.filter(relations.number)))
        if new := near & ~relations.compared_covers:
            self._compare(relations, new)
        if near & relations.covers:
            return True
        if relations.is_box and not (near & relations.low_corner and near & relations.high_corner):
            return False
        # A single member that does not cover the filter.
        return bool(near & (near - 1)) and self._covered_by_several(relations, near, jointly)

    def _covered_by_several(self, relations: Relations, near: Bits, jointly: bool) -> bool:
        """Whether several possible covers of a filter, compared with it, are known to cover it together."""
        key = relations.number, near, jointly
        answer = self._covered.get(key)
        if answer is None:
            answer = self._on_one_attribute(relations, near)
            if jointly and not answer:
                found = covered_jointly(self.filter(relations.number), self._index, near)
                self.undecided += found is None
                answer = bool(found)
            store(self._covered, key, answer)
        return answer

    def add(self, members: Bits, numbers: Iterable[int], jointly: bool = True) -> Bits:
        """Returns the union of the members and further filters, simplified.

        Returns the members unchanged if they cover all of the filters.

        Args:
            jointly: as for `_covers`.
        """
        for number in numbers:
            relations = self._related(number, members)
            near = members & relations.related
            if not near:
                members |= relations.bit
            elif not near & relations.bit and not self._covers(relations, near, jointly):
                members = self._with(members, relations)
        return members

    def _matching(self, message: Message) -> Bits:
        return self._index.matching(message)

    # How answers are computed.

    def covered_members(self, relations: Relations, members: Bits) -> tuple[Bits, Bits]:
        """The members that a filter covers, and those that it covers but for values of one attribute."""
        near = members & relations.possibly_covered
        if not near:
            return 0, 0
        if near.bit_count() > self._few_pairs and not self._is_comparable(relations, near):
            return near & self._index.inside_ranges(self.filter(relations.number)), 0
        new = near & ~relations.compared_covered
        if new:
            self._compare_covered(relations, new)
        return near & relations.covered, near & relations.covered_except_one

    def merged(self, relations: Relations, members: Bits) -> tuple[Bits, tuple[int, ...]]:
        """Members, and filters that match what these members and a new filter match together.

        All of them differ in the intervals of one attribute only, and the filters are no more than the
        members. Both are empty if there is no such attribute.
        """
        for attribute, mergeable in relations.mergeable.items():
            merging = members & mergeable
            if not merging or merging.bit_count() > self._most_pairs:
                continue
            key = relations.number, merging
            entry = self._merges.get(key)
            if entry is None:
                entry = self._merge(relations.number, attribute[0], merging)
                store(self._merges, key, entry)
            if entry:
                return merging, entry
        return 0, ()

    def _with(self, members: Bits, relations: Relations) -> Bits:
        """The union of the members and a filter that they do not cover, simplified."""
        merging, instead = self.merged(relations, members)
        if not merging:
            return self._beside(members, relations)
        members, waiting = members ^ merging, list(instead)
        while waiting:
            relations = self._related(waiting.pop(), members)
            if members & relations.bit or self._covers(relations, members, jointly=False):
                continue
            merging, instead = self.merged(relations, members)
            if merging:
                members ^= merging
                waiting += instead
            else:
                members = self._beside(members, relations)
        return members

    def _beside(self, members: Bits, relations: Relations) -> Bits:
        """The union of the members and a filter that is merged with none of them, simplified."""
        covered, candidates = self.covered_members(relations, members)
        members = members & ~covered | relations.bit
        # Each of them is compared with others in its turn.
        if candidates and candidates.bit_count() <= self._most_pairs // _PAIRS_EACH:
            members = self._without_covered(members, candidates)
        return members

    def _without_covered(self, members: Bits, candidates: Bits) -> Bits:
        """The members without those of the candidates that others cover together, on one attribute."""
        found: Bits = 0
        for number in numbers_in(candidates):
            relations = self._related(number, members)
            if self._covers(relations, members, jointly=False):
                found |= relations.bit
        # Two candidates may each be covered with the help of the other: only one is removed.
        for number in self.in_order(found) if found else ():
            relations = self._relations[number]
            if self._covers(relations, members, jointly=False):
                members ^= relations.bit
        return members

    def _merge(self, number: int, name: str, merging: Bits) -> tuple[int, ...]:
        """The union of a filter and of filters that differ from it in one attribute; empty if it has more."""
        filter_ = self.filter(number)
        values = filter_.attributes[name]
        others = [member.attributes[name].intervals for member in self._index.select(merging)]
        if sum(map(len, others)) > INTERVALS_MAX:
            return ()
        joined = iv.union(values.intervals, *others)
        parts = pieces(ValueSet(values.type, joined, values.suffix, values.substrings))
        if len(parts) > len(others):
            return ()
        return tuple(self.number(NormalFilter({**filter_.attributes, name: part})) for part in parts)

    def _compare(self, relations: Relations, others: Bits) -> None:
        """Computes the relations of a filter to others of its possible covers."""
        own = {
            name: (values, values.intervals[0][0], values.intervals[-1][1])
            for name, values in self.filter(relations.number).attributes.items()
        }
        is_box = relations.is_box
        covers, lows, highs = [], [], []
        covers_except: dict[str, list[int]] = {}
        for other in numbers_in(others):
            failures, failed = 0, ""
            contains_low = contains_high = True
            # A possible cover constrains no attribute that the filter does not constrain.
            for name, values in self.filter(other).attributes.items():
                covered, low, high = own[name]
                if is_box and len(values.intervals) == 1 and not values.suffix and not values.substrings:
                    # Most pairs: an interval, and a set of values without patterns.
                    ((start, end),) = values.intervals
                    at_low, at_high = start <= low < end, start < high <= end
                    included = at_low and at_high
                else:
                    included = includes(values, covered)
                    at_low = is_box and iv.contains(values.intervals, low)
                    at_high = is_box and iv.contains_below(values.intervals, high)
                if not included:
                    failures, failed = failures + 1, name
                contains_low = contains_low and at_low
                contains_high = contains_high and at_high
            if not failures:
                covers.append(other)
            elif failures == 1:
                covers_except.setdefault(failed, []).append(other)
            if is_box and contains_low:
                lows.append(other)
            if is_box and contains_high:
                highs.append(other)
        relations.covers |= bits_of(covers)
        relations.low_corner |= bits_of(lows)
        relations.high_corner |= bits_of(highs)
        for name, found in covers_except.items():
            relations.covers_except[name] = relations.covers_except.get(name, 0) | bits_of(found)
        relations.compared_covers |= others

    def _compare_covered(self, relations: Relations, others: Bits) -> None:
        """Computes the relations of a filter to others that it possibly covers."""
        filter_ = self.filter(relations.number)
        covered, except_one = [], []
        for other in numbers_in(others):
            failed = filter_.failures(self.filter(other))
            if not failed:
                covered.append(other)
            elif len(failed) == 1:
                except_one.append(other)
        relations.covered |= bits_of(covered)
        relations.covered_except_one |= bits_of(except_one)
        relations.compared_covered |= others

    def _on_one_attribute(self, relations: Relations, near: Bits) -> bool:
        """Whether several of these filters, which cover a filter but for one attribute, cover it together."""
        attributes = self.filter(relations.number).attributes
        for name, bits in relations.covers_except.items():
            several = bits & near
            if several & (several - 1):
                sets = (member.attributes[name] for member in self._index.select(several))
                if includes_union(sets, attributes[name]):
                    return True
        return False

    # Adding and removing filters.

    def _intern(self, filter_: NormalFilter, key: tuple[tuple[str, ValueSet], ...]) -> int:
        bit = self._index.add(filter_)
        number = self._numbers[key] = bit.bit_length() - 1
        self._relations[number] = Relations(filter_, bit)
        if any(len(each.intervals) > 1 or not each.is_plain for each in filter_.attributes.values()):
            self._costly |= bit
        self._version += 1
        return number

    def _related(self, number: int, members: Bits) -> Relations:
        """The relations of a filter, up to date as far as the members are concerned."""
        relations = self._relations[number]
        # The same object if no filter was interned since.
        if relations.searched is not self._index.members and members & ~relations.searched:
            self._search(relations)
        return relations

    def _search(self, relations: Relations) -> None:
        """Looks up the relations of a filter in the index."""
        index, filter_ = self._index, self.filter(relations.number)
        covers, covered = index.related(filter_)
        others = index.members & ~relations.bit
        relations.possible_covers = covers & others
        relations.possibly_covered = covered & others
        relations.related = (covers | covered) & others | relations.bit
        for attribute in relations.mergeable:
            mergeable = relations.mergeable[attribute] = index.mergeable(filter_, attribute, others)
            relations.related |= mergeable
        relations.searched = index.members

    def _sweep_if_worthwhile(self) -> None:
        """Sweeps if this removes a quarter of the filters: a sweep takes time."""
        held = self._held().bit_count()
        if 4 * held <= 3 * len(self):
            self.sweep()
        else:
            self._sweep_at = 2 * held

    def sweep(self) -> None:
        """Removes the filters that no registered holder has; their numbers are given to others."""
        live = self._held()
        gone = self._index.members & ~live
        self._costly &= live
        self._renumber()
        self._covered.clear()
        self._merges.clear()
        before = after = self._index.members
        after &= live
        for number in numbers_in(live):
            relations = self._relations[number]
            relations.remove(gone)
            # Filters that were looked up one after the other share the set.
            if relations.searched is not before:
                before = relations.searched
                after = before & ~gone
            relations.searched = after
        for number in numbers_in(gone):
            del self._relations[number]
            del self._numbers[tuple(self.filter(number).attributes.items())]
        self._index.remove(gone)
        self._sweep_at = max(_SWEEP_AT, 2 * len(self))


#: The pool of the process.
POOL = FilterPool()
