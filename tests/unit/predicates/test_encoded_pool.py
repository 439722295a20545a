"""The pool of encoded filters: what neighbours can make it keep."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from router.predicates.covering import numbering
from router.predicates.covering.bitset import Bits, bits_of, numbers_in
from router.predicates.covering.builder import PredicateBuilder
from router.predicates.encoded import pool as encoded
from router.predicates.encoded.algebra import covers, minimal, order
from router.predicates.encoded.model import ANY_FILTER, BloomFilter, BloomMessage, BloomPredicate, Suite
from router.predicates.encoded.pool import BloomPool

_SUITE = Suite(1, 64, 3, 1)


class _Holder:
    members: Bits = 0


def test_filters_of_many_suites_cost_their_own_size() -> None:
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


def test_places_are_used_again_after_a_sweep() -> None:
    pool, holder, source = BloomPool(), _Holder(), random.Random(2)
    pool.register(holder)
    held: dict[int, BloomFilter] = {}
    for _ in range(5):
        drawn = [BloomFilter(_SUITE, source.getrandbits(64) & source.getrandbits(64)) for _ in range(40)]
        held |= dict(zip(pool.numbers(BloomPredicate(drawn)), drawn, strict=True))
        held = {number: held[number] for number in source.sample(sorted(held), 25)}
        holder.members = bits_of(held)
        pool.sweep()
        assert len(pool) == 25
        message = BloomMessage(_SUITE, source.getrandbits(64) | source.getrandbits(64))
        assert list(numbers_in(pool.matching(message))) == sorted(
            number for number, filter_ in held.items() if filter_.matches(message)
        )
        for number, filter_ in held.items():
            covering = {each for each, other in held.items() if other.covers(filter_)}
            assert {each for each in held if pool.covers(1 << each, number)} == covering


def _drawn(source: random.Random, suite: Suite = _SUITE) -> BloomFilter:
    return BloomFilter(suite, source.getrandbits(64) & source.getrandbits(64) & source.getrandbits(64))


def test_filters_come_and_go_while_others_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the steps of a removal, answers are exact."""
    monkeypatch.setattr(numbering, "_SWEEP_AT", 64)
    monkeypatch.setattr(numbering, "STEP_FILTERS", 10)
    monkeypatch.setattr(encoded, "STEP_FILTERS", 10)
    source, pool = random.Random(4), BloomPool()
    suites = [_SUITE, Suite(2, 64, 3, 1)]
    held: list[tuple[PredicateBuilder, BloomPredicate]] = []
    sweeps = steps = 0
    for turn in range(400):
        drawn = [_drawn(source, source.choice(suites)) for _ in range(12)]
        predicate = BloomPredicate([*drawn, ANY_FILTER] if turn % 40 == 7 else drawn)
        was = pool._sweeping is not None
        held.append((PredicateBuilder(predicate, pool=pool), predicate))
        sweeps += was and pool._sweeping is None
        steps += was
        if len(held) > 5:
            held.pop(source.randrange(5))
        message = BloomMessage(source.choice(suites), source.getrandbits(64) | source.getrandbits(64))
        for builder, expected in held:
            assert builder.predicate == BloomPredicate(sorted(minimal(expected.encoded), key=order))
            assert builder.matches(message) == expected.matches(message)
        (one, first), (_, second) = held[0], held[-1]
        assert one.covers(second) == covers(first, second)
    assert sweeps >= 5
    assert steps >= 3 * sweeps
    pool.sweep()
    assert len(pool) == len({each for builder, _ in held for each in numbers_in(builder.members)})


def test_questions_beyond_the_bound_leave_filters_that_others_cover() -> None:
    source, pool = random.Random(5), BloomPool()
    builder = PredicateBuilder(BloomPredicate([BloomFilter(_SUITE, 1)]), pool=pool)
    more = BloomPredicate([BloomFilter(_SUITE, 1 | source.getrandbits(64)) for _ in range(100)])
    pool.numbers(more)
    with pool.bounded(10):
        builder.add(more)
        assert not builder.covers(BloomPredicate([BloomFilter(_SUITE, 3)]))
    assert 80 < len(builder) < 100
    # Nothing is lost, and nothing that was there is wrong.
    assert builder.covers(more)
    assert builder.matches(BloomMessage(_SUITE, 1))
    assert not builder.matches(BloomMessage(_SUITE, 2))
    builder = PredicateBuilder(BloomPredicate([BloomFilter(_SUITE, 1)]), pool=pool)
    assert not builder.add(more)


def test_a_filter_that_covers_very_many_changes_a_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoded, "_RELATED", 50)
    pool = BloomPool()
    builder = PredicateBuilder(
        BloomPredicate([BloomFilter(_SUITE, 1 | 2 << n) for n in range(60)]), pool=pool
    )
    assert builder.add(BloomPredicate([BloomFilter(_SUITE, 1)]))
    assert len(builder) == 11
    assert builder.matches(BloomMessage(_SUITE, 1))
