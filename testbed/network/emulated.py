"""The emulated network of a run: Mininet hosts and Open vSwitch switches, built and taken down in batches.

Mininet's bring-up runs several commands for each link, and its teardown removes one link at a time. This
module gives Mininet's objects devices that one `ip -batch` makes, starts the switches in one ovs-vsctl
transaction, and deletes all devices of the run as one group. Mininet (`net`) stays usable:
`net["r3"].cmd(...)`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from mininet.link import Intf, Link
from mininet.log import setLogLevel
from mininet.net import Mininet
from mininet.node import Host, OVSSwitch
from mininet.util import quietRun

from router.wire.addresses import HOST_PORT, node_address
from testbed.errors import RunError
from testbed.events.network_state import NetworkState
from testbed.network.commands import ip_batch, run, vsctl
from testbed.network.devices import disable_ipv6, disable_offload, set_up, set_up_in
from testbed.network.names import Names, datapath_id
from testbed.network.removal import remove_network
from testbed.network.shaping import KernelFeatures, nft_ruleset, tc_commands
from topos import model
from topos.model import Topology

#: Longest wait of a switch between two attempts to connect to the controller.
_BACKOFF_MS = 1000


class _ReadyIntf(Intf):
    """An interface whose device exists and is configured already."""

    def config(self, **_params: Any) -> dict[str, Any]:
        return {}


class _ReadyLink(Link):
    """A link whose pair of devices exists already."""

    @classmethod
    def makeIntfPair(cls, *_args: Any, **_params: Any) -> None:  # noqa: N802 (Mininet's name)
        return None


class _Switch(OVSSwitch):
    """An Open vSwitch switch without a shell: it is in the root namespace, where any shell can run
    commands."""

    def startShell(self, mnopts: str | None = None) -> None:  # noqa: N802, ARG002 (Mininet's names)
        return None

    def cmd(self, *args: Any, **_params: Any) -> str:
        # Mininet sets the root namespace's loopback up for each switch, which is skipped; other commands are
        # run.
        command = " ".join(str(arg) for arg in args)
        return "" if command == "ifconfig lo up" else str(quietRun(command))


class EmulatedNetwork:
    """Hosts r<n>, switches s<n> and links of a topology.

    Args:
        topology: the declared topology.
        names: the run's names on this machine.
        datapath: Open vSwitch datapath, "kernel" or "user".
        kernel: the kernel's features for link properties, which must suffice for the topology.

    Attributes:
        state: the links and nodes that are down.
    """

    def __init__(self, topology: Topology, names: Names, datapath: str, kernel: KernelFeatures) -> None:
        self.topology = topology
        self.names = names
        self.datapath = datapath
        self.kernel = kernel
        self.net: Any = None
        self.state = NetworkState(topology)

    def start_hosts(self) -> list[int]:
        """Starts the hosts.

        Returns the process ids that keep their namespaces, in order of node id.
        """
        setLogLevel("warning")
        self.net = Mininet(topo=None, controller=None, build=False)
        for node in self.topology.nodes:
            self.net.addHost(self.names.host(node.id), cls=Host)
        return [host.pid for host in self.net.hosts]

    def start_links(self) -> None:
        """Makes every device, with IPv6 and offload off before it comes up."""
        names, group = self.names, self.names.group
        lines = [
            f"link add {names.port(link.u, link.u_port)} group {group} type veth"
            f" peer name {names.port(link.v, link.v_port)}"
            for link in self.topology.links
        ]
        for node, host in zip(self.topology.nodes, self.net.hosts, strict=True):
            address = node_address(node.id).hex(":")
            lines.append(
                f"link add {names.port(node.id, HOST_PORT)} group {group} type veth"
                f" peer name {names.host_device(node.id)} address {address} netns {host.pid}"
            )
        ip_batch(lines)
        for device in self.devices():
            disable_ipv6(device)
            disable_offload(device)
            set_up(device)
        ends = [
            [host.pid, names.host_device(node.id)]
            for node, host in zip(self.topology.nodes, self.net.hosts, strict=True)
        ]
        run([sys.executable, "-m", "testbed.network.hosts_setup"], stdin=json.dumps(ends))

    def start_switches(self) -> None:
        """Starts every switch and connects it to the controller, which listens already.

        The controller reports when every switch is connected and has its rules.
        """
        OVSSwitch.setup()
        names, net = self.names, self.net
        switches = [
            net.addSwitch(
                names.switch(node.id),
                cls=_Switch,
                dpid=datapath_id(node.id),
                datapath=self.datapath,
                protocols="OpenFlow13",
                failMode="secure",
                batch=True,
            )
            for node in self.topology.nodes
        ]
        for node, switch, host in zip(self.topology.nodes, switches, net.hosts, strict=True):
            self._add_link(
                switch, HOST_PORT, names.port(node.id, HOST_PORT), host, 0, names.host_device(node.id)
            )
        for link in self.topology.links:
            self._add_link(
                switches[link.u],
                link.u_port,
                names.port(link.u, link.u_port),
                switches[link.v],
                link.v_port,
                names.port(link.v, link.v_port),
            )
        for switch in switches:
            # Mininet can name controllers by address and port only.
            switch.start([])
        OVSSwitch.batchStartup(switches, run=_shell)
        vsctl(
            [
                connection
                for switch in switches
                for connection in _connect(switch.name, names.controller_socket)
            ]
        )

    def _add_link(self, a: Any, a_port: int, a_name: str, b: Any, b_port: int, b_name: str) -> None:
        self.net.addLink(
            a,
            b,
            port1=a_port,
            port2=b_port,
            cls=_ReadyLink,
            intf=_ReadyIntf,
            intfName1=a_name,
            intfName2=b_name,
        )

    def shape_links(self) -> None:
        """Applies bandwidth, delay and loss; last, since Open vSwitch clears the qdiscs of a new port."""
        commands = "\n".join(tc_commands(self.topology, self.names, self.kernel))
        if commands:
            run(["tc", "-batch", "-"], stdin=commands + "\n")
        ruleset = nft_ruleset(self.topology, self.names, self.kernel)
        if ruleset:
            run(["nft", "-f", "-"], stdin=ruleset)

    # `testbed.events.fault.NetworkControl`.

    def set_link(self, u: int, v: int, up: bool) -> None:
        """Takes a link down or up at both ends.

        A link stays down while one of its nodes is down.
        """
        self._set_link_ends(self.state.set_link(u, v, up))

    def set_node(self, node: int, up: bool) -> None:
        """Takes a node's host link and all its links down or up.

        Links that were taken down by `set_link` stay down. Router and applications continue to run.
        """
        links = self.state.set_node(node, up)
        host_end = (self.net.hosts[node].pid, self.names.host_device(node))
        if up:
            set_up(self.names.port(node, HOST_PORT))
            set_up_in(*host_end, up=True)
        for link in links:
            self._set_link_ends(link)
        if not up:
            # The router's end first: a router that cannot send gets an error, and counts no frame as sent.
            set_up_in(*host_end, up=False)
            set_up(self.names.port(node, HOST_PORT), up=False)

    def _set_link_ends(self, link: model.Link) -> None:
        """Sets both ends of a link to the state that results from all faults so far.

        The end at `u`, where the capture is, goes down first and comes up last: while only the other end is
        up, no frame that is lost can be captured.
        """
        up = self.state.is_up(link)
        ends = [self.names.port(link.u, link.u_port), self.names.port(link.v, link.v_port)]
        for device in reversed(ends) if up else ends:
            set_up(device, up)

    def devices(self) -> list[str]:
        """Returns every device of the run in the root namespace, except bridges."""
        names = self.names
        devices = [names.port(node.id, HOST_PORT) for node in self.topology.nodes]
        for link in self.topology.links:
            devices += [names.port(link.u, link.u_port), names.port(link.v, link.v_port)]
        return devices

    def stop(self) -> None:
        """Takes the network down.

        May be called at any point of the bring-up, and more than once.

        Raises:
            RunError: as `remove_network`; the hosts are ended in any case.
        """
        try:
            remove_network(self.names, [self.names.switch(node.id) for node in self.topology.nodes])
        finally:
            if self.net is not None:
                for host in self.net.hosts:
                    host.terminate()
                self.net = None


def _connect(switch: str, controller_socket: Path) -> list[list[str]]:
    """Returns the ovs-vsctl commands that connect a switch to the controller."""
    identity = f"--id=@{switch}"
    controller = ["create", "Controller", f'target="unix:{controller_socket}"', f"max_backoff={_BACKOFF_MS}"]
    return [[identity, *controller], ["set", "bridge", switch, f"controller=@{switch}"]]


def _shell(command: str, shell: bool = True) -> None:
    """Runs Mininet's batch of ovs-vsctl commands. Raises RunError for a failure, which Mininet ignores."""
    done = subprocess.run(command, shell=shell, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise RunError(f"ovs-vsctl failed ({done.returncode}): {done.stderr.strip()}")
