"""Covering, growing, simplification and over-simplification against brute force (`predicate_worlds`)."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from router.predicates import Constraint, Filter, Message, Operator, Predicate, Type, matches, matches_filter
from router.predicates.covering import intervals as iv
from router.predicates.covering.algebra import PredicateBuilder, simplify
from router.predicates.covering.index import FilterIndex
from router.predicates.covering.normal import NormalFilter, normalise
from router.predicates.covering.pool import PAIRS_MAX, FilterPool
from router.predicates.covering.values import ValueSet, constraints_of, everything_with, includes, value_set
from router.predicates.covering.widening import oversimplify
from router.predicates.parser import parse_predicate
from router.predicates.printer import format_predicate
from tests.support.algebra import covers, disjoin
from tests.support.predicate_worlds import (
    INTEGER_AND_BOOLEAN,
    MIXED,
    MIXED_WORLD,
    conjunctions,
    constraints,
    critical_values,
    messages,
    predicates,
)


@given(st.sampled_from(Type), st.data())
@settings(max_examples=400)
def test_inclusion_of_values_is_exact_for_every_type(kind: Type, data: st.DataObject) -> None:
    first, second = (data.draw(st.lists(constraints("x", [kind]), min_size=1, max_size=4)) for _ in range(2))
    a, b = value_set(kind, first), value_set(kind, second)
    world = [Message({"x": value}) for value in critical_values(kind, second)]
    in_b = [message for message in world if matches_filter(Filter(tuple(second)), message)]
    assert bool(b.intervals) == bool(in_b)
    assert includes(a, b) == all(matches_filter(Filter(tuple(first)), message) for message in in_b)
    if in_b:
        again = constraints_of("x", b)
        assert len(again) <= len(second)
        assert value_set(kind, again) == b
        assert [message for message in world if matches_filter(Filter(again), message)] == in_b


@given(predicates("xy", MIXED), predicates("xy", MIXED))
@settings(max_examples=200)
def test_covering_is_sound(p: Predicate, q: Predicate) -> None:
    if covers(p, q):
        assert not [m for m in MIXED_WORLD if matches(q, m) and not matches(p, m)]


@given(predicates("x", [Type.INTEGER, Type.DOUBLE, Type.BOOLEAN]), st.data())
@settings(max_examples=200)
def test_covering_by_a_union_on_one_attribute_is_exact(p: Predicate, data: st.DataObject) -> None:
    q = data.draw(predicates("x", [Type.INTEGER, Type.DOUBLE, Type.BOOLEAN]))
    world = messages("x", [Type.INTEGER, Type.DOUBLE, Type.BOOLEAN])
    assert covers(p, q) == all(matches(p, m) for m in world if matches(q, m))


@given(predicates("xy", MIXED), predicates("xy", MIXED))
@settings(max_examples=200)
def test_disjoin_matches_what_either_matches(p: Predicate, q: Predicate) -> None:
    joined = disjoin(p, q)
    wrong = [m for m in MIXED_WORLD if matches(joined, m) != (matches(p, m) or matches(q, m))]
    assert not wrong
    assert len(joined) <= len(p) + len(q)
    assert disjoin(joined, p) is joined
    assert disjoin(joined, q) is joined
    assert covers(joined, p)
    assert covers(joined, q)


_THREE_NAMES = messages("xyz", INTEGER_AND_BOOLEAN)
_SIDES = 9


def overlap(a: ValueSet, b: ValueSet) -> bool:
    """Whether some value may be in both: never wrong when it says no."""
    return a.type is b.type and bool(iv.intersection(a.intervals, b.intervals))


@given(predicates("xyz", INTEGER_AND_BOOLEAN), conjunctions("xyz", INTEGER_AND_BOOLEAN))
@settings(max_examples=300)
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
@settings(max_examples=200)
def test_a_box_is_covered_by_all_its_pieces_and_no_fewer(pieces: list[Filter], data: st.DataObject) -> None:
    whole = Predicate((box(dict.fromkeys("xyz", (0, _SIDES))),))
    assert covers(Predicate(tuple(pieces)), whole)
    missing = data.draw(st.integers(0, len(pieces) - 1))
    assert not covers(Predicate(tuple(pieces[:missing] + pieces[missing + 1 :])), whole)


@given(st.lists(conjunctions("xy", MIXED), max_size=8), conjunctions("xy", MIXED))
@settings(max_examples=400)
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


_FEW = st.lists(predicates("xy", MIXED), max_size=5)


@given(_FEW, predicates("xy", MIXED), _FEW, st.sampled_from([0, 3, 10, PAIRS_MAX]), st.booleans())
@settings(max_examples=150)
def test_what_a_pool_says_does_not_depend_on_its_past(
    table: list[Predicate], asked: Predicate, past: list[Predicate], pairs: int, some_go: bool
) -> None:
    """Two pools, one of which has seen other filters and forgotten some: the same answers, and true ones."""
    young, old = FilterPool(pairs), FilterPool(pairs)
    held = [PredicateBuilder(each, pool=old) for each in (*past, *table[::2])]
    if some_go:
        del held[::2]
        old.sweep()
    seen: list[list[object]] = []
    for pool in (young, old):
        builder = PredicateBuilder(pool=pool)
        grown = [builder.add(each) for each in table]
        covered = [builder.covers(Predicate((each,))) for each in asked]
        matched = [builder.matches(message) for message in MIXED_WORLD[::5]]
        seen.append([grown, builder.predicate, covered, matched])
    assert seen[0] == seen[1]
    assert matched == [any(matches(each, message) for each in table) for message in MIXED_WORLD[::5]]


@given(predicates("xyz", INTEGER_AND_BOOLEAN))
@settings(max_examples=300)
def test_simplification_is_exact_idempotent_and_leaves_nothing_needless(p: Predicate) -> None:
    simple = simplify(p)
    assert not [m for m in _THREE_NAMES if matches(simple, m) != matches(p, m)]
    assert simplify(simple) is simple
    assert simplify(parse_predicate(format_predicate(simple))) == simple
    for position, filter_ in enumerate(simple):
        rest = Predicate(simple.filters[:position] + simple.filters[position + 1 :])
        assert not covers(rest, Predicate((filter_,)))


@given(predicates("xy", MIXED), st.integers(1, 4), st.data())
@settings(max_examples=200)
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
@settings(max_examples=200)
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
