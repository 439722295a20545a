"""Messages of a filter that other filters leave out, as compiled code finds them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.predicates.covering.bitset import Bits, bits_of, numbers_in
from router.predicates.covering.pool import FilterPool
from router.predicates.model import Predicate
from router.predicates.parser import parse_predicate
from testbed.sim.layout import BOXED_MAX, BOXES_WAITING, KINDS, WITNESSES_MAX, Advert, Relation
from tests.support.predicate_worlds import MIXED, predicates

pytest.importorskip("numba")

from router.native.memory import address_of
from testbed.sim.compiled_witnesses import find_witness
from testbed.sim.ranks import Ranks


class _Search:
    """The arrays of a search in a pool of filters, for one filter."""

    def __init__(self, pool: FilterPool, number: int) -> None:
        self._pool, self._number = pool, number
        relations = pool.compared(number)
        self._words = -(-(relations.searched | relations.bit).bit_length() // 64)
        self._ranks = Ranks(pool)
        self._ranks.fit(64 * self._words)
        assert self._ranks.take(relations.searched | relations.bit)
        assert not self._ranks.take(relations.searched)
        self.rows = np.zeros((KINDS, self._words), np.uint64)
        self.rows[Relation.POSSIBLE_COVERS] = [
            relations.possible_covers >> 64 * word & (1 << 64) - 1 for word in range(self._words)
        ]
        self._places = np.zeros(64 * self._words, np.int32)
        self._boxes = np.zeros(64 * self._words, np.uint8)
        self._search = np.zeros(2 * ((BOXES_WAITING + 1) * BOXED_MAX + self._ranks.attributes), np.int64)
        self._array = np.zeros(len(Advert), np.int64)
        self._array[Advert.WIDTH] = self._words
        for item, each in (
            (Advert.RELATIONS, self.rows),
            (Advert.PLACES, self._places),
            (Advert.BOXES, self._boxes),
            (Advert.SHAPES, self._ranks.places),
            (Advert.RECORDS, self._ranks.records),
            (Advert.SEARCH, self._search),
        ):
            self._array[item] = address_of(each)

    def find(self, others: Bits) -> Bits | None:
        """The filters that may match a message that matches none of these; None: no message was found."""
        before = self.found
        numbers = np.array(list(numbers_in(others)), np.int64)
        if not find_witness(self._array, self._number, address_of(numbers), len(numbers), self._words):
            return None
        place = before if before < WITNESSES_MAX else (self._array[Advert.REPLACED] - 1) % WITNESSES_MAX
        return int.from_bytes(self.rows[len(Relation) + place].tobytes(), "little")

    @property
    def found(self) -> int:
        """The number of messages of the filter."""
        return int(self._boxes[self._number]) >> 1


def _numbers(pool: FilterPool, *texts: str) -> list[int]:
    return [pool.numbers(parse_predicate(text))[0] for text in texts]


def test_a_message_between_two_filters_is_found() -> None:
    pool = FilterPool()
    wide, low, high, joined = _numbers(pool, "x > 0 and x < 10", "x < 4", "x > 4", "x < 5")
    search = _Search(pool, wide)
    assert search.find(bits_of((low, high))) == bits_of((joined,))
    assert search.find(bits_of((joined, high))) is None


@pytest.mark.parametrize(
    ("own", "others"),
    [
        ('s ** "ab"', ['s =* "x"', 's < "m"', 's ** "abc"']),
        ('s *= "ab"', ['s > "ab" and s < "m"', 's *= "cab"', 's ** "q"']),
        ('s >= "f" and s <= "h"', ['s ** "q"', 's *= "h"']),
        ("x != 3 and y != 4", ["x < 3", "y > 4", "x > 7 and y < 2"]),
    ],
)
def test_a_message_is_found(own: str, others: list[str]) -> None:
    pool = FilterPool()
    number, *rest = _numbers(pool, own, *others)
    assert _Search(pool, number).find(bits_of(rest)) is not None


def test_the_message_found_last_takes_the_place_of_an_earlier_one() -> None:
    pool = FilterPool()
    wide, *others = _numbers(pool, "x any integer", *(f"x < {number}" for number in range(WITNESSES_MAX + 2)))
    search = _Search(pool, wide)
    for each in others:
        assert search.find(1 << each) is not None
    assert search.found == WITNESSES_MAX


def test_filters_with_new_keys_are_ranked_later() -> None:
    pool = FilterPool()
    ranks = Ranks(pool)
    ranks.fit(1024)
    numbers = _numbers(pool, *(f"x < {number}" for number in range(200)))
    for number in numbers:
        assert ranks.take(1 << number)
    # Not at each new key, which would take time that grows with the square of the filters.
    assert 0 < sum(place >= 0 for place in ranks.places.tolist()) < len(numbers)


@settings(max_examples=200)
@given(predicates("xy", MIXED).filter(bool), st.lists(predicates("xy", MIXED).filter(bool), max_size=5))
def test_filters_without_the_message_do_not_cover(one: Predicate, others: list[Predicate]) -> None:
    pool = FilterPool()
    numbers = pool.numbers(one)
    members = 0
    for other in others:
        members |= bits_of(pool.numbers(other))
    for number in numbers:
        near = members & pool.compared(number).possible_covers
        found = _Search(pool, number).find(near)
        if found is not None:
            assert not found & near
            assert not pool.covers(pool.compared(number).possible_covers & ~found, number)
