"""Faults in a simulation: links and ports change their state, and switches report their ports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from router.wire.addresses import HOST_PORT
from testbed.events.network_state import NetworkState
from testbed.sim.controller import SimulatedController
from testbed.sim.fabric import Fabric
from topos.model import Link, Topology


class SimulatedNetwork:
    """The `testbed.events.fault.NetworkControl` of a simulation.

    Args:
        topology: the topology of the network.
        fabric: carries the frames.
        controller: receives the port reports of the switches.

    Attributes:
        state: the links and nodes that are down.
    """

    def __init__(self, topology: Topology, fabric: Fabric, controller: SimulatedController) -> None:
        self.state = NetworkState(topology)
        self._links = {frozenset((link.u, link.v)): link for link in topology.links}
        self._fabric = fabric
        self._controller = controller

    def set_link(self, u: int, v: int, up: bool) -> None:
        """Takes a link down or up.

        A link stays down while one of its nodes is down.
        """
        self._follow(self.state.set_link(u, v, up))

    def set_node(self, node: int, up: bool) -> None:
        """Takes a node's host link and all its links down or up."""
        links = self.state.set_node(node, up)
        self._controller.port_changed(node, HOST_PORT, up)
        for link in links:
            self._follow(link)

    def shape_link(self, u: int, v: int, properties: Mapping[str, float | None]) -> Link:
        """Gives a link other properties; returns the link as it is then."""
        ends = frozenset((u, v))
        changed = self._links[ends] = replace(self._links[ends], **properties)  # type: ignore[arg-type]
        self._fabric.shape_link(changed)
        return changed

    def shape_links(self, properties: Mapping[str, float | None]) -> None:
        """Gives all links properties, as `shape_link`."""
        for u, v in self._links:
            self.shape_link(u, v, properties)

    def _follow(self, link: Link) -> None:
        """Sets a link to the state that results from all faults so far; both ends report a change."""
        up = self.state.is_up(link)
        if self._fabric.set_link(link.u, link.v, up):
            self._controller.port_changed(link.u, link.u_port, up)
            self._controller.port_changed(link.v, link.v_port, up)
