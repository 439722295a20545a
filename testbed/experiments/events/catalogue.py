"""All events that an experiment may have, by action."""

from __future__ import annotations

from router.registry import Registry
from testbed.experiments.events.applications import (
    Publish,
    Refresh,
    Register,
    SendMessage,
    SetPredicate,
    Subscribe,
    Unregister,
    Unsubscribe,
)
from testbed.experiments.events.event import Event
from testbed.experiments.events.network import LinkDown, LinkFlap, LinkImpair, LinkUp, NodeDown, NodeUp
from testbed.experiments.events.parts import (
    ApplicationKill,
    CapturesKill,
    CapturesStop,
    ControllerRestart,
    ControllerStop,
    DatabaseRestart,
    DescriptorsExhausted,
    RouterRestart,
    RouterStop,
    SwitchesRestart,
    SwitchRestart,
)

#: In the order in which documents and errors list them.
EVENTS = Registry[type[Event]]("action")

for _event in (
    SetPredicate,
    Subscribe,
    Unsubscribe,
    SendMessage,
    Register,
    Refresh,
    Unregister,
    Publish,
    LinkDown,
    LinkUp,
    LinkFlap,
    LinkImpair,
    NodeDown,
    NodeUp,
    RouterStop,
    RouterRestart,
    DescriptorsExhausted,
    ControllerStop,
    ControllerRestart,
    CapturesStop,
    CapturesKill,
    SwitchRestart,
    SwitchesRestart,
    DatabaseRestart,
    ApplicationKill,
):
    EVENTS.register(_event.action, _event)
