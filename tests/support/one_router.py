"""A router that handles events of a test: its node, its tables, and short names for events."""

from __future__ import annotations

import random

from router.predicates import Message, Value
from router.predicates.parser import parse_predicate
from router.protocol.core.router import Layer, Router
from router.protocol.events import Action, ControllerFrame, FrameReceived, Send
from router.protocol.options import RouterOptions, content_of
from router.wire.frames import Body, BroadcastTable, Commit, Frame, FrameType
from tests.support.tree_entries import TreeEntry, table_of

NODE = 5

INCARNATION = 3

FIRST = INCARNATION << 32 | 1

#: Numbers of the controller for this start of the router are this and a counter.
CONTROL = INCARNATION << 32 | 1 << 16

# Interfaces 1, 2, 3 lead to nodes 11, 12, 13; node 21 lies beyond 11, node 22 is cut off.
TABLE = table_of(
    neighbours=((1, 11), (2, 12), (3, 13)),
    entries=(
        TreeEntry(NODE, 0, (1, 2, 3), 0),
        TreeEntry(11, 1, (2, 3), 1),
        TreeEntry(21, 1, (2,), 2),
        TreeEntry(12, 2, (1,), 3),
        TreeEntry(13, 3, (), 4),
    ),
)

#: Source -> the nodes of the router's subtree: node 13 is below on the tree of 11, and not on that of 21.
BELOW = {
    NODE: frozenset({NODE, 11, 12, 13, 21}),
    11: frozenset({NODE, 12, 13}),
    21: frozenset({NODE, 12}),
    12: frozenset({NODE, 11, 21}),
    13: frozenset({NODE, 11}),
}

# Interface 3 has vanished.
NEXT_TABLE = table_of(
    neighbours=((1, 11), (2, 12)),
    entries=(TreeEntry(NODE, 0, (1, 2), 0), TreeEntry(11, 1, (2,), 1), TreeEntry(12, 2, (1,), 2)),
)


def new_router(options: RouterOptions | None = None, matcher: str = "counting") -> Router:
    options = options or RouterOptions()
    engine = content_of(options.covering, options.privacy).matcher(matcher)
    return Router(NODE, options, engine, INCARNATION, random.Random(1))


def control(router: Layer, kind: FrameType, epoch: int, body: Body, now: float = 0.0) -> list[Action]:
    return router.handle(ControllerFrame(Frame(kind, NODE, CONTROL | epoch, epoch, 1, body)), now)


def set_up(
    options: RouterOptions | None = None, table: BroadcastTable = TABLE, matcher: str = "counting"
) -> Router:
    """Returns a router that has committed epoch 1 on `table`."""
    router = new_router(options, matcher)
    in_first_epoch(router, table)
    return router


def in_first_epoch(router: Layer, table: BroadcastTable = TABLE) -> None:
    control(router, FrameType.TABLE, 1, table)
    control(router, FrameType.COMMIT, 1, Commit(1))


def ra(issuer: int, text: str, epoch: int = 1, hop_limit: int = 9, seq: int = 1) -> Frame:
    return Frame(FrameType.RA, issuer, seq, epoch, hop_limit, parse_predicate(text))


def msg(issuer: int, epoch: int = 1, hop_limit: int = 9, seq: int = 1, **attributes: Value) -> Frame:
    return Frame(FrameType.MSG, issuer, seq, epoch, hop_limit, Message(attributes))


def sent(actions: list[Action]) -> list[tuple[set[int], Frame]]:
    return [(set(action.interfaces), action.frame) for action in actions if isinstance(action, Send)]


def received(router: Layer, sender: int, frame: Frame, now: float = 0.0) -> list[Action]:
    """Passes a frame from the router of node `sender` to the router."""
    return router.handle(FrameReceived(sender, frame), now)
