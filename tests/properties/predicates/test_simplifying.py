"""Covering by several filters, growing predicates, simplification and over-simplification, by brute force."""

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from router.predicates import (
    NOTHING,
    Constraint,
    Filter,
    Message,
    Operator,
    Predicate,
    Type,
    matches,
    matches_filter,
)
from router.predicates.covering import intervals as iv
from router.predicates.covering.algebra import PredicateBuilder, simplify
from router.predicates.covering.bitset import bits_of, numbers_in
from router.predicates.covering.index import FilterIndex
from router.predicates.covering.normal import NormalFilter, merge, normalise
from router.predicates.covering.pool import PAIRS_MAX, FilterPool
from router.predicates.covering.values import ValueSet, everything_with, includes, whole_domain
from router.predicates.covering.widening import oversimplify
from router.predicates.parser import parse_predicate
from router.predicates.printer import format_predicate
from tests.support.algebra import covers
from tests.support.predicate_worlds import (
    INTEGER_AND_BOOLEAN,
    MIXED,
    MIXED_WORLD,
    conjunctions,
    messages,
    predicates,
)

_THREE_NAMES = messages("xyz", INTEGER_AND_BOOLEAN)
_SIDES = 9


def overlap(a: ValueSet, b: ValueSet) -> bool:
    """Whether some value may be in both: never wrong when it says no."""
    return a.type is b.type and bool(iv.intersection(a.intervals, b.intervals))


@given(predicates("xyz", INTEGER_AND_BOOLEAN), conjunctions("xyz", INTEGER_AND_BOOLEAN))
@settings(max_examples=300, deadline=None)
def test_covering_by_intervals_of_several_attributes_is_exact(p: Predicate, filter_: Filter) -> None:
    q = Predicate((filter_,))
    assert covers(p, q) == all(matches(p, m) for m in _THREE_NAMES if matches(q, m))


def box(sides: dict[str, tuple[int, int]]) -> Filter:
    """The filter that asks low <= name < high for each name."""
    return Filter(
        tuple(
            Constraint(name, Type.INTEGER, operator, bound)
            for name, (low, high) in sides.items()
            for operator, bound in ((Operator.GE, low), (Operator.LT, high))
        )
    )


@st.composite
def partitions(draw: st.DrawFn) -> list[Filter]:
    """A cube of three attributes in pieces, made by cutting one piece after the other in two."""
    boxes = [dict.fromkeys("xyz", (0, _SIDES))]
    for _ in range(draw(st.integers(0, 12))):
        whole = boxes.pop(draw(st.integers(0, len(boxes) - 1)))
        name = draw(st.sampled_from("xyz"))
        low, high = whole[name]
        cut = draw(st.integers(low, high))
        boxes += [{**whole, name: side} for side in ((low, cut), (cut, high)) if side[0] < side[1]]
    return [box(sides) for sides in draw(st.permutations(boxes))]


@given(partitions(), st.data())
@settings(max_examples=200, deadline=None)
def test_a_box_is_covered_by_all_its_pieces_and_no_fewer(pieces: list[Filter], data: st.DataObject) -> None:
    whole = Predicate((box(dict.fromkeys("xyz", (0, _SIDES))),))
    assert covers(Predicate(tuple(pieces)), whole)
    missing = data.draw(st.integers(0, len(pieces) - 1))
    assert not covers(Predicate(tuple(pieces[:missing] + pieces[missing + 1 :])), whole)


@given(st.lists(conjunctions("xy", MIXED), max_size=8), conjunctions("xy", MIXED))
@settings(max_examples=400, deadline=None)
def test_the_index_misses_no_candidate(filters: list[Filter], asked: Filter) -> None:
    sought = normalise(asked)
    members = [normal for normal in map(normalise, dict.fromkeys(filters)) if normal is not None]
    if sought is None or sought in members:
        return
    index = FilterIndex()
    for member in members:
        index.add(member)
    covering, covered = (set(index.select(found)) for found in index.related(sought))
    mergeable = {
        attribute: set(index.select(index.mergeable(sought, attribute))) for attribute, _ in sought.items()
    }
    for member in members:
        assert member in covering or not helps(member, sought)
        assert member in covered or not helps(sought, member)
        for attribute, family in sought.families.items():
            if member.families.get(attribute) == family and sought.differs_only_in(attribute[0], member):
                meet = overlap(member.attributes[attribute[0]], sought.attributes[attribute[0]])
                assert not meet or member in mergeable[attribute]
    index.remove(index.members)
    assert not index.members
    assert index.related(sought) == (0, 0)


def helps(filter_: NormalFilter, covered: NormalFilter) -> bool:
    """Whether a filter covers another, but perhaps for part of what that asks of one attribute."""
    failed = filter_.failures(covered)
    if len(failed) != 1:
        return not failed
    theirs = covered.attributes.get(failed[0])
    return (
        theirs is not None
        and includes(everything_with(filter_.attributes[failed[0]]), theirs)
        and overlap(filter_.attributes[failed[0]], theirs)
    )


@given(st.lists(st.tuples(predicates("xy", MIXED), st.booleans()), max_size=6))
@settings(max_examples=150, deadline=None)
def test_messages_match_the_same_filters_while_others_come_and_go(
    steps: list[tuple[Predicate, bool]],
) -> None:
    pool, kept = FilterPool(), _Held()
    pool.register(kept)
    for predicate, others_go in steps:
        added = bits_of(pool.numbers(predicate))
        kept.members = added if others_go else kept.members | added
        if others_go:
            pool.sweep()
        for message in MIXED_WORLD[::3]:
            wanted = [n for n in numbers_in(kept.members) if matches_filter(pool.filter(n).filter, message)]
            # A copy: the pool remembers the answer about a message.
            assert list(numbers_in(pool.matching(Message(message)) & kept.members)) == wanted


@given(st.lists(predicates("xy", MIXED), max_size=5), st.data())
@settings(max_examples=150, deadline=None)
def test_what_a_pool_says_does_not_depend_on_its_past(asked: list[Predicate], data: st.DataObject) -> None:
    """Two pools, one of which has seen other filters and forgotten some: the same answers, and true ones."""
    pairs = data.draw(st.sampled_from([0, 3, 10, PAIRS_MAX]))
    young, old = FilterPool(pairs), FilterPool(pairs)
    kept = _Held()
    old.register(kept)
    for predicate in data.draw(
        st.permutations([*asked, *data.draw(st.lists(predicates("xy", MIXED), max_size=5))])
    ):
        for number in old.numbers(predicate):
            kept.members |= 1 << number
            old.covers(kept.members, number)
    if data.draw(st.booleans()):
        kept.members &= data.draw(st.integers(0, 1 << len(old)))
        old.sweep()
    *table, last = asked or [NOTHING]
    seen: list[list[object]] = []
    for pool in (young, old):
        members = 0
        for predicate in table:
            for number in pool.numbers(predicate):
                members |= 1 << number
                kept.members |= members if pool is old else 0
        sought = pool.numbers(last)
        answers = [pool.covers(members & ~(1 << number), number) for number in sought]
        below = [
            [
                set(pool.predicate(bits))
                for bits in pool.covered_members(pool._related(number, members), members)
            ]
            for number in sought
        ]
        merged = [pool.merged(pool._related(number, members), members) for number in sought]
        views = [(pool.predicate(bits), [pool.filter(n).filter for n in parts]) for bits, parts in merged]
        matched = [set(pool.predicate(members & pool.matching(message))) for message in MIXED_WORLD[::5]]
        table_of_all = pool.predicate(pool.add(0, pool.in_order(members)))
        seen.append([answers, below, views, matched, table_of_all])
    assert seen[0] == seen[1]
    wanted = Predicate(tuple(filter_ for predicate in table for filter_ in predicate))
    for message, matching in zip(MIXED_WORLD[::5], matched, strict=True):
        assert bool(matching) == matches(wanted, message)


class _Held:
    """Keeps numbers of a pool."""

    def __init__(self) -> None:
        self.members = 0


@given(st.lists(predicates("xy", MIXED), max_size=4))
@settings(max_examples=100, deadline=None)
def test_a_growing_predicate_matches_what_was_added(parts: list[Predicate]) -> None:
    builder = PredicateBuilder()
    added: list[Predicate] = []
    for part in parts:
        before, covered = builder.predicate, builder.covers(part)
        as_text = format_predicate(before)
        assert builder.add(part) == (not covered)
        assert covered == (builder.predicate is before)
        assert format_predicate(before) == as_text, "a view taken earlier stays as it was"
        added.append(part)
        view = builder.predicate
        assert builder.covers(part)
        assert not [m for m in MIXED_WORLD if matches(view, m) != any(matches(q, m) for q in added)]


@given(predicates("xyz", INTEGER_AND_BOOLEAN))
@settings(max_examples=300, deadline=None)
def test_simplification_is_exact_idempotent_and_leaves_nothing_needless(p: Predicate) -> None:
    simple = simplify(p)
    assert not [m for m in _THREE_NAMES if matches(simple, m) != matches(p, m)]
    assert simplify(simple) is simple
    assert simplify(parse_predicate(format_predicate(simple))) == simple
    for position, filter_ in enumerate(simple):
        rest = Predicate(simple.filters[:position] + simple.filters[position + 1 :])
        assert not covers(rest, Predicate((filter_,)))


@given(predicates("xy", MIXED), st.integers(1, 4), st.data())
@settings(max_examples=200, deadline=None)
def test_oversimplification_only_widens(p: Predicate, most: int, data: st.DataObject) -> None:
    wide = oversimplify(p, most)
    assert len(wide) <= most
    assert covers(wide, p)
    assert not [m for m in MIXED_WORLD if matches(p, m) and not matches(wide, m)]
    simple = simplify(p)
    if len(simple) <= most:
        assert wide == simple
    shuffled = data.draw(st.permutations(simple.filters))
    assert oversimplify(Predicate(tuple(shuffled)), most) == wide


@given(st.lists(st.tuples(st.integers(0, 13), st.integers(1, 13)), min_size=2, max_size=9))
@settings(max_examples=200, deadline=None)
def test_one_filter_less_on_one_attribute_closes_one_gap(sides: list[tuple[int, int]]) -> None:
    # Bounds are multiples of 3: a gap of one value would be kept as ``x != v`` in a single filter.
    simple = simplify(Predicate(tuple(box({"x": (3 * low, 3 * (low + length))}) for low, length in sides)))
    if len(simple) < 2:
        return
    wide = oversimplify(simple, len(simple) - 1)
    numbers = [Message({"x": x}) for x in range(-1, 82)]
    more = [m["x"] for m in numbers if matches(wide, m) and not matches(simple, m)]
    normals = [normal for normal in map(normalise, simple) if normal is not None]
    gaps = iv.gaps(iv.union(*(normal.attributes["x"].intervals for normal in normals)))
    assert more in [list(range(*gap)) for gap in gaps]


class _Measure:
    """The widening that `router.predicates.covering.widening` states, for filters on integers."""

    def __init__(self, filters: list[NormalFilter]) -> None:
        self._bounds: dict[str, list[int]] = {}
        for name in {name for filter_ in filters for name in filter_.attributes}:
            hulls = [_hull(filter_, name) for filter_ in filters if name in filter_.attributes]
            inner = {end for hull in hulls for end in hull} - set(whole_domain(Type.INTEGER))
            self._bounds[name] = sorted(inner)

    def widening(self, a: NormalFilter, b: NormalFilter) -> float:
        """The share of messages that the two match only when they are merged."""
        hulls_a, hulls_b = ({name: _hull(f, name) for name in f.attributes} for f in (a, b))
        shared = hulls_a.keys() & hulls_b.keys()
        merged, common = {}, {**hulls_a, **hulls_b}
        for name in shared:
            (low, high), (other_low, other_high) = hulls_a[name], hulls_b[name]
            merged[name] = min(low, other_low), max(high, other_high)
            common[name] = max(low, other_low), min(high, other_high)
        both = self._share(common)
        return max(0.0, self._share(merged) - self._share(hulls_a) - self._share(hulls_b) + both)

    def _share(self, hulls: dict[str, tuple[int, int]]) -> float:
        share = 1.0
        for name, (low, high) in hulls.items():
            bounds = self._bounds[name]
            cells = sum(low < bound < high for bound in bounds) + 1 if low < high else 0
            share *= 0.5 * cells / (len(bounds) + 1)
        return share


def _hull(filter_: NormalFilter, name: str) -> tuple[int, int]:
    intervals = filter_.attributes[name].intervals
    return intervals[0][0], intervals[-1][1]


@given(predicates("xyz", [Type.INTEGER]))
@settings(max_examples=300, deadline=None)
def test_the_two_filters_are_merged_that_widen_least(p: Predicate) -> None:
    filters = [normal for normal in map(normalise, simplify(p)) if normal is not None]
    if len(filters) < 2:
        return
    measure = _Measure(filters)
    pairs = {(a, b): measure.widening(a, b) for a, b in combinations(filters, 2)}
    least = min(pairs.values())
    candidates = []
    for (a, b), widening in pairs.items():
        if widening <= least + 1e-12:
            rest = [one for one in filters if one not in (a, b)]
            candidates.append(simplify(Predicate(tuple(one.filter for one in [*rest, merge(a, b)]))))
    assert oversimplify(p, len(filters) - 1) in candidates
