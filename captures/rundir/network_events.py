"""The events of the controller's log that concern the network, as readers of the log need them.

`testbed.controller` writes them; faults name those that they lead to (`testbed.events.fault`). The epochs of
a run and the live view follow this table. The module imports nothing of the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class NetworkEvent:
    """One event.

    Attributes:
        name: value of `event` in the log.
        subject: the fields that say what it concerns; joined by "-" they name it in tables, such as "0-1".
        sentence: what the live view shows; `str.format` replaces the names of fields. None: nothing.
        sets: the state that it reports, as (field, whether that link or node is up); None: neither.
        disturbs: the controller starts a new epoch after it.
    """

    name: str
    subject: tuple[str, ...]
    sentence: str | None
    sets: tuple[Literal["link", "node"], bool] | None = None
    disturbs: bool = True


LINK_DOWN = NetworkEvent("link_down", ("u", "v"), "link {u}-{v} down", ("link", False))
LINK_UP = NetworkEvent("link_up", ("u", "v"), "link {u}-{v} up", ("link", True))
NODE_DOWN = NetworkEvent("node_down", ("node",), "node {node} down", ("node", False))
NODE_UP = NetworkEvent("node_up", ("node",), "node {node} up", ("node", True))
SWITCH_DISCONNECTED = NetworkEvent("switch_disconnected", ("node",), "switch of node {node} disconnected")
#: Each switch connects once in the set-up too.
SWITCH_CONNECTED = NetworkEvent("switch_connected", ("node",), None)
ROUTER_UNRESPONSIVE = NetworkEvent("router_unresponsive", ("node",), "router {node} does not answer")
ROUTER_RESPONSIVE = NetworkEvent("router_responsive", ("node",), "router {node} answers again")
COMMITTED = NetworkEvent(
    "committed", ("epoch",), "epoch {epoch} committed at {routers} routers", disturbs=False
)

#: By name.
NETWORK_EVENTS = {
    event.name: event
    for event in (
        LINK_DOWN,
        LINK_UP,
        NODE_DOWN,
        NODE_UP,
        SWITCH_DISCONNECTED,
        SWITCH_CONNECTED,
        ROUTER_UNRESPONSIVE,
        ROUTER_RESPONSIVE,
        COMMITTED,
    )
}
