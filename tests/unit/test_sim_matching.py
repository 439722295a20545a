"""The lazy matcher answers as its engine would, and asks it for no more than is needed."""

from __future__ import annotations

from collections.abc import Collection

from router.matching.counting import CountingMatcher
from router.predicates.model import Message, Predicate
from router.predicates.parser import parse_predicate
from testbed.sim.matching import LazyMatcher


class _Counted(CountingMatcher):
    """The real engine, and how often it was told something."""

    def __init__(self) -> None:
        super().__init__()
        self.told = 0

    def set_predicate(self, interface: int, predicate: Predicate) -> None:
        self.told += 1
        super().set_predicate(interface, predicate)

    def match(self, message: Message, among: Collection[int] | None = None) -> frozenset[int]:
        return super().match(message, among)


def test_the_last_predicate_counts_and_the_others_are_never_passed_on() -> None:
    engine = _Counted()
    matcher = LazyMatcher(engine)
    for bound in range(10):
        matcher.set_predicate(1, parse_predicate(f"x > {bound}"))
    assert engine.told == 0
    assert matcher.match(Message({"x": 9})) == frozenset()
    assert matcher.match(Message({"x": 10})) == {1}
    assert engine.told == 1


def test_a_removal_is_told_when_it_matters() -> None:
    matcher = LazyMatcher(CountingMatcher())
    matcher.set_predicate(1, parse_predicate("x > 0"))
    matcher.set_predicate(2, parse_predicate("x > 0"))
    assert matcher.match(Message({"x": 1})) == {1, 2}
    matcher.remove(1)
    assert matcher.match(Message({"x": 1}), among={2}) == {2}
    assert matcher.match(Message({"x": 1}), among={1, 2}) == {2}
    assert matcher.match(Message({"x": 1})) == {2}
    matcher.set_predicate(1, parse_predicate("x > 0"))
    assert matcher.match(Message({"x": 1}), among=[1]) == {1}
