"""Pools that number filters: how large they become while filters come and go."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.content import VerbatimPool
from router.predicates import Constraint, Filter, Operator, Predicate, Type
from router.predicates.covering import numbering
from router.predicates.covering import pool as pools
from router.predicates.covering.bitset import Bits, bits_of
from router.predicates.covering.pool import FilterPool
from router.predicates.encoded import BloomFilter, BloomPredicate, Suite
from router.predicates.encoded.pool import BloomPool
from tests.support.fuzz import cases

_SUITE = Suite(1, 64, 3, 1)
_LEAST = 32


class _Holder:
    def __init__(self, members: Bits) -> None:
        self.members = members


def _all(holders: list[_Holder]) -> Bits:
    found: Bits = 0
    for each in holders:
        found |= each.members
    return found


def _plain(names: list[int]) -> Predicate:
    return Predicate(tuple(Filter((Constraint("x", Type.INTEGER, Operator.EQ, each),)) for each in names))


def _encoded(names: list[int]) -> Predicate:
    return BloomPredicate(BloomFilter(_SUITE, each) for each in names)


#: The phases of a run: turns, filters that come in each, predicates that are held, of how many different
#: filters, and whether predicates come back that were let go.
_PHASES = st.lists(
    st.tuples(
        st.integers(1, 60), st.integers(1, 40), st.integers(0, 8), st.sampled_from((60, 4_000)), st.booleans()
    ),
    min_size=1,
    max_size=5,
)


@pytest.mark.parametrize(
    ("pool_type", "made"), [(VerbatimPool, _plain), (FilterPool, _plain), (BloomPool, _encoded)]
)
@settings(max_examples=cases(15), deadline=None)
@given(phases=_PHASES, seed=st.integers(0, 1_000))
def test_a_pool_stays_within_its_bound_whatever_comes_and_goes(
    pool_type: type, made: object, phases: list[tuple[int, int, int, int, bool]], seed: int
) -> None:
    """At most max(`SWEEP_AT`, 2 H) + P filters, and no filter that is held is lost."""
    assert callable(made)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numbering, "SWEEP_AT", _LEAST)
        patch.setattr(pools, "_SWEEP_AT", _LEAST)
        source, pool = random.Random(seed), pool_type()
        held: list[tuple[_Holder, list[int]]] = []
        before: list[int] = []
        most_held = largest = 0
        for turns, number, most, different, again in phases:
            for _ in range(turns):
                given = (before if again and source.random() < 0.3 else None) or source.sample(
                    range(different), number
                )
                numbers = pool.numbers(made(given))
                holder = _Holder(bits_of(numbers))
                pool.register(holder)
                held.append((holder, given))
                largest = max(largest, len(given))
                while len(held) > most:
                    before = held.pop(source.randrange(len(held)))[1]
                del holder
                live = _all([each for each, _ in held])
                # Those of the predicate that came count too: they were held when the next search may begin.
                most_held = max(most_held, live.bit_count() + len(given))
                assert len(pool) <= max(_LEAST, 2 * most_held) + largest
                for members, expected in [(each.members, names) for each, names in held]:
                    assert set(pool.filters(pool.in_order(members))) == set(made(expected).filters)
        pool.sweep()
        assert len(pool) == live.bit_count()
