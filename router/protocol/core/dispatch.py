"""The one table of events and frames: which method of which part takes each.

A router has the rows of the parts that it is made of: no row of a scheme or service that it does not run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from router.protocol import events
from router.protocol.advertising import Advertising
from router.protocol.context import Parts
from router.protocol.core.intake import FrameRule, Intake, from_controller, from_neighbour, on_tree
from router.protocol.core.messages import Messages
from router.protocol.core.session import ControllerSession
from router.protocol.pull.pull import PullRouting
from router.protocol.services import Service
from router.protocol.services.attention import Refresh, Register, Unregister, Upload
from router.protocol.services.attention.service import Attention
from router.protocol.services.exhaustive import Exhaustive
from router.wire.frames import (
    BroadcastTable,
    Commit,
    FrameType,
    Overload,
    Publication,
    SenderRequest,
    Subscription,
)

#: Event -> what takes it, with the event and the time.
EVENTS: dict[type, Callable[[Any, Any, float], list[events.Action]]] = {
    events.Started: ControllerSession.started,
    events.ControllerFrame: Intake.controller_frame,
    events.FrameReceived: Intake.frame_received,
    events.Tick: Parts.tick,
    events.Settle: Parts.settle,
    # Applications.
    events.SetPredicate: Exhaustive.set_predicate,
    events.SendMessage: Messages.send,
    events.ApplicationGone: Service.application_gone,
    Register: Attention.register,
    Refresh: Attention.refresh,
    Unregister: Attention.unregister,
    Upload: Attention.upload,
    events.DeliveryRefused: Messages.delivery_refused,
    # The researcher, and the clock of the driver.
    events.RequestUpdate: PullRouting.update_requested,
    events.HandlingTime: PullRouting.handling_measured,
}

#: Frame type -> which way such a frame comes, what takes it, and the classes of its body. Those of predicates
#: and messages are the content's: a router takes the types in which its content travels.
FRAMES: dict[FrameType, FrameRule] = {
    FrameType.TABLE: from_controller(ControllerSession.received, BroadcastTable),
    FrameType.COMMIT: from_controller(ControllerSession.received, Commit),
    FrameType.MSG: on_tree(Messages.received, changes_deadlines=False),
    FrameType.XMSG: on_tree(Messages.received, changes_deadlines=False),
    FrameType.RA: on_tree(Advertising.received, changes_deadlines=False),
    FrameType.XRA: on_tree(Advertising.received, changes_deadlines=False),
    FrameType.SR: on_tree(PullRouting.request_received, SenderRequest),
    # A UR goes against its tree: whether it comes from the right side is for its SR to say.
    FrameType.UR: from_neighbour(PullRouting.reply_received),
    FrameType.XUR: from_neighbour(PullRouting.reply_received),
    # The attention-limited service.
    FrameType.SUB: FrameRule(Intake.branch_or_child, (Subscription,), Attention.sub_received),
    FrameType.PUB: on_tree(Attention.pub_received, Publication),
    FrameType.OVERLOAD: on_tree(Attention.overload_received, Overload),
    FrameType.FLUSH: from_neighbour(Attention.flush_received, Publication),
}


def event_handlers(parts: Iterable[object]) -> dict[type, Callable[[Any, float], list[events.Action]]]:
    """The rows of `EVENTS` that the parts of a router have, bound to them."""
    return {event: bound for event, method in EVENTS.items() if (bound := _bound(method, parts)) is not None}


def frame_rules(
    parts: Iterable[object], bodies: Mapping[FrameType, tuple[type, ...]]
) -> Mapping[FrameType, FrameRule]:
    """The rows of `FRAMES` that the parts of a router have, bound to them.

    Args:
        bodies: the classes of the bodies of the frames in which the content travels.
    """
    rules = {}
    for kind, rule in FRAMES.items():
        classes, handle = rule.bodies or bodies.get(kind, ()), _bound(rule.handle, parts)
        if classes and handle is not None:
            rules[kind] = replace(rule, bodies=classes, handle=handle)
    return rules


def _bound(
    method: Callable[..., list[events.Action]], parts: Iterable[object]
) -> Callable[..., list[events.Action]] | None:
    """The method of the part whose class, or a base of it, defines `method`; None: no part does."""
    for part in parts:
        if any(vars(each).get(method.__name__) is method for each in type(part).__mro__):
            bound: Callable[..., list[events.Action]] = getattr(part, method.__name__)
            return bound
    return None
