"""A message is delivered to the applications once, however often it comes."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from router.predicates import EVERYTHING, Message
from router.protocol.bounds import Recent
from router.protocol.core.messages import MESSAGES_REMEMBERED
from router.protocol.core.router import Router
from router.protocol.events import Deliver, SendMessage, SetPredicate
from router.protocol.options import SCHEMES, RouterOptions
from router.wire.frames import AddressedMessage
from tests.support.one_router import NODE, TABLE, msg, received, set_up
from tests.support.tree_entries import with_subtrees

#: Which nodes are below matters to no test of this module.
BELOW: dict[int, frozenset[int]] = dict.fromkeys((NODE, 11, 21, 12, 13), frozenset())


def _router(scheme: str = "pif") -> Router:
    router = set_up(RouterOptions(scheme=scheme), with_subtrees(TABLE, BELOW))
    router.handle(SetPredicate(1, EVERYTHING), 0.0)
    return router


def _delivered(router: Router, number: int, scheme: str = "pif") -> list[int]:
    frame = replace(msg(11, x=1), seq=number)
    if scheme == "drp":
        frame = replace(frame, body=AddressedMessage((NODE,), Message({"x": 1})))
    return [action.seq for action in received(router, 11, frame) if isinstance(action, Deliver)]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_message_that_is_replayed_is_delivered_once(scheme: str) -> None:
    router = _router(scheme)
    delivered = [number for _ in range(500) for number in _delivered(router, 7, scheme)]
    assert delivered == [7]
    assert router.counters.dropped == {"message_duplicate": 499}
    assert router.counters.messages_delivered == 1
    assert router.counters.messages_received == 500


def test_a_replay_goes_on_to_the_neighbours_that_get_the_message() -> None:
    router = _router("flooding")
    frame = replace(msg(11, x=1), seq=7)
    first, second = received(router, 11, frame), received(router, 11, frame)
    assert [each for each in first if not isinstance(each, Deliver)] == second != []


def test_messages_that_others_overtook_are_delivered() -> None:
    router = _router()
    numbers = [5, 1, 2**32 + 1, 4, 2, 3]
    assert [number for each in numbers for number in _delivered(router, each)] == numbers


def test_a_forged_number_shuts_no_source_out() -> None:
    router = _router()
    assert _delivered(router, 2**64 - 1) == [2**64 - 1]
    assert _delivered(router, 1) == [1]
    assert router.counters.dropped == {}


def test_a_message_of_the_node_itself_is_delivered_with_each_request() -> None:
    router = _router()
    actions = [router.handle(SendMessage(1, Message({"x": 1})), 0.0) for _ in range(3)]
    assert [sum(isinstance(each, Deliver) for each in answer) for answer in actions] == [1, 1, 1]


def test_the_messages_that_were_delivered_last_are_remembered_and_no_others() -> None:
    """Of any sources, in any order."""
    rng, delivered = random.Random(1), Recent[tuple[int, int]](MESSAGES_REMEMBERED)
    sources = [0, 1, 11, 2**32 - 1]
    messages = list(
        {
            (rng.choice(sources), rng.choice((0, 2**14, 2**64 - 2**15)) + rng.randrange(2**15))
            for _ in range(50_000)
        }
    )
    assert all(map(delivered.add, messages))
    assert [each for each in messages if each in delivered] == messages[-MESSAGES_REMEMBERED:]
