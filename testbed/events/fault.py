"""Faults: events that befall the network, and how they reach an emulation and a simulation.

A fault is a class: its fields are its keys, `check` holds them against the topology, and `steps` applies it
through `NetworkControl`, which the emulated and the simulated network implement. The controller notices the
change and logs events (`leads_to`), from which the oracle, the accounting, the report and the live view know
of the fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

from captures.rundir.epochs import NetworkEvent
from testbed.events.applications import ApplicationEvent
from testbed.events.event import Event
from testbed.events.parts import PartFault
from topos.model import Link


class NetworkControl(Protocol):
    """The changes that faults make to a network.

    Links and nodes are taken down independently: a link is up if neither it nor one of its nodes is down.
    """

    def set_link(self, u: int, v: int, up: bool) -> None:
        """Takes the link between two nodes down or up."""

    def shape_link(self, u: int, v: int, properties: Mapping[str, float | None]) -> Link:
        """Gives the link between two nodes other properties; returns the link as it is then.

        Args:
            properties: values of `topos.model.Link` by their names; None takes a property away.
        """

    def shape_links(self, properties: Mapping[str, float | None]) -> None:
        """Gives all links properties, as `shape_link`."""

    def set_node(self, node: int, up: bool) -> None:
        """Cuts a node off from the network, its host link and all its links, or joins it to the network."""


#: A moment in experiment seconds, and what is done with the network then.
Step = tuple[float, Callable[[NetworkControl], None]]


@dataclass(frozen=True)
class Fault(Event):
    """An event of the network.

    Attributes:
        leads_to: the events that the controller logs because of it, in a network without other faults, each
            once or several times.
    """

    leads_to: ClassVar[tuple[NetworkEvent, ...]]

    def apply(self, network: NetworkControl) -> None:
        """Applies the fault to a network, at once."""
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
