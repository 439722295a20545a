"""The state of the network by the log of the controller: links and nodes that are down, epochs, and changes.

`testbed.controller` writes the events; faults name those that they lead to
(`testbed.experiments.events.network`). Accounting, oracle, live view and runner follow the log by this
module, which imports nothing of the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

#: By name, each event that is declared.
NETWORK_EVENTS: dict[str, NetworkEvent] = {}


@dataclass(frozen=True, slots=True)
class NetworkEvent:
    """One event, one of `NETWORK_EVENTS`.

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

    def __post_init__(self) -> None:
        NETWORK_EVENTS[self.name] = self


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


@dataclass(slots=True)
class Change:
    """Disturbances that one epoch answers: while it lasts, messages may be lost.

    Attributes:
        events: each in words, such as "link_down 0-1", in the order in which the controller saw them.
        began_ns: when it saw the first (wall clock, ns).
        epoch, committed_ns: the epoch that answers them, and when all its routers had it; None: none did.
    """

    events: list[str]
    began_ns: int
    epoch: int | None = None
    committed_ns: int | None = None


@dataclass(slots=True)
class Epochs:
    """Follows the controller's log.

    What precedes the first commit is set-up. An epoch answers the disturbances before its start; those that
    come between its start and its commit wait, with the others, for the next one.

    Attributes:
        committed: how many epochs were.
        changes: of the network, after its set-up.
        down_links, down_nodes: what the controller knows to be down: indices of links, nodes.
    """

    committed: int = 0
    changes: list[Change] = field(default_factory=list)
    down_links: set[int] = field(default_factory=set)
    down_nodes: set[int] = field(default_factory=set)
    _disturbed: bool = False  # since the last epoch started
    _early: list[str] = field(default_factory=list)  # disturbances since the first, before its commit

    @property
    def settled(self) -> bool:
        """Whether every router has the trees for the network as the controller knows it."""
        return self.committed > 0 and not self._waiting and not self._disturbed

    @property
    def _waiting(self) -> bool:
        return bool(self.changes) and self.changes[-1].committed_ns is None

    def take(self, event: Mapping[str, Any]) -> bool:
        """Takes the next event of the log.

        Returns whether it changes what is up.

        Raises:
            KeyError: it lacks a field.
        """
        name = event["event"]
        if name == "committed" and event.get("routers") == 0:
            pass  # an epoch without routers, while all switches were away, ends no outage
        elif name == "committed":
            self.committed += 1
            if self._disturbed and not self._waiting:
                # Of the set-up, and no epoch has answered it yet.
                self.changes.append(Change(self._early, int(event["t_ns"])))
            if self._waiting and not self._disturbed:
                self.changes[-1].epoch, self.changes[-1].committed_ns = event["epoch"], int(event["t_ns"])
        elif name == "epoch_started":
            self._disturbed = False
            self._change(event, [])
        elif words := _in_words(event):
            self._disturbed = True
            self._change(event, [words])
        return self._follow(event)

    def _change(self, event: Mapping[str, Any], words: list[str]) -> None:
        if not self.committed:
            self._early = [*self._early, *words] if words else []
            return
        if not self._waiting:
            self.changes.append(Change([], int(event["t_ns"])))
        self.changes[-1].events += words

    def _follow(self, event: Mapping[str, Any]) -> bool:
        name = event["event"]
        if name == "epoch_started":
            # It knows of more: a switch that has disconnected, a router that does not answer.
            self.down_links, self.down_nodes = set(event["down_links"]), set(event["down_nodes"])
            return True
        known = NETWORK_EVENTS.get(name)
        if known is None or known.sets is None:
            return False
        what, up = known.sets
        down = self.down_links if what == "link" else self.down_nodes
        (down.discard if up else down.add)(event[what])
        return True


def epochs(events: Iterable[Mapping[str, Any]]) -> Epochs:
    """Follows the controller's events, in order of time.

    Raises:
        KeyError: an event lacks a field.
    """
    found = Epochs()
    for event in events:
        found.take(event)
    return found


def _in_words(event: Mapping[str, Any]) -> str | None:
    """A disturbance as text, such as "node_down 4"; None for any other event."""
    name = event["event"]
    if name == "hello" and event["restarted"]:
        return f"restart {event['node']}"
    known = NETWORK_EVENTS.get(name)
    if known is None or not known.disturbs:
        return None
    return f"{name} {'-'.join(str(event[part]) for part in known.subject)}"
