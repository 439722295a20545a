"""Faults of links."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from captures.rundir.epochs import LINK_DOWN, LINK_UP
from router.options import Unit, option
from testbed.events.event import Event, Problem, duration
from testbed.events.fault import Fault, NetworkControl, Step
from topos.build import contradiction
from topos.model import PROPERTIES, Link, Topology


def _check_joined(ends: tuple[int, int], topology: Topology) -> Iterator[Problem]:
    u, v = ends
    if not any({link.u, link.v} == {u, v} for link in topology.links):
        yield "link", f"nodes {u} and {v} are not joined; expected the ends of a link"


@dataclass(frozen=True)
class LinkFault(Fault):
    """A fault of the link between two nodes."""

    link: tuple[int, int] = field(metadata=option("Nodes at the ends of the link."))

    def check(self, topology: Topology) -> Iterator[Problem]:
        yield from _check_joined(self.link, topology)


@dataclass(frozen=True)
class LinkDown(LinkFault):
    action = "link_down"
    doc = "The link goes down."
    leads_to = (LINK_DOWN,)

    def apply(self, network: NetworkControl) -> None:
        network.set_link(*self.link, up=False)


@dataclass(frozen=True)
class LinkUp(LinkFault):
    action = "link_up"
    doc = "The link comes up, unless a node of it is down."
    leads_to = (LINK_UP,)

    def apply(self, network: NetworkControl) -> None:
        network.set_link(*self.link, up=True)


@dataclass(frozen=True)
class LinkFlap(LinkFault):
    action = "link_flap"
    doc = "The link goes down and after `down_s` comes up, unless a node of it is down."
    leads_to = (LINK_DOWN, LINK_UP)

    down_s: float = field(metadata=duration("How long the link is down."))

    @property
    def ends_s(self) -> float:
        return self.at_s + self.down_s

    def steps(self) -> Iterator[Step]:
        yield self.at_s, lambda network: network.set_link(*self.link, up=False)
        yield self.ends_s, lambda network: network.set_link(*self.link, up=True)


def _property(doc: str, name: str, unit: Unit) -> Any:
    return field(default=None, metadata=option(doc, low=0, high=PROPERTIES[name], unit=unit))


@dataclass(frozen=True)
class LinkImpair(Fault):
    action = "link_impair"
    doc = "Links get other properties; 0 takes one away, and those that are not given stay as they are."
    leads_to = ()

    link: tuple[int, int] | None = field(
        default=None, metadata=option("Nodes at the ends of the link; unset: all links.")
    )
    loss_percent: float | None = _property("Frames lost, at random.", "loss_percent", Unit.PERCENT)
    bandwidth_mbps: float | None = _property("Bandwidth.", "bandwidth_mbps", Unit.MBIT_PER_SECOND)
    delay_ms: float | None = _property("Delay.", "delay_ms", Unit.MILLISECONDS)
    jitter_ms: float | None = _property(
        "Greatest deviation from the delay, at random.", "jitter_ms", Unit.MILLISECONDS
    )
    reorder_percent: float | None = _property(
        "Frames that are not delayed, at random.", "reorder_percent", Unit.PERCENT
    )
    duplicate_percent: float | None = _property(
        "Frames that arrive twice, at random.", "duplicate_percent", Unit.PERCENT
    )

    @property
    def properties(self) -> dict[str, float | None]:
        """The properties that change; None takes one away."""
        given = {name: getattr(self, name) for name in PROPERTIES}
        return {name: value or None for name, value in given.items() if value is not None}

    def among(self, topology: Topology) -> list[Link]:
        """The links of a topology that get the properties."""
        ends = self.link and set(self.link)
        return [link for link in topology.links if ends is None or {link.u, link.v} == ends]

    def check(self, topology: Topology) -> Iterator[Problem]:
        if self.link is not None:
            yield from _check_joined(self.link, topology)
        if not self.properties:
            yield "at_s", f"no property is given; expected some of {', '.join(PROPERTIES)}"

    def apply(self, network: NetworkControl) -> None:
        if self.link is None:
            network.shape_links(self.properties)
        else:
            network.shape_link(*self.link, self.properties)


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
        for link in event.among(topology):
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
