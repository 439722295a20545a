"""A router with the attention-limited service that handles frames of a test (`tests.support.one_router`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from router.predicates import Message
from router.predicates.parser import parse_predicate
from router.protocol.core.router import Router
from router.protocol.events import Action
from router.protocol.options import RouterOptions
from router.protocol.services.attention import DeliverPublication, Index, Register, Registered, Upload
from router.protocol.services.attention.cache import Cache, Cached
from router.protocol.services.attention.dissemination import AttentionOptions, Transition, Trigger
from router.protocol.services.attention.rounds import State
from router.protocol.services.attention.service import Attention
from router.wire.frames import Body, Frame, FrameType, Publication, Subscription
from tests.support.one_router import received, sent, set_up

#: A SUB of 10 s for two publications of at most 100 s.
SUB = Subscription(0, 1, 2, 10_000_000, 100_000_000, parse_predicate("x = 1"))


def attention_router(**options: Any) -> Router:
    """Returns a router with the service that has committed epoch 1 on `one_router.TABLE`."""
    return set_up(RouterOptions(service="attention", service_options=AttentionOptions(**options)))


def state_of(router: Router) -> State:
    assert isinstance(router.service, Attention)
    return router.service.state


def frame_of(kind: FrameType, issuer: int, seq: int, body: Body) -> Frame:
    return Frame(kind, issuer, seq, 1, 9, body)


def sub(issuer: int = 11, seq: int = 1, body: Subscription = SUB) -> Frame:
    return frame_of(FrameType.SUB, issuer, seq, body)


def upload(router: Router, now: float = 0.0, **attributes: int) -> list[Action]:
    return router.handle(Upload(1, Message(attributes)), now)


def register(
    router: Router,
    most: int,
    lifetime_s: float = 10.0,
    freshness_s: float = 100.0,
    now: float = 0.0,
    predicate: str = "x = 1",
    refreshed: bool = False,
) -> tuple[int, list[Action]]:
    """Registers a subscription; returns its number, and the actions."""
    event = Register(1, parse_predicate(predicate), most, lifetime_s, freshness_s, refreshed)
    actions = router.handle(event, now)
    (began,) = [each for each in actions if isinstance(each, Registered)]
    return began.subscription, actions


def types(actions: list[Action]) -> list[str]:
    return [frame.type.name for _, frame in sent(actions)]


def subs(actions: list[Action]) -> list[tuple[set[int], Subscription]]:
    """The SUBs that are sent, with their interfaces."""
    return [(to, frame.body) for to, frame in sent(actions) if isinstance(frame.body, Subscription)]


def pubs(actions: list[Action]) -> list[Publication]:
    return [frame.body for _, frame in sent(actions) if isinstance(frame.body, Publication)]


def delivered(actions: list[Action]) -> list[int]:
    """The numbers of the publications that are delivered, without the incarnation."""
    return [each.seq & 0xFFFF_FFFF for each in actions if isinstance(each, DeliverPublication)]


def crowd(router: Router) -> None:
    """500 SUBs of node 11 fill the table, with the heaviest predicates; no publication matches them.

    So the router releases two publications at once for a further SUB.
    """
    predicate = parse_predicate(" or ".join(f"other > {n}" for n in range(64)))
    for seq in range(100, 600):
        received(router, 11, sub(seq=seq, body=replace(SUB, predicate=predicate)))


def put(cache: Cache, cached: Cached, index: Index) -> None:
    """Adds a publication to a cache, in an index."""
    cache.add(cached, Transition("", Trigger.UPLOAD, {}, index), 0.0)
