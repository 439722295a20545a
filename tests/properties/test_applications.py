"""p0 is the union of the predicates of a node's applications after any changes."""

from __future__ import annotations

from hypothesis import example, given, settings, strategies as st

from router.content import Plain
from router.matching.engines import factory
from router.predicates import NOTHING, Predicate
from router.predicates.parser import parse_predicate
from router.protocol.options import RouterOptions
from router.protocol.routing import RoutingTable
from router.protocol.services.exhaustive import FEW_FILTERS, ApplicationPredicates, any_of
from tests.support.network_cases import PREDICATES, selected

#: Application; then a predicate to declare, one to subscribe to, or which of its subscriptions to revoke.
STEPS = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.tuples(st.just("declare"), PREDICATES)
        | st.tuples(st.just("subscribe"), PREDICATES)
        | st.tuples(st.just("revoke"), st.integers(0, 5)),
    ),
    max_size=20,
)


@settings(max_examples=150)
@given(STEPS)
def test_p0_is_the_union_of_all_parts(steps: list[tuple[int, tuple[str, Predicate | int]]]) -> None:
    content = Plain()
    table = RoutingTable(factory("naive"), content)
    predicates = ApplicationPredicates(table, content, RouterOptions())
    applications = {app: {0: content.nothing} for app in (1, 2, 3)}
    for number, (app, (action, what)) in enumerate(steps, 1):
        wanted = applications[app]
        if isinstance(what, int):
            numbers = sorted(wanted.keys() - {0})
            if numbers:
                del wanted[numbers[what % len(numbers)]]
        else:
            wanted[0 if action == "declare" else number] = what
        before = table.local
        changed = predicates.set(app, any_of(content, wanted))
        assert changed == (table.local != before)
        parts = [each for own in applications.values() for each in own.values()]
        expected = [any(column) for column in zip(*map(selected, parts), strict=True)]
        assert selected(table.local) == expected


@settings(max_examples=100)
@given(st.lists(st.tuples(st.integers(1, 3), PREDICATES | st.just(NOTHING)), max_size=8))
@example([(1, parse_predicate("x = 1")), (1, NOTHING), (1, parse_predicate("x = 1"))])
def test_a_large_p0_loses_nothing_before_it_is_narrowed(changes: list[tuple[int, Predicate]]) -> None:
    content = Plain()
    table = RoutingTable(factory("naive"), content)
    predicates = ApplicationPredicates(table, content, RouterOptions())
    vast = parse_predicate(" or ".join(f"zz = {number}" for number in range(FEW_FILTERS + 1)))
    predicates.set(0, vast)
    latest = {0: vast}
    before = table.local
    for app, predicate in changes:
        before = before if predicates.wide else table.local
        predicates.set(app, predicate)
        latest[app] = predicate
        for each in latest.values():
            assert content.builder(table.local).covers(each)
    was_wide, grown = predicates.wide, table.local
    changed = predicates.narrow()
    assert not predicates.wide
    # A p0 that is equal to the p0 before it became wide costs no RA.
    assert changed == (was_wide and table.local != before)
    assert was_wide or table.local == grown
    expected = [any(column) for column in zip(*map(selected, latest.values()), strict=True)]
    assert selected(table.local) == expected
