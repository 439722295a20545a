"""The controller in virtual time, without OpenFlow, and the faults that it learns of.

State machine and trees are those of an emulation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from captures.rundir.controller import ControllerLog
from router.protocol.core.layers import Verifier
from router.protocol.options import SCHEMES
from router.wire.frames import Frame
from router.wire.header import HOST_PORT
from testbed.controller import events
from testbed.controller.distribution import Distribution
from testbed.controller.trees import LAYERS, broadcast_tables
from testbed.experiments.config import Experiment
from testbed.experiments.events import Ends
from testbed.experiments.events.network import NetworkState
from testbed.sim import EPOCH_NS, NS, Agenda, Alarm
from testbed.sim.fabric import CONTROL_NS, Fabric
from topos import Link, Topology

#: Virtual time of the computation of all tables, for each pair of nodes: a constant, so that all runs are
#: equal. It is short, since no router forwards frames meanwhile, and each would repeat its HELLO.
_COMPUTE_NS_PER_PAIR = 50


class SimulatedController:
    """Drives `Distribution`.

    Args:
        heard: is called with the name of every event that the controller logs.
        verifier: has the public keys of the routers; None: their frames have no signatures.
    """

    def __init__(
        self,
        experiment: Experiment,
        agenda: Agenda,
        fabric: Fabric,
        log_path: Path,
        heard: Callable[[str], None],
        verifier: Verifier | None,
    ) -> None:
        self._topology = experiment.topology
        self._trees = LAYERS[experiment.broadcast.layer]
        self._subtrees = SCHEMES[experiment.routing.scheme].needs_subtrees
        self._agenda = agenda
        self._fabric = fabric
        self._heard = heard
        self._machine = Distribution(experiment.topology, verifier=verifier)
        self._log = ControllerLog(log_path, buffered=True)
        self._alarm = Alarm(agenda, lambda: self._handle(events.Tick()))

    def start(self) -> None:
        """Connects every switch, with all its ports up."""
        ports: list[set[int]] = [{HOST_PORT} for _ in self._topology.nodes]
        for link in self._topology.links:
            ports[link.u].add(link.u_port)
            ports[link.v].add(link.v_port)
        for node in self._topology.nodes:
            self._agenda.at(
                self._agenda.now + CONTROL_NS,
                self._handle,
                events.SwitchConnected(node.id, frozenset(ports[node.id])),
            )

    def close(self) -> None:
        self._log.close()

    @property
    def settled(self) -> bool:
        """Returns whether every router that is up has the trees of the present network."""
        return self._machine.settled

    def port_changed(self, node: int, port: int, up: bool) -> None:
        """Reports the state of a switch's port, which reaches the controller `CONTROL_NS` later."""
        self._agenda.at(self._agenda.now + CONTROL_NS, self._handle, events.PortChanged(node, port, up))

    def frame_received(self, node: int, frame: Frame) -> None:
        self._handle(events.FrameReceived(node, frame))

    def _handle(self, event: events.Event) -> None:
        now = self._agenda.now
        for action in self._machine.handle(event, now / NS):
            match action:
                case events.Log(name, fields):
                    self._log.write(name, fields, EPOCH_NS + now)
                    self._heard(name)
                case events.SendFrame(node, frame):
                    self._fabric.send_from_controller(node, frame)
                case events.InstallPipeline(node):
                    # The time of the rules to the switch and of its confirmation.
                    self._agenda.at(now + 2 * CONTROL_NS, self._handle, events.PipelineInstalled(node))
                case events.Bequeath():
                    pass  # no controller follows this one
                case events.ComputeTables():
                    took = len(self._topology.nodes) ** 2 * _COMPUTE_NS_PER_PAIR
                    self._agenda.at(now + took, self._compute, action)
        self._alarm.set(self._machine.next_deadline())

    def _compute(self, request: events.ComputeTables) -> None:
        forest = self._trees(self._topology, request.down_links, request.down_nodes)
        tables = broadcast_tables(self._topology, forest, self._subtrees)
        self._handle(events.TablesComputed(request.epoch, tables))


class SimulatedNetwork:
    """The `testbed.experiments.events.network.NetworkControl` of a simulation."""

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

    def shape(self, ends: Ends, properties: Mapping[str, float | None]) -> list[Link]:
        """Gives links other properties; returns the links as they are then."""
        pairs = list(self._links) if ends is None else [frozenset(ends)]
        for pair in pairs:
            self._links[pair] = replace(self._links[pair], **properties)  # type: ignore[arg-type]
            self._fabric.shape_link(self._links[pair])
        return [self._links[pair] for pair in pairs]

    def _follow(self, link: Link) -> None:
        """Sets a link to the state that results from all faults so far; both ends report a change."""
        up = self.state.is_up(link)
        if self._fabric.set_link(link.u, link.v, up):
            self._controller.port_changed(link.u, link.u_port, up)
            self._controller.port_changed(link.v, link.v_port, up)
