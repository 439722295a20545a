"""Faults of the parts of an emulation: processes that are stopped or killed, at a time, for a while.

`testbed.emulation.run.parts` performs the faults and notes them in the run folder (`captures.rundir.faults`),
from where oracle and accounting know of them. A simulation has no processes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from captures.rundir.faults import PartName
from testbed.experiments.events import NAMED, Event, OfApplication, OfLinkForAWhile, OfNode, duration
from testbed.support.errors import InputError
from topos import Topology


class PartFault(Event):
    part: ClassVar[PartName]

    @property
    def place(self) -> int | None:
        """The node of the part; None: a run has the part once."""
        return getattr(self, "node", None)


@dataclass(frozen=True)
class Stop(PartFault):
    """A part is stopped for a while, and nothing of it is lost."""

    lasts = "for_s"

    for_s: float = field(metadata=duration("How long the process is stopped."))


@dataclass(frozen=True)
class Restart(PartFault):
    """A part is killed, and started again after a while."""

    lasts = "away_s"

    away_s: float = field(metadata=duration("Time from the kill to the start."))


@dataclass(frozen=True)
class RouterStop(OfNode, Stop):
    action = "router_stop"
    doc = "The process of the node's router is stopped (SIGSTOP), and goes on after `for_s`."
    part = "router"


@dataclass(frozen=True)
class RouterRestart(OfNode, Restart):
    action = "router_restart"
    doc = (
        "The router of the node is killed (SIGKILL), and started again after `away_s`; the applications of "
        "the workload at the node then connect again, and set the predicates that they had."
    )
    part = "router"


@dataclass(frozen=True)
class DescriptorsExhausted(OfNode, Stop):
    action = "descriptors_exhausted"
    doc = (
        "The router of the node has no free file descriptor for `for_s` (RLIMIT_NOFILE): an application that "
        "connects waits until then."
    )
    part = "router"


class ControllerStop(Stop):
    action = "controller_stop"
    doc = "The process of the controller is stopped (SIGSTOP), and goes on after `for_s`."
    part = "controller"


class ControllerRestart(Restart):
    action = "controller_restart"
    doc = (
        "The controller is killed (SIGKILL), and started again after `away_s`; it takes over the network as "
        "the killed one left it."
    )
    part = "controller"


class CapturesStop(Stop):
    action = "captures_stop"
    doc = "The process of the captures is stopped (SIGSTOP), and goes on after `for_s`."
    part = "captures"


class CapturesKill(PartFault):
    action = "captures_kill"
    doc = (
        "The process of the captures is killed (SIGKILL): the run ends there, and is accounted for up to it."
    )
    part = "captures"


@dataclass(frozen=True)
class SwitchesRestart(OfNode, Restart):
    action = "switches_restart"
    doc = (
        "The ovs-vswitchd of the node's switch is killed (SIGKILL), with the switches that share it, and "
        "started again after `away_s`; the links then get their properties again."
    )
    part = "switches"


@dataclass(frozen=True)
class SwitchRestart(OfNode, Restart):
    action = "switch_restart"
    doc = (
        "The node's switch alone loses its rules, its ports and its connection to the controller, and is "
        "made again after `away_s`; its links then get their properties again."
    )
    part = "switch"


@dataclass(frozen=True)
class DatabaseRestart(OfNode, Restart):
    action = "database_restart"
    doc = (
        "The ovsdb-server of the node's switch and of those that share it is killed (SIGKILL), and started "
        "again after `away_s`; until then, switches of the userspace datapath keep frames waiting."
    )
    part = "database"


class ApplicationKill(OfApplication, PartFault):
    action = "application_kill"
    doc = (
        "An application of the workload ends as one that is killed: its connection is reset, whatever it was "
        "being sent, and it does nothing more."
    )
    part = "application"


class MachineLost(OfNode, PartFault):
    action = "machine_lost"
    doc = (
        "All processes of the run on the machine that carries the node are killed (SIGKILL): the run ends "
        "there, and is accounted for up to it. Only in a network over machines."
    )
    part = "machine"


class TunnelDown(OfLinkForAWhile, PartFault):
    action = "tunnel_down"
    doc = (
        "The tunnel of a link between machines loses all frames, both ways, for `down_s`; its devices stay "
        "up, and nobody tells the controller. Only in a network over machines that is cut there."
    )
    part = "tunnel"


def check_machines(events: Iterable[Event], topology: Topology, shares: Sequence[Sequence[int]] = ()) -> None:
    """Raises InputError for a fault of a machine, or of a tunnel, that the run does not have.

    Args:
        shares: nodes of each machine; none: one machine has the network to itself.
    """
    cut = {(link.u, link.v) for link in topology.cut(shares)}
    for event in events:
        if isinstance(event, MachineLost | TunnelDown) and not shares:
            where = "a network over machines (`cbcb run --master`)"
        elif isinstance(event, TunnelDown) and not {event.link, event.link[::-1]} & cut:
            named = [f"{u}-{v}" for u, v in sorted(cut)[:NAMED]]
            where = f"a link between machines: {', '.join(named) or 'there is none'}"
        else:
            continue
        raise InputError(f"{event.action} at {event.at_s:g} s: expected {where}")


def check_switches(events: Sequence[Event]) -> Iterator[str]:
    """Yields the restarts of a switch that begin or end while it may be away already, or its daemons."""
    restarts = [event for event in events if isinstance(event, SwitchRestart)]
    for number, event in enumerate(restarts):
        for earlier in restarts[:number]:
            if earlier.node == event.node and earlier.at_s <= event.ends_s and event.at_s <= earlier.ends_s:
                yield (
                    f"switch_restart at {event.at_s:g} s, and at {earlier.at_s:g} s: expected that a switch "
                    "comes back before it goes again"
                )
        for other in events:
            if not isinstance(other, SwitchesRestart | DatabaseRestart):
                continue
            if any(other.at_s <= at_s <= other.ends_s for at_s in (event.at_s, event.ends_s)):
                yield (
                    f"switch_restart at {event.at_s:g} s, {other.action} at {other.at_s:g} s: expected that "
                    "no switch goes or comes back while the daemons of switches are away"
                )
