"""The engine for sets of bits gives the answers of the oracle: any table, any history."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from functools import reduce
from operator import or_

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.matching.bloom import BitTable, rows_of
from router.matching.bloom.engine import BloomMatcher, TreeMatcher, warm
from router.matching.bloom.segment import Segment
from router.predicates.encoded import (
    ANY_FILTER,
    BloomFilter,
    BloomMessage,
    BloomPredicate,
    Suite,
)

#: One byte, less than a word, whole words, the default, more words than two of each window.
_WIDTHS = (8, 40, 64, 192, 512, 1024)


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    warm()


def _row(bits: int, width: int) -> bytes:
    return bits.to_bytes(width // 8, "little")


@st.composite
def _sets(draw: st.DrawFn, width: int) -> bytes:
    """Sparse and dense sets, the empty one, the full one, and single bits; words of the sign bit alone."""
    kind = draw(st.integers(0, 4))
    if kind == 0:
        return _row(draw(st.sampled_from([0, 1, 1 << width - 1, (1 << width) - 1])), width)
    few = draw(st.lists(st.integers(0, width - 1), max_size=4))
    bits = sum(1 << position for position in set(few))
    return _row(bits if kind < 4 else bits ^ (1 << width) - 1, width)


@st.composite
def _worlds(draw: st.DrawFn) -> tuple[int, list[tuple[int, bytes]], list[bytes]]:
    width = draw(st.sampled_from(_WIDTHS))
    filters = draw(st.lists(st.tuples(st.integers(-2, 5), _sets(width)), max_size=12))
    some = [filter_ for _, filter_ in filters]
    unions = st.lists(st.sampled_from(some), max_size=3).map(
        lambda chosen: _row(reduce(or_, (int.from_bytes(row, "little") for row in chosen), 0), width)
    )
    messages = draw(st.lists(_sets(width) | unions if some else _sets(width), min_size=1, max_size=5))
    return width, filters, messages


def _matching(
    held: Mapping[int, Collection[bytes]], message: bytes, among: Collection[int] | None = None
) -> frozenset[int]:
    """The answer by definition: the interfaces with a set all of which the message has."""
    lacking = ~int.from_bytes(message, "little")
    return frozenset(
        interface
        for interface, rows in held.items()
        if (among is None or interface in among)
        and any(not int.from_bytes(row, "little") & lacking for row in rows)
    )


def _by_interface(filters: list[tuple[int, bytes]]) -> dict[int, list[bytes]]:
    held: dict[int, list[bytes]] = {}
    for interface, filter_ in filters:
        held.setdefault(interface, []).append(filter_)
    return held


@given(_worlds(), st.none() | st.sets(st.integers(-3, 6)))
@settings(max_examples=120, deadline=None)
def test_tree_and_oracle_agree_on_hostile_tables(
    world: tuple[int, list[tuple[int, bytes]], list[bytes]], among: set[int] | None
) -> None:
    width, filters, messages = world
    held, tree = _by_interface(filters), TreeMatcher(width)
    for interface, filter_ in filters:
        tree.change(interface, (), [filter_])
    for message in messages:
        assert tree.match(message, among) == _matching(held, message, among)


def _random_set(source: random.Random, width: int) -> bytes:
    if source.random() < 0.1:
        return _row(source.choice([0, (1 << width) - 1]), width)
    # Few bits are in most filters, as those of frequent strings are.
    bits = 0
    for _ in range(source.randrange(1, 12)):
        bits |= 1 << int(width * source.random() ** 2)
    return _row(bits, width)


@pytest.mark.parametrize("width", [64, 192, 512])
def test_tree_and_oracle_agree_on_large_tables(width: int) -> None:
    source = random.Random(width)
    filters = [(source.randrange(50), _random_set(source, width)) for _ in range(6_000)]
    held, tree = _by_interface(filters), TreeMatcher(width)
    for interface, filter_ in filters:
        tree.change(interface, (), [filter_])
    matched = 0
    for _ in range(20):
        parts = [int.from_bytes(_random_set(source, width), "little") for _ in range(source.randrange(1, 6))]
        message = _row(reduce(or_, parts), width)
        expected = _matching(held, message)
        assert tree.match(message) == expected
        matched += len(expected)
    assert matched > 20
    assert tree.nbytes > len(filters) * width // 8


@pytest.mark.parametrize("seed", [10, 11])
def test_a_long_history(seed: int) -> None:
    source, width = random.Random(seed), 128
    tree = TreeMatcher(width)
    held: dict[int, set[bytes]] = {}
    for _ in range(400):
        interface = source.randrange(12)
        own = held.setdefault(interface, set())
        what = source.random()
        if what < 0.1:
            tree.remove(interface)
            own.clear()
        elif what < 0.2:
            own.clear()
            own.update(_random_set(source, width) for _ in range(source.randrange(20)))
            tree.replace(interface, own)
        else:
            gone = source.sample(sorted(own), min(len(own), source.randrange(4)))
            added = [_random_set(source, width) for _ in range(source.randrange(4))]
            tree.change(interface, gone, added)
            own.difference_update(gone)
            own.update(added)
        for _ in range(2):
            message = _row(
                int.from_bytes(_random_set(source, width), "little")
                | int.from_bytes(_random_set(source, width), "little"),
                width,
            )
            among = source.sample(range(12), 4) if source.random() < 0.3 else None
            assert tree.match(message, among) == _matching(held, message, among)
    for interface in range(12):
        tree.remove(interface)
    assert tree.match(_row((1 << width) - 1, width)) == frozenset()


_SUITES = (Suite(1, 64, 2, 1), Suite(2, 64, 2, 1), Suite(1, 192, 2, 1))
_BLOOM_FILTERS = st.lists(
    st.just(ANY_FILTER) | st.builds(BloomFilter, st.sampled_from(_SUITES), st.integers(0, 15)), max_size=4
)
_STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["set", "change", "remove"]), _BLOOM_FILTERS), max_size=8
)


@given(_STEPS, st.sampled_from(_SUITES), st.integers(0, 15), st.none() | st.sets(st.integers(0, 4)))
@settings(max_examples=150, deadline=None)
def test_encoded_predicates_are_matched_under_their_suite(
    steps: list[tuple[int, str, list[BloomFilter]]], suite: Suite, bits: int, among: set[int] | None
) -> None:
    matcher = BloomMatcher()
    held: dict[int, list[BloomFilter]] = {}
    message = BloomMessage(suite, bits)
    for interface, action, filters in steps:
        before = held.pop(interface, [])
        if action != "remove":
            held[interface] = list(dict.fromkeys(filters))
        if action == "remove":
            matcher.remove(interface)
        elif action == "set":
            matcher.set_predicate(interface, BloomPredicate(filters))
        else:
            gone = [filter_ for filter_ in before if filter_ not in filters]
            matcher.change(interface, gone, filters)  # type: ignore[arg-type]  # as tables hold them
        expected = {
            interface
            for interface, own in held.items()
            if any(filter_.matches(message) for filter_ in own) and (among is None or interface in among)
        }
        assert matcher.match(message, among) == expected


def test_a_suite_whose_filters_are_gone_leaves_nothing() -> None:
    matcher = BloomMatcher()
    empty = matcher.nbytes
    for number in range(1, 30):
        suite = Suite(number, 512, 8, 1)
        filter_ = BloomFilter(suite, 1)
        if number % 3:
            matcher.set_predicate(1, BloomPredicate([filter_]))
        else:
            matcher.change(1, (), [filter_])  # type: ignore[list-item]  # as tables hold them
        assert matcher.match(BloomMessage(suite, 3)) == {1}
        if number % 3 == 0:
            matcher.change(1, [filter_], ())  # type: ignore[list-item]
        matcher.remove(1)
        assert matcher.match(BloomMessage(suite, 3)) == frozenset()
    assert matcher.nbytes == empty


def test_sets_that_contain_each_other_make_a_short_tree() -> None:
    """A path as long as their number took 0.8 s for 800 of them."""
    rows = [((2 << number) - 1).to_bytes(128, "little") for number in range(0, 1_000, 2)]
    segment = Segment(BitTable(rows_of(rows, 1_024), np.ones(len(rows), np.int32)))
    assert segment.nodes < 64
    filters = [(number % 7, row) for number, row in enumerate(rows)]
    held, tree = _by_interface(filters), TreeMatcher(1_024)
    for interface, row in filters:
        tree.change(interface, (), [row])
    for bits in (0, 1, 0xFF, (1 << 500) - 1, (1 << 1_024) - 1):
        message = bits.to_bytes(128, "little")
        assert tree.match(message) == _matching(held, message)
