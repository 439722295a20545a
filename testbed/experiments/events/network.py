"""Faults of links and nodes, and how they reach an emulation and a simulation.

A fault is a class: its fields are its keys, `check` holds them against the topology, and `steps` applies it
through `NetworkControl`, which the emulated and the simulated network implement. The controller notices the
change and logs events (`leads_to`), from which the oracle, the accounting, the report and the live view know
of the fault. A node that is down has no host link and no links; its router and applications go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

from captures.rundir.epochs import LINK_DOWN, LINK_UP, NODE_DOWN, NODE_UP, NetworkEvent
from router.options import setting
from router.registry import Registry
from testbed.experiments.events import (
    ApplicationEvent,
    Ends,
    Event,
    OfLink,
    OfLinkForAWhile,
    OfNode,
    Problem,
    check_joined,
    links_between,
)
from testbed.experiments.events.parts import PartFault
from topos import PROPERTIES, Link, Topology
from topos.build import contradiction


class NetworkControl(Protocol):
    """The changes that faults make to a network.

    Links and nodes are taken down independently: a link is up if neither it nor one of its nodes is down.
    """

    def set_link(self, u: int, v: int, up: bool) -> None:
        """Takes the link between two nodes down or up."""

    def shape(self, ends: Ends, properties: Mapping[str, float | None]) -> list[Link]:
        """Gives the links between two nodes other properties; returns the links as they are then.

        Args:
            ends: None: all links.
            properties: values of `topos.Link` by their names; None takes a property away.
        """

    def set_node(self, node: int, up: bool) -> None:
        """Cuts a node off from the network, its host link and all its links, or joins it to the network."""


#: A moment in experiment seconds, and what is done with the network then.
Step = tuple[float, Callable[[NetworkControl], None]]


class Fault(Event):
    """An event of the network.

    Attributes:
        leads_to: the events that the controller logs because of it, in a network without other faults, each
            once or several times.
    """

    leads_to: ClassVar[tuple[NetworkEvent, ...]]

    def apply(self, network: NetworkControl) -> None:
        raise NotImplementedError

    def steps(self) -> Iterator[Step]:
        """Yields the steps of the fault; a fault of a single moment has a single step, `apply`."""
        yield self.at_s, self.apply


def steps_of(events: Iterable[Event]) -> list[Step]:
    """The steps of the faults of the network among some events, in order of time; events of applications and
    faults of parts are left out.

    Raises:
        TypeError: an event is neither a fault nor an event of an application.
    """
    steps: list[Step] = []
    for event in events:
        if isinstance(event, Fault):
            steps.extend(event.steps())
        elif not isinstance(event, ApplicationEvent | PartFault):
            raise TypeError(f"{event}: is neither a fault nor an event of an application")
    steps.sort(key=lambda step: step[0])
    return steps


class LinkDown(OfLink, Fault):
    action = "link_down"
    doc = "The link goes down."
    leads_to = (LINK_DOWN,)

    def apply(self, network: NetworkControl) -> None:
        network.set_link(*self.link, up=False)


class LinkUp(OfLink, Fault):
    action = "link_up"
    doc = "The link comes up, unless a node of it is down."
    leads_to = (LINK_UP,)

    def apply(self, network: NetworkControl) -> None:
        network.set_link(*self.link, up=True)


class LinkFlap(OfLinkForAWhile, Fault):
    action = "link_flap"
    doc = "The link goes down and after `down_s` comes up, unless a node of it is down."
    leads_to = (LINK_DOWN, LINK_UP)

    def steps(self) -> Iterator[Step]:
        yield self.at_s, lambda network: network.set_link(*self.link, up=False)
        yield self.ends_s, lambda network: network.set_link(*self.link, up=True)


#: The greatest value of a property in an event.
_MOST = {"bandwidth_mbps": 1e6, "delay_ms": 60_000.0, "jitter_ms": 60_000.0}


def _property(name: str) -> Any:
    declared = PROPERTIES[name]
    changed = {each: getattr(declared, each) for each in ("doc", "low", "unit")}
    return setting(None, **changed, high=_MOST.get(name, declared.high))


@dataclass(frozen=True)
class LinkImpair(Fault):
    action = "link_impair"
    doc = "Properties of [links] change, to at most 1e6 Mbit/s and 60,000 ms; 0 takes a property away."
    leads_to = ()

    link: tuple[int, int] | None = setting(
        None, "Nodes at the ends of the link; unset: all links.", node=True
    )
    loss_percent: float | None = _property("loss_percent")
    bandwidth_mbps: float | None = _property("bandwidth_mbps")
    delay_ms: float | None = _property("delay_ms")
    jitter_ms: float | None = _property("jitter_ms")
    reorder_percent: float | None = _property("reorder_percent")
    duplicate_percent: float | None = _property("duplicate_percent")

    @property
    def properties(self) -> dict[str, float | None]:
        """The properties that change; None takes one away."""
        given = {name: getattr(self, name) for name in PROPERTIES}
        return {name: value or None for name, value in given.items() if value is not None}

    def sentence(self, topology: Topology) -> str:
        """The change as the live view shows it."""
        where = "all links" if self.link is None else f"link {'-'.join(map(topology.label, self.link))}"
        return f"{where} set {' '.join(f'{name}={value or 0:g}' for name, value in self.properties.items())}"

    def check(self, topology: Topology) -> Iterator[Problem]:
        if self.link is not None:
            yield from check_joined(self.link, topology)
        if not self.properties:
            yield "at_s", f"no property is given; expected some of {', '.join(PROPERTIES)}"

    def apply(self, network: NetworkControl) -> None:
        network.shape(self.link, self.properties)


def impaired(topology: Topology, events: Iterable[Event]) -> tuple[dict[int, list[Link]], list[str]]:
    """The properties that events give to links, in order of time.

    Returns:
        The states of each link that changes, by index; and why properties of a state contradict each other.
    """
    states: dict[int, list[Link]] = {}
    problems = []
    for event in sorted(events, key=lambda event: event.at_s):
        if not isinstance(event, LinkImpair):
            continue
        for link in links_between(topology, event.link):
            known = states.setdefault(link.index, [])
            changed = replace(known[-1] if known else link, **event.properties)  # type: ignore[arg-type]
            known.append(changed)
            if (problem := contradiction(changed)) is not None:
                problems.append(f"link {link.u}-{link.v} at {event.at_s:g} s: {problem}")
    return states, problems


def at_worst(topology: Topology, events: Iterable[Event]) -> Topology:
    """The topology in which each link has the greatest value that it ever has of each property.

    Of the bandwidth, the least.
    """
    states, _ = impaired(topology, events)

    def worst(link: Link) -> Link:
        values: dict[str, Any] = {}
        for name in PROPERTIES:
            found = [value for each in (link, *states[link.index]) if (value := getattr(each, name))]
            values[name] = (min if name == "bandwidth_mbps" else max)(found, default=None)
        return replace(link, **values)

    links = tuple(worst(link) if link.index in states else link for link in topology.links)
    return replace(topology, links=links)


class NodeDown(OfNode, Fault):
    action = "node_down"
    doc = "The node is cut off from the network: its host link and all its links go down."
    leads_to = (NODE_DOWN, LINK_DOWN)

    def apply(self, network: NetworkControl) -> None:
        network.set_node(self.node, up=False)


class NodeUp(OfNode, Fault):
    action = "node_up"
    doc = "The node is joined to the network; links that were taken down by themselves stay down."
    leads_to = (NODE_UP, LINK_UP)

    def apply(self, network: NetworkControl) -> None:
        network.set_node(self.node, up=True)


class NetworkState:
    """The links and nodes that faults have taken down, and so the links that are up."""

    def __init__(self, topology: Topology) -> None:
        self._links = {frozenset((link.u, link.v)): link for link in topology.links}
        self._taken_down: set[int] = set()
        self.down_nodes: set[int] = set()

    def set_link(self, u: int, v: int, up: bool) -> Link:
        """Notes that a link is taken down or up; returns it.

        Raises:
            ValueError: the nodes are not joined.
        """
        link = self._links.get(frozenset((u, v)))
        if link is None:
            raise ValueError(f"no link {u}-{v}")
        (self._taken_down.discard if up else self._taken_down.add)(link.index)
        return link

    def set_node(self, node: int, up: bool) -> list[Link]:
        """Notes that a node is cut off or joined; returns its links, by index."""
        (self.down_nodes.discard if up else self.down_nodes.add)(node)
        return [link for link in self._links.values() if node in (link.u, link.v)]

    def is_up(self, link: Link) -> bool:
        """Whether neither a link nor one of its nodes is down."""
        return link.index not in self._taken_down and not {link.u, link.v} & self.down_nodes

    @property
    def down_links(self) -> set[int]:
        """Indices of the links that are down, by themselves or because of a node."""
        return {link.index for link in self._links.values() if not self.is_up(link)}


#: In the order in which documents and errors list them: that of the definitions.
EVENTS = Registry[type[Event]]("action", "cbcb.events")


def _with_action(base: type[Event]) -> Iterator[type[Event]]:
    for each in base.__subclasses__():
        if "action" in vars(each):
            yield each
        yield from _with_action(each)


for _base in (ApplicationEvent, Fault, PartFault):
    for _event in _with_action(_base):
        EVENTS.register(_event.action, _event, _event.doc)
