"""Faults of nodes: a node that is down has no host link and no links; its router and applications go on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from captures.rundir.epochs import LINK_DOWN, LINK_UP, NODE_DOWN, NODE_UP
from router.options import option
from testbed.events.event import Problem, check_node
from testbed.events.fault import Fault, NetworkControl
from topos.model import Topology


@dataclass(frozen=True)
class NodeFault(Fault):
    """A fault of a node."""

    node: int = field(metadata=option("The node.", low=0))

    def check(self, topology: Topology) -> Iterator[Problem]:
        yield from check_node(self.node, topology)


@dataclass(frozen=True)
class NodeDown(NodeFault):
    action = "node_down"
    doc = "The node is cut off from the network: its host link and all its links go down."
    leads_to = (NODE_DOWN, LINK_DOWN)

    def apply(self, network: NetworkControl) -> None:
        network.set_node(self.node, up=False)


@dataclass(frozen=True)
class NodeUp(NodeFault):
    action = "node_up"
    doc = "The node is joined to the network; links that were taken down by themselves stay down."
    leads_to = (NODE_UP, LINK_UP)

    def apply(self, network: NetworkControl) -> None:
        network.set_node(self.node, up=True)
