"""The pool of encoded filters: what neighbours can make it keep."""

from __future__ import annotations

import random
import tracemalloc
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.predicates.covering import numbering
from router.predicates.covering.algebra import PredicateBuilder
from router.predicates.covering.bitset import Bits, bits_of, numbers_in
from router.predicates.encoded import pool as encoded
from router.predicates.encoded.algebra import minimal, union
from router.predicates.encoded.model import ANY_FILTER, BloomFilter, BloomMessage, BloomPredicate, Suite
from router.predicates.encoded.pool import BloomPool
from tests.support.encoded_cases import covers
from tests.support.fuzz import cases

_SUITE = Suite(1, 64, 3, 1)


class _Holder:
    members: Bits = 0


def test_others_of_many_suites_cost_their_own_size() -> None:
    pool, holder, source = BloomPool(), _Holder(), random.Random(1)
    pool.register(holder)
    own = [BloomFilter(_SUITE, source.getrandbits(64)) for _ in range(2_000)]
    holder.members = bits_of(pool.numbers(BloomPredicate(own)))
    others = [BloomFilter(Suite(2 + number, 4_096, 8, 1), (1 << 4_096) - 1) for number in range(20)]
    tracemalloc.start()
    try:
        holder.members |= bits_of(pool.numbers(BloomPredicate(others)))
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown < 20 * 100_000


def _drawn(source: random.Random, suite: Suite = _SUITE) -> BloomFilter:
    return BloomFilter(suite, source.getrandbits(64) & source.getrandbits(64) & source.getrandbits(64))


def test_answers_stay_while_filters_come_and_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers are those of the algebra, also with leftovers that nobody holds."""
    monkeypatch.setattr(numbering, "SWEEP_AT", 64)
    # Relations are forgotten, and looked up a second time.
    monkeypatch.setattr(encoded, "_REMEMBERED", 5)
    source, pool = random.Random(4), BloomPool()
    suites = [_SUITE, Suite(2, 64, 3, 1)]
    held: list[tuple[PredicateBuilder, BloomPredicate]] = []
    removals = collapsed = before = 0
    for turn in range(1_200):
        drawn = [_drawn(source, source.choice(suites)) for _ in range(12)]
        predicate = BloomPredicate([*drawn, ANY_FILTER] if turn % 40 == 7 else drawn)
        collapsed += ANY_FILTER in predicate.encoded
        # Some that no table gets.
        pool.numbers(BloomPredicate([_drawn(source) for _ in range(3)]))
        held.append((PredicateBuilder(predicate, pool=pool), predicate))
        removals, before = removals + (len(pool) < before), len(pool)
        if len(held) > 5:
            held.pop(source.randrange(5))
        message = BloomMessage(source.choice(suites), source.getrandbits(64) | source.getrandbits(64))
        for builder, expected in held:
            assert builder.predicate == BloomPredicate(minimal(expected.encoded))
            assert builder.matches(message) == expected.matches(message)
        (one, first), (other, second) = held[0], held[-1]
        assert one.covers(second) == covers(first, second)
        assert pool.covers_all(other.members, one.members) == covers(second, first)
        united = one.copy()
        united.unite(other)
        assert united.predicate == union(first, second)
    assert removals > 100
    assert collapsed == 30
    pool.sweep()
    assert len(pool) == len({each for builder, _ in held for each in numbers_in(builder.members)})


def test_the_filter_that_matches_everything_replaces_all_others() -> None:
    """Whichever comes first, with filters of the pool that no table has."""
    source, pool = random.Random(6), BloomPool()
    some = BloomPredicate(dict.fromkeys(_drawn(source) for _ in range(2_500)))
    everything = BloomPredicate([ANY_FILTER])
    leftovers = BloomPredicate([_drawn(source, Suite(3, 64, 3, 1)) for _ in range(1_500)])
    pool.numbers(leftovers)
    for first, second in ((some, everything), (everything, some)):
        builder = PredicateBuilder(first, pool=pool)
        assert builder.add(second) == (second is everything)
        assert builder.predicate == everything
        united = PredicateBuilder(first, pool=pool)
        united.unite(PredicateBuilder(second, pool=pool))
        assert united.predicate == everything
    assert builder.covers(leftovers)
    assert pool.covers_all(builder.members, bits_of(pool.numbers(leftovers)))
    table = PredicateBuilder(leftovers, pool=pool).members
    assert pool.restricted(builder.members, table) == pool.restricted(table, builder.members) == table


@settings(max_examples=cases(60), deadline=None)
@given(st.integers(0, 10_000), st.sampled_from((16, 64, 512)))
def test_answers_do_not_depend_on_what_the_pool_has_met(seed: int, bits: int) -> None:
    """Two pools, one of which has had many other filters, some of them left: other numbers, equal answers."""
    source = random.Random(seed)
    suites = [Suite(1, bits, 3, 1), Suite(2, bits, 3, 1)]

    def some(most: int) -> BloomPredicate:
        return BloomPredicate(
            BloomFilter(source.choice(suites), sum(1 << each for each in set(source.choices(range(12), k=4))))
            for _ in range(source.randrange(1, most))
        )

    fresh, used = BloomPool(), BloomPool()
    left = [PredicateBuilder(some(60), pool=used) for _ in range(5)]
    del left[::2]
    used.numbers(BloomPredicate([ANY_FILTER] * (seed % 2)))
    used.sweep()
    used.numbers(some(100))
    tables = [[PredicateBuilder(pool=pool) for _ in range(3)] for pool in (fresh, used)]
    for _ in range(12):
        new, at, other = some(30), source.randrange(3), source.randrange(3)
        answers = []
        for pool, builders in zip((fresh, used), tables, strict=True):
            added = builders[at].add(new)
            covered = builders[other].covers(new)
            all_covered = pool.covers_all(builders[other].members, builders[at].members)
            restricted = PredicateBuilder(
                members=pool.restricted(builders[at].members, builders[other].members), pool=pool
            )
            united = builders[other].copy()
            grown = united.unite(builders[at])
            answers.append(
                (
                    [added, covered, all_covered, grown],
                    [each.predicate for each in (*builders, restricted, united)],
                )
            )
        assert answers[0] == answers[1]
        for builder in tables[0]:
            assert builder.predicate == BloomPredicate(
                minimal(cast(BloomPredicate, builder.predicate).encoded)
            )


def test_a_set_that_matches_everything_covers_others_without_comparing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool, source = BloomPool(), random.Random(4)
    holders = [_Holder(), _Holder()]
    for holder, filters in zip(holders, ([ANY_FILTER], [_drawn(source) for _ in range(20)]), strict=True):
        pool.register(holder)
        holder.members = bits_of(pool.numbers(BloomPredicate(filters)))
    monkeypatch.setattr(BloomPool, "covers", lambda *_: pytest.fail("compared a filter"))
    assert pool.covers_all(holders[0].members, holders[1].members)
