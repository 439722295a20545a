"""Which merges of segments run in the turn of a message, and which in a thread."""

from __future__ import annotations

from router.matching.common import segments
from router.matching.compiled.engine import CompiledMatcher
from router.predicates.model import Constraint, Filter, Message, Operator, Type

_MESSAGE = Message({"s": "text", "x": -1})


def _substrings(first: int, count: int, length: int) -> list[Filter]:
    return [
        Filter((Constraint("s", Type.STRING, Operator.SUBSTRING, f"{number:0{length}}"),))
        for number in range(first, first + count)
    ]


def _integers(first: int, count: int) -> list[Filter]:
    return [
        Filter((Constraint("x", Type.INTEGER, Operator.EQ, number),))
        for number in range(first, first + count)
    ]


def test_a_merge_of_a_few_long_texts_runs_in_a_thread() -> None:
    matcher = CompiledMatcher()
    merged = []
    for first in range(0, 24, 8):
        matcher.change(1, (), _substrings(first, 8, 60_000))
        assert matcher.match(_MESSAGE) == frozenset()
        merged.append(matcher.merging)
    # 480 kB and 480 kB are merged at once, 960 kB and 480 kB are not.
    assert merged == [False, False, True]
    matcher.finish_merges()
    assert matcher.match(Message({"s": f"{23:060000}"})) == {1}


def test_merges_of_one_turn_share_a_bound() -> None:
    matcher = CompiledMatcher()
    sizes = (segments.BACKGROUND_RECORDS - 100, segments.BACKGROUND_RECORDS // 5)
    first, second = _integers(0, sizes[0]), _integers(sizes[0], sizes[1])
    for added in (first, second):
        matcher.change(1, (), added)
        assert matcher.match(_MESSAGE) == frozenset()
    assert matcher.statistics()["segments"] == 2
    # More than half of both is gone: each is due, and both together exceed the bound.
    matcher.change(1, first[10:] + second[10:], _integers(-2, 1))
    assert matcher.match(_MESSAGE) == frozenset()
    assert matcher.merging
    matcher.finish_merges()
    assert matcher.match(Message({"x": 9})) == {1}
    assert matcher.match(Message({"x": 10})) == frozenset()
