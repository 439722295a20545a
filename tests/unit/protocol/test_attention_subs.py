"""SUBs and OVERLOADs of the attention-limited service: where they go, and what they carry."""

from __future__ import annotations

from dataclasses import replace

from router.protocol.events import Action
from router.wire.frames import FrameType, Overload, Subscription
from tests.support.attention_router import (
    SUB,
    attention_router,
    frame_of,
    register,
    state_of,
    sub,
    upload,
)
from tests.support.one_router import received, sent


def _asked(actions: list[Action]) -> list[tuple[set[int], int]]:
    """The SUBs that are sent: interfaces, and publications that they ask for."""
    return [(to, frame.body.remaining) for to, frame in sent(actions) if isinstance(frame.body, Subscription)]


def test_a_sub_asks_every_child_for_all_that_is_lacking() -> None:
    _, actions = register(attention_router(), 5)
    assert _asked(actions) == [({1, 2, 3}, 5)]


def test_a_divided_sub_asks_every_child_for_a_share() -> None:
    """The shares of a home and of a router on the way add up to what is lacking; a share of 0 is not sent."""
    router = attention_router(fan_out="divided")
    assert _asked(register(router, 5)[1]) == [({1, 2}, 2), ({3}, 1)]
    assert _asked(register(router, 2)[1]) == [({1, 2}, 1)]
    upload(router, x=1)
    assert _asked(received(router, 11, sub(body=replace(SUB, remaining=4)))) == [({2}, 2), ({3}, 1)]


def test_an_overload_goes_where_the_sub_went() -> None:
    router = attention_router(fan_out="divided")
    _, actions = register(router, 1, predicate="x = 2")
    assert _asked(actions) == [({1}, 1)]
    # The publication fills the box.
    assert [(to, frame.type) for to, frame in sent(upload(router, x=2))] == [({1}, FrameType.OVERLOAD)]
    assert _asked(received(router, 11, sub(body=replace(SUB, remaining=1)))) == [({2}, 1)]
    actions = received(router, 11, frame_of(FrameType.OVERLOAD, 11, 1, Overload(0)))
    assert [(to, frame.type) for to, frame in sent(actions)] == [({2}, FrameType.OVERLOAD)]
    assert not any(entry.active for entry in state_of(router).table)
