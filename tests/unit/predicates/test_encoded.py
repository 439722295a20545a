"""Encoded predicates: strings, suites, hashing, weakness; what neighbours can make the pool keep."""

from __future__ import annotations

import hashlib
import random
import struct

import pytest

from router.predicates import Message, Type
from router.predicates.covering import numbering
from router.predicates.covering.algebra import PredicateBuilder
from router.predicates.covering.bitset import Bits, bits_of, numbers_in
from router.predicates.encoded import (
    ANY_FILTER,
    ANY_SUITE,
    BloomFilter,
    BloomMessage,
    BloomPredicate,
    Suite,
    encodings,
)
from router.predicates.encoded.algebra import minimal, union
from router.predicates.encoded.encoder import Encoder, Hardening
from router.predicates.encoded.encodings import Ranges, Slides
from router.predicates.encoded.pool import BloomPool
from router.predicates.parser import parse_predicate
from tests.support.cases import cases_beside
from tests.support.costs import memory_of
from tests.support.encoded_cases import KEY, covers, encoder, only


def test_no_two_statements_have_the_same_string() -> None:
    different = {
        encodings.equal("a=b", "c"),
        encodings.equal("a", "=bc"),
        encodings.equal("a", "b=c"),
        encodings.equal("ab", "c"),
        encodings.equal("a", "bc"),
        encodings.equal("a", ""),
        encodings.exists("a", Type.STRING),
        encodings.equal("a", 1),
        encodings.equal("a", 1.0),
        encodings.equal("a", True),
        encodings.exists("a", Type.INTEGER),
        encodings.statement(encodings.PREFIX, Type.STRING, "a", b"bc"),
        encodings.statement(encodings.SUFFIX, Type.STRING, "a", b"bc"),
        encodings.statement(encodings.GRAM, Type.STRING, "a", b"bc"),
    }
    assert len(different) == 14


def test_equal_doubles_have_the_same_string() -> None:
    assert encodings.equal("x", -0.0) == encodings.equal("x", 0.0)


def test_bits_are_the_words_of_a_keyed_digest() -> None:
    string = encodings.equal("dest", "ORD")
    digest = hashlib.blake2b(string, key=KEY, person=b"cbcb-bloom").digest()
    expected = {word % 512 for word in struct.unpack("<16I", digest)[:8]}
    made = encoder().filter(only('dest = "ORD"'))
    assert set(numbers_in(made.bits)) == expected
    assert made.suite.row(made.bits) == made.bits.to_bytes(64, "little")


def test_filters_of_different_keys_differ() -> None:
    encoding = Slides()
    suite = Suite(1, 512, 8, encoding.number)
    filter_ = only('dest = "ORD"')
    assert Encoder(suite, KEY, encoding).filter(filter_) != Encoder(suite, KEY[::-1], encoding).filter(
        filter_
    )


def test_the_slides_keep_equality_and_existence() -> None:
    private = encoder()
    message = BloomMessage(private.suite, private.message_bits(Message({"price": 300, "dest": "ORD"})))
    assert private.predicate(parse_predicate("price > 400")).matches(message)
    assert not private.predicate(parse_predicate("price = 400")).matches(message)
    assert not private.predicate(parse_predicate("cost > 1")).matches(message)
    assert not private.predicate(parse_predicate("price any integer and dest = 7")).matches(message)


@pytest.mark.parametrize(("text", "matches"), cases_beside(__file__)["ranges"])
def test_ranges_tell_order_and_patterns_apart(text: str, matches: bool) -> None:
    private = encoder("ranges", 1024)
    bits = private.message_bits(Message({"price": 300, "dest": "ORCHARD OHARE WORD"}))
    assert private.predicate(parse_predicate(text)).matches(BloomMessage(private.suite, bits)) == matches


def test_a_thinned_filter_differs_by_subscriber() -> None:
    encoding = Slides()
    suite = Suite(1, 512, 8, encoding.number)
    first, second = (
        Encoder(suite, KEY, encoding, Hardening(4), secret).filter(only('dest = "ORD"'))
        for secret in (b"1" * 16, b"2" * 16)
    )
    assert first != second
    assert first.bits.bit_count() == second.bits.bit_count() == 4


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ((1, 511, 8, 1), "multiple of 8"),
        ((1, 8192, 8, 1), "multiple of 8"),
        ((1, 512, 17, 1), "hash functions"),
        ((1, 512, 8, 0), "encoding"),
        ((1 << 32, 512, 8, 1), "key"),
        ((0, 512, 8, 1), "key 0"),
    ],
)
def test_bad_suites_are_refused(values: tuple[int, int, int, int], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        Suite(*values)


def test_bits_beyond_the_set_are_refused() -> None:
    suite = Suite(1, 16, 2, 1)
    with pytest.raises(ValueError, match="17 bits"):
        BloomFilter(suite, 1 << 16)
    with pytest.raises(ValueError, match="17 bits"):
        BloomMessage(suite, 1 << 16)
    with pytest.raises(ValueError, match="one key"):
        BloomMessage(ANY_SUITE, 0)
    with pytest.raises(ValueError, match="key of 5 bytes"):
        Encoder(Suite(1, 16, 2, 1), b"short", Slides())
    with pytest.raises(ValueError, match="range"):
        Ranges(5.0, 5.0)


def test_messages_are_equal_by_bits_and_content() -> None:
    suite = Suite(1, 16, 2, 1)
    assert BloomMessage(suite, 3, b"x") == BloomMessage(suite, 3, b"x")
    assert BloomMessage(suite, 3, b"x") != BloomMessage(suite, 3, b"y")
    assert BloomMessage(suite, 3) != Message({})


def test_minimal_filters_of_a_large_predicate_take_no_square_of_time() -> None:
    source, suite = random.Random(2), Suite(1, 512, 8, 1)
    compared = 0

    class Counting(BloomFilter):
        def covers(self, other: BloomFilter | BloomMessage) -> bool:
            nonlocal compared
            compared += 1
            return super().covers(other)

    drawn = [sum(1 << bit for bit in source.sample(range(512), 16)) for _ in range(1_000)]
    assert len(minimal(Counting(suite, bits) for bits in drawn)) == 1_000
    assert compared < 1_000 * 1_000 / 20


_SUITE = Suite(1, 64, 3, 1)


class _Holder:
    members: Bits = 0


def test_others_of_many_suites_cost_their_own_size() -> None:
    pool, holder, source = BloomPool(), _Holder(), random.Random(1)
    pool.register(holder)
    own = [BloomFilter(_SUITE, source.getrandbits(64)) for _ in range(2_000)]
    holder.members = bits_of(pool.numbers(BloomPredicate(own)))
    others = [BloomFilter(Suite(2 + number, 4_096, 8, 1), (1 << 4_096) - 1) for number in range(20)]
    _, grown, _ = memory_of(lambda: pool.numbers(BloomPredicate(others)))
    assert grown < 20 * 100_000


def _drawn(source: random.Random, suite: Suite = _SUITE) -> BloomFilter:
    return BloomFilter(suite, source.getrandbits(64) & source.getrandbits(64) & source.getrandbits(64))


def _covered(predicate: BloomPredicate, by: BloomPredicate) -> list[BloomFilter]:
    return [each for each in predicate.encoded if covers(by, BloomPredicate([each]))]


def test_answers_stay_while_filters_come_and_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers are those of the algebra, also with leftovers that nobody holds."""
    monkeypatch.setattr(numbering, "SWEEP_AT", 64)
    # Relations are forgotten, and looked up a second time.
    monkeypatch.setattr(numbering, "_CACHE_SIZE", 5)
    source, pool = random.Random(4), BloomPool()
    suites = [_SUITE, Suite(2, 512, 3, 1)]

    def few_bits() -> BloomFilter:
        """One of filters that often cover each other."""
        return BloomFilter(source.choice(suites), bits_of(source.choices(range(12), k=4)))

    held: list[tuple[PredicateBuilder, BloomPredicate]] = []
    removals = collapsed = before = 0
    for turn in range(400):
        drawn = [*(_drawn(source, source.choice(suites)) for _ in range(6)), *(few_bits() for _ in range(6))]
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
        restricted = pool.predicate(pool.restricted(one.members, other.members))
        a, b = (BloomPredicate(minimal(each.encoded)) for each in (first, second))
        assert restricted == BloomPredicate(minimal((*_covered(a, b), *_covered(b, a))))
        united = one.copy()
        assert united.unite(other) != covers(first, second)
        assert united.predicate == union(first, second)
    assert removals > 40
    assert collapsed == 10
    pool.sweep()
    assert len(pool) == len({each for builder, _ in held for each in numbers_in(builder.members)})
