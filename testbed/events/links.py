"""Faults of links."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from captures.rundir.network_events import LINK_DOWN, LINK_UP
from router.options import SECONDS_MAX, Unit, option
from testbed.events.event import Problem
from testbed.events.fault import Fault, NetworkControl, Step
from topos.model import Topology


@dataclass(frozen=True)
class LinkFault(Fault):
    """A fault of the link between two nodes."""

    link: tuple[int, int] = field(metadata=option("Nodes at the ends of the link."))

    def check(self, topology: Topology) -> Iterator[Problem]:
        u, v = self.link
        if not any({link.u, link.v} == {u, v} for link in topology.links):
            yield "link", f"nodes {u} and {v} are not joined; expected the ends of a link"


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

    down_s: float = field(
        metadata=option(
            "How long the link is down.",
            low=0,
            above_low=True,
            high=SECONDS_MAX,
            unit=Unit.EXPERIMENT_SECONDS,
        )
    )

    @property
    def ends_s(self) -> float:
        return self.at_s + self.down_s

    def steps(self) -> Iterator[Step]:
        yield self.at_s, lambda network: network.set_link(*self.link, up=False)
        yield self.ends_s, lambda network: network.set_link(*self.link, up=True)
