"""The pool of encoded filters: what neighbours can make it keep."""

from __future__ import annotations

import random
import tracemalloc

from router.predicates.covering.bitset import Bits, bits_of, numbers_in
from router.predicates.encoded.model import BloomFilter, BloomMessage, BloomPredicate, Suite
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
