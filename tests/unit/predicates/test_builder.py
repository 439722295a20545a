from weakref import ref

import pytest

from router.predicates import EVERYTHING, Predicate
from router.predicates.covering.algebra import PredicateBuilder, simplify
from router.predicates.covering.pool import FilterPool
from router.predicates.parser import parse_predicate
from router.predicates.printer import format_predicate
from tests.support.algebra import covers, disjoin


def test_a_copy_goes_its_own_way() -> None:
    builder = PredicateBuilder(parse_predicate('s ** "b" and x = 1 or y = 2'))
    copy = builder.copy()
    assert copy.add(EVERYTHING)
    assert copy.predicate == EVERYTHING
    assert format_predicate(builder.predicate) == 's ** "b" and x = 1 or y = 2'
    assert not builder.covers(EVERYTHING)


def grid(sides: int, *, hole: bool) -> Predicate:
    """Cells of a chequered square of `sides` rows, made so that no two can be merged."""
    cells = []
    for x in range(sides):
        for y in range(sides):
            if hole and x == y == sides - 1:
                continue
            right, top = (11, 10) if (x + y) % 2 else (10, 11)
            cells.append(f"x >= {10 * x} and x < {10 * x + right} and y >= {10 * y} and y < {10 * y + top}")
    return parse_predicate(" or ".join(cells))


@pytest.mark.parametrize(("sides", "hole", "undecided"), [(6, False, 0), (6, True, 0), (30, False, 1)])
def test_searches_that_were_cut_off_are_counted(sides: int, hole: bool, undecided: int) -> None:
    pool = FilterPool()
    builder = PredicateBuilder(grid(sides, hole=hole), pool=pool)
    side = 10 * sides
    square = parse_predicate(f"x >= 0 and x < {side} and y >= 0 and y < {side}")
    before = pool.undecided
    assert builder.covers(square) == (sides == 6 and not hole)
    assert pool.undecided - before == undecided


def test_what_a_table_was_before_it_grew_is_not_kept() -> None:
    table = parse_predicate("x = 1 and y = 1")
    before = ref(table)
    table = disjoin(table, parse_predicate("x = 5 and y = 5"))
    assert before() is None
    assert covers(table, parse_predicate("x = 5 and y = 5 and z = 1"))


def test_a_pool_forgets_filters_that_nobody_holds() -> None:
    pool = FilterPool()
    table = _Table()
    pool.register(table)
    kept = parse_predicate('s =* "gate" and price < 400 or price > 900')
    table.members = pool.add(0, pool.numbers(kept))
    held = simplify(kept)
    for number in range(10_000):
        asked = parse_predicate(f'price = {number} and s = "gate {number % 7}"')
        (found,) = pool.numbers(asked)
        assert pool.covers(table.members, found) == (number < 400 or number > 900)
    assert len(pool) < 5_000
    assert pool.predicate(table.members) == held
    table.members = 0
    pool.sweep()
    assert len(pool) == 0


def test_a_pool_that_grows_with_its_tables_is_not_swept() -> None:
    pool, table = _CountedPool(), _Table()
    pool.register(table)
    for number in range(5_000):
        table.members |= 1 << pool.numbers(parse_predicate(f"price = {2 * number}"))[0]
    assert not pool.sweeps
    table.members &= (1 << 2_500) - 1
    for number in range(4_000):
        pool.numbers(parse_predicate(f"price = {2 * number + 1}"))
    assert pool.sweeps
    assert len(pool) < 6_000


class _CountedPool(FilterPool):
    sweeps = 0

    def sweep(self) -> None:
        self.sweeps += 1
        super().sweep()


class _Table:
    """Holds numbers of a pool."""

    members = 0
