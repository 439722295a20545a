"""Encoded predicates: what matches plainly matches encoded; covering is exact; noise is one-sided."""

from __future__ import annotations

import random
import weakref
from collections import Counter

import pytest
from hypothesis import given, settings, strategies as st

from router.content import VerbatimPool
from router.predicates import (
    STRING_ONLY,
    Constraint,
    Filter,
    Message,
    Operator,
    Predicate,
    Type,
    matches,
    matches_constraint,
)
from router.predicates.covering import numbering, pool as pools
from router.predicates.covering.bitset import Bits, bits_of
from router.predicates.covering.pool import FilterPool
from router.predicates.encoded import (
    ANY_FILTER,
    ENCODED_EVERYTHING,
    BloomFilter,
    BloomMessage,
    BloomPredicate,
    Suite,
)
from router.predicates.encoded.algebra import minimal, union, widened
from router.predicates.encoded.encoder import Encoder, Hardening
from router.predicates.encoded.encodings import ENCODINGS, Encoding, Ranges
from router.predicates.encoded.pool import BloomPool
from tests.support.costs import memory_of
from tests.support.encoded_cases import EDGES, ENCODERS, FILTERS, MESSAGES, PREDICATES, covers, encoder
from tests.support.fuzz import cases


def encoded(maker: Encoder, message: Message) -> BloomMessage:
    return BloomMessage(maker.suite, maker.message_bits(message))


@pytest.mark.parametrize("type_", Type)
def test_every_operator_and_edge_value_adds_only_strings_of_every_message_that_matches_it(
    type_: Type,
) -> None:
    edges = EDGES[type_]
    encodings: list[Encoding] = [ENCODINGS[name]() for name in ENCODINGS]
    encodings += [Ranges(-1.0, 1e308, levels=32, affix=255), Ranges(499.0, 501.0, levels=1, affix=1)]
    messages = [Message({"a": value}) for value in edges]
    strings = [[encoding.message_strings(message) for message in messages] for encoding in encodings]
    matching: Counter[Operator] = Counter()
    allowed = [each for each in Operator if type_ is Type.STRING or each not in STRING_ONLY]
    for operator in allowed:
        for value in edges if operator is not Operator.ANY else [None]:
            constraint = Constraint("a", type_, operator, value)
            selected = [
                number for number, each in enumerate(messages) if matches_constraint(constraint, each)
            ]
            matching[operator] += len(selected)
            for encoding, of_messages in zip(encodings, strings, strict=True):
                own = encoding.filter_strings(Filter((constraint,)))
                assert all(own <= of_messages[number] for number in selected), (constraint, encoding)
            for maker in ENCODERS:
                bits = maker.filter(Filter((constraint,)))
                assert all(bits.covers(encoded(maker, messages[number])) for number in selected[:2])
    assert matching.keys() == set(allowed)
    assert min(matching.values()) > 0


@settings(max_examples=cases(150))
@given(PREDICATES, MESSAGES)
def test_what_matches_plainly_matches_encoded(predicate: Predicate, message: Message) -> None:
    for maker in ENCODERS:
        private = maker.predicate(predicate)
        if matches(predicate, message):
            assert private.matches(encoded(maker, message))
        # The minimal filters match what all filters match.
        assert private.encoded == minimal(private.encoded)
        bits = encoded(maker, message)
        assert private.matches(bits) == any(maker.filter(each).covers(bits) for each in predicate)


#: Small sets under two suites, so that covering, equality and mixed suites occur.
_SUITES = [Suite(1, 16, 2, 1), Suite(2, 16, 2, 1), Suite(1, 24, 2, 1)]
_BITS = st.lists(st.integers(0, 7), max_size=4).map(lambda chosen: sum(1 << each for each in set(chosen)))
_FILTERS = st.one_of(st.builds(BloomFilter, st.sampled_from(_SUITES), _BITS), st.just(ANY_FILTER))
_PREDICATES = st.lists(_FILTERS, max_size=5).map(BloomPredicate)
_ALL_MESSAGES = [BloomMessage(suite, bits) for suite in _SUITES for bits in range(256)]


def matched(predicate: BloomPredicate) -> list[int]:
    return [number for number, message in enumerate(_ALL_MESSAGES) if predicate.matches(message)]


@settings(max_examples=cases(100))
@given(_PREDICATES, _PREDICATES)
def test_covering_and_union_are_exact(first: BloomPredicate, second: BloomPredicate) -> None:
    of_first, of_second = set(matched(first)), set(matched(second))
    uncovered = {
        each for each in first.encoded if not any(other.covers(each) for other in {*first.encoded} - {each})
    }
    assert set(minimal(first.encoded)) == uncovered
    if covers(first, second):
        assert of_second <= of_first
    elif ANY_FILTER not in second.encoded:
        # Exact: the set of bits of a filter is a message that matches it.
        assert not of_second <= of_first
    assert set(matched(union(first, second))) == of_first | of_second
    assert (
        union(first, second)
        == union(second, first)
        == BloomPredicate(minimal((*second.encoded, *first.encoded)))
    )


@settings(max_examples=cases(100))
@given(_PREDICATES, st.integers(1, 4))
def test_widening_covers_and_is_small(predicate: BloomPredicate, filters: int) -> None:
    wide = widened(predicate, filters)
    assert len(wide) <= filters
    assert covers(wide, predicate)
    if len(minimal(predicate.encoded)) <= filters:
        assert covers(predicate, wide)


def test_widening_many_filters_to_many_compares_few_at_a_time() -> None:
    source, suite = random.Random(1), Suite(1, 64, 4, 1)
    predicate = BloomPredicate(
        minimal(BloomFilter(suite, sum(1 << bit for bit in source.sample(range(64), 8))) for _ in range(1500))
    )
    wide, _, most = memory_of(lambda: widened(predicate, 600))
    assert 300 < len(wide) <= 600
    assert covers(wide, predicate)
    assert most < 40_000_000


def test_widening_filters_of_many_suites_ends() -> None:
    for suites, number, most in ((300, 900, 300), (700, 701, 700)):
        filters = [BloomFilter(Suite(1 + n % suites, 16, 2, 1), 3 << n // suites) for n in range(number)]
        wide = widened(BloomPredicate(filters), most)
        assert len(wide) <= most
        assert wide != ENCODED_EVERYTHING
        assert covers(wide, BloomPredicate(filters))


@settings(max_examples=cases(100))
@given(FILTERS, MESSAGES)
def test_hardening_only_widens(filter_: Filter, message: Message) -> None:
    plain, hard = encoder(), encoder(hardening=Hardening(3, 0.4))
    assert hard.filter(filter_).covers(plain.filter(filter_))
    bits, filled = plain.message_bits(message), hard.message_bits(message)
    assert bits & filled == bits
    assert filled.bit_count() == max(bits.bit_count(), int(0.4 * 512))


def test_a_pool_keeps_no_message() -> None:
    pool, message = BloomPool(), BloomMessage(_SUITES[0], 3)
    pool.matching(message)
    held = weakref.ref(message)
    del message
    assert held() is None


# Pools that number filters: how large they become while filters come and go.


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
@settings(max_examples=cases(15))
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
