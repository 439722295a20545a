"""The core takes predicates of a class of their own, as a content with encoded predicates has them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, cast

import pytest

from router.content.base import Plain
from router.predicates.model import Filter, Predicate
from router.predicates.parser import parse_predicate
from router.protocol.events import FrameReceived, RequestUpdate
from router.protocol.options import CONTENTS, RouterOptions
from router.wire.frames import Body, Frame, FrameType
from tests.support.one_router import FIRST, NODE, ra, sent, set_up


@dataclass(frozen=True, slots=True)
class _Sealed:
    """Filters that are no `Predicate`."""

    filters: tuple[Filter, ...]
    numbered: tuple[object, tuple[int, ...], int | None] | None = field(default=None, compare=False)

    def __iter__(self) -> Iterator[Filter]:
        return iter(self.filters)


class _OwnClass(Plain):
    predicate_bodies: ClassVar[tuple[type, ...]] = (_Sealed,)


@pytest.fixture
def options() -> Iterator[RouterOptions]:
    CONTENTS.register("own class", _OwnClass)
    yield RouterOptions(covering="own class")
    CONTENTS.unregister("own class")


def _sealed(frame_type: FrameType, issuer: int, seq: int, text: str) -> Frame:
    body = cast(Body, _Sealed(parse_predicate(text).filters))
    return Frame(frame_type, issuer, seq, 1, 9, body)


def test_tables_are_made_of_predicates_of_the_contents_class(options: RouterOptions) -> None:
    router = set_up(options)
    actions = router.handle(FrameReceived(11, _sealed(FrameType.RA, 11, 1, "x = 1")), 1.0)
    assert [ports for ports, _ in sent(actions)] == [{2, 3}]
    assert [(row.interface, row.predicate) for row in router.rows()] == [(1, parse_predicate("x = 1"))]
    router.handle(RequestUpdate(frozenset({1})), 2.0)
    router.handle(FrameReceived(11, _sealed(FrameType.UR, NODE, FIRST, "x = 2")), 3.0)
    assert [(row.interface, row.predicate) for row in router.rows()] == [(1, parse_predicate("x = 2"))]
    assert router.counters.urs_applied == 1
    assert router.counters.dropped == {}


def test_predicates_of_another_class_are_dropped(options: RouterOptions) -> None:
    router = set_up(options)
    assert isinstance(ra(11, "x = 1").body, Predicate)
    assert router.handle(FrameReceived(11, ra(11, "x = 1")), 1.0) == []
    assert router.rows() == ()
    assert router.counters.dropped == {"malformed": 1}
