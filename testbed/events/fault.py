"""Faults: events that befall the network, and how they reach an emulation and a simulation.

A fault is one class: its fields are its keys, `check` holds them against the topology, and `steps` does what
it stands for through `NetworkControl`, which the emulated and the simulated network implement. What follows
is the network's answer to it: the controller logs events (`leads_to`), from which the oracle, the accounting,
the report and the live view know of the fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Protocol

from captures.rundir.network_events import NetworkEvent
from testbed.events.applications import ApplicationEvent
from testbed.events.event import Event


class NetworkControl(Protocol):
    """What faults may do with a network.

    Links and nodes are taken down independently: a link is up if neither it nor one of its nodes is down.
    """

    def set_link(self, u: int, v: int, up: bool) -> None:
        """Takes the link between two nodes down, or up again."""

    def set_node(self, node: int, up: bool) -> None:
        """Cuts a node off from the network, its host link and all its links, or joins it again."""


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
        """Does what the fault stands for, at once."""
        raise NotImplementedError

    def steps(self) -> Iterator[Step]:
        """Yields what is done, and when; a fault that happens at one moment has one step, `apply`."""
        yield self.at_s, self.apply


def steps_of(events: Iterable[Event]) -> list[Step]:
    """What the faults among some events do, in order of time; events of applications are left out.

    Raises:
        TypeError: an event is neither a fault nor an event of an application.
    """
    steps: list[Step] = []
    for event in events:
        if isinstance(event, Fault):
            steps.extend(event.steps())
        elif not isinstance(event, ApplicationEvent):
            raise TypeError(f"{event}: is neither a fault nor an event of an application")
    steps.sort(key=lambda step: step[0])
    return steps
