"""The emulated network of a run: Mininet hosts and Open vSwitch switches, built and taken down in batches.

Mininet's bring-up runs several commands for each link, and its teardown removes one link at a time. This
module makes all devices by one `ip -batch`, in network namespaces that this process holds, and starts the
switches in daemons of the run's own: what ends them removes the network. Mininet (`net`) knows the hosts, for
`net["r3"].cmd(...)`; they start their shells on first use, and most runs use none.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from mininet.log import setLogLevel
from mininet.net import Mininet
from mininet.node import Host

from router.wire.header import HOST_PORT, node_address
from testbed.emulation.network import namespaces, shaping
from testbed.emulation.network.calibration import Counted, Span, read_counters
from testbed.emulation.network.switch_daemons import DATABASE, SWITCHES, SwitchDaemons, switches_per_daemon
from testbed.emulation.network.tunnels import Probes, Tunnel, admit_peers
from testbed.experiments.events import Ends, links_between
from testbed.experiments.events.network import NetworkState
from testbed.machine.probes import KernelFeatures, missing_features
from testbed.support.errors import InputError, RunError
from testbed.support.names import host_device, host_name, port_device
from testbed.support.processes import Steps
from testbed.support.run_state import CONTROLLER
from topos import PROPERTIES, Link, Topology
from topos.build import contradiction


class LazyHost(Host):
    """A Mininet host in a network namespace that somebody else holds.

    `shell` and `pid` start a shell on first use; Mininet's `cmd`, `sendCmd`, `popen` and the like use them.

    Args:
        namespace: path of the network namespace.
    """

    def __init__(self, name: str, namespace: str, **params: Any) -> None:
        self._namespace = namespace
        super().__init__(name, **params)
        del self.shell, self.pid

    def startShell(self, mnopts: str | None = None) -> None:  # noqa: N802 (Mininet's names)
        """Does nothing: Mininet's constructor calls it."""

    def __getattr__(self, name: str) -> Any:
        if name not in ("shell", "pid"):
            raise AttributeError(name)
        self.shell = self.pid = None
        try:
            super().startShell()
        except BaseException:
            del self.shell, self.pid  # the next use tries again
            raise
        return vars(self)[name]

    def _popen(self, cmd: list[str], **params: Any) -> Any:
        if vars(self).get("shell") is None:
            # In place of `mnexec -n`, which makes a namespace. The shell gets a /sys that shows its devices.
            mount = ["unshare", "--mount", "sh", "-c", 'mount -t sysfs sysfs /sys; exec "$@"', "sh"]
            enter = ["nsenter", f"--net={self._namespace}", "--", *mount]
            cmd = [*enter, "mnexec", "-cd", "env", *cmd[3:]]
        return super()._popen(cmd, **params)

    def terminate(self) -> None:
        if vars(self).get("shell") is not None:
            super().terminate()


#: Commands that read their lines from the standard input.
_IP, _TC, _NFT = ("ip", "-batch", "-"), ("tc", "-batch", "-"), ("nft", "-f", "-")
#: Print the counters of the properties of links.
_TC_LIST, _NFT_LIST = ("tc", "-s", "-j", "qdisc", "show"), ("nft", "-j", "list", "ruleset")


class EmulatedNetwork:
    """Hosts r<n>, switches s<n> and links of a topology, or the part of them that is on this machine.

    A part knows the whole topology, and takes every fault and every change of properties.

    Args:
        folder: the folder of the switches' daemons, which exists.
        datapath: Open vSwitch datapath, "kernel" or "user".
        kernel: the kernel's features for link properties, which must suffice for the topology.
        ip: hosts have IP addresses (`testbed.emulation.network.namespaces`), from `start_ip` on.
        nodes: those of this machine; None: all.
        tunnels: of the links with one end here, by index.

    Attributes:
        nodes: those of this machine, ascending.
        probes: through the tunnels, between `start_links` and `start_switches`.
        daemons: those of the switches, none before `start_switches`.
        controller_socket: where the switches connect to the controller.
        host_namespaces, switch_namespaces: paths of network namespaces, by node.
    """

    def __init__(
        self,
        topology: Topology,
        folder: Path,
        datapath: str,
        kernel: KernelFeatures,
        *,
        ip: bool = False,
        nodes: Iterable[int] | None = None,
        tunnels: Mapping[int, Tunnel] | None = None,
    ) -> None:
        self.topology = topology
        self.nodes = sorted(range(len(topology.nodes)) if nodes is None else nodes)
        self.datapath = datapath
        self.kernel = kernel
        self.net: Any = None
        self.state = NetworkState(topology)
        self.controller_socket = folder / CONTROLLER
        self._folder = folder
        self._ip = ip
        self._tunnels = tunnels or {}
        self.probes = Probes()
        self._rules: subprocess.Popen[str] | None = None
        #: Links that got other properties, by index.
        self._reshaped: dict[int, Link] = {}
        #: When the links got the properties that they have, wall clock, by index; and the spans before.
        self._shaped_ns: dict[int, int] = {}
        #: What the kernel had counted by then at the ends of links, by link and node.
        self._counted: dict[tuple[int, int], Counted] = {}
        self._spans: list[Span] = []
        self._held = namespaces.Namespaces()
        self.host_namespaces: dict[int, str] = {}
        self.switch_namespaces: dict[int, str] = {}
        self.daemons = SwitchDaemons(folder, (), datapath)
        #: Namespaces of switches that were started again, and whose links lack their properties.
        self._bare: set[str] = set()
        self._restoring = threading.Lock()

    def start_hosts(self) -> None:
        nodes = self.nodes
        namespaces.allow_descriptors(len(nodes))
        if self.datapath == "kernel":
            namespaces.require_backlog(self.topology)
        self.host_namespaces = dict(zip(nodes, self._held.make(len(nodes)), strict=True))
        size = switches_per_daemon(len(nodes))
        groups = self._held.make(-(-len(nodes) // size))
        self.switch_namespaces = {node: groups[place // size] for place, node in enumerate(nodes)}
        setLogLevel("warning")
        # Else its constructor raises limits of the machine (`sysctl`) for good; a run needs none of them.
        before, Mininet.inited = Mininet.inited, True
        try:
            self.net = Mininet(topo=None, controller=None, build=False)
        finally:
            Mininet.inited = before
        for node, namespace in self.host_namespaces.items():
            self.net.addHost(host_name(node), cls=LazyHost, namespace=namespace)

    def start_links(self) -> None:
        """Makes every device, with IPv6 and offload off before it comes up."""
        if self._tunnels:
            self._rules = admit_peers(self._tunnels.values())
        lines: list[str] = []
        probes: list[tuple[str, Callable[[], None]]] = []
        for link in self.topology.links:
            match self._ends(link):
                case [(at_u, u), (at_v, v)]:
                    lines.append(f"link add {u} netns {at_u} type veth peer name {v} netns {at_v}")
                case [(namespace, device)]:
                    tunnel = self._tunnels[link.index]
                    lines.append(tunnel.line(device, namespace))
                    probes.append((namespace, partial(self.probes.listen, link.index, device)))
        for node, host in self.host_namespaces.items():
            address = node_address(node).hex(":")
            lines.append(
                f"link add {port_device(node, HOST_PORT)} netns {self.switch_namespaces[node]}"
                f" type veth peer name {host_device(node)} address {address} netns {host}"
            )
        namespaces.run(_IP, stdin="\n".join([*lines, ""]))
        devices: dict[str, list[str]] = defaultdict(list)
        for node, host in self.host_namespaces.items():
            devices[host].append(host_device(node))
            ports = (HOST_PORT, *self.topology.neighbours(node))
            devices[self.switch_namespaces[node]] += [port_device(node, port) for port in ports]
        prepared = [(namespace, partial(namespaces.prepare, each)) for namespace, each in devices.items()]
        namespaces.inside([*prepared, *probes])

    def _ends(self, link: Link) -> list[tuple[str, str]]:
        """Returns namespace and device of the ends of a link that are on this machine, that at `u` first."""
        here = self.switch_namespaces
        return [(here[node], device) for node, device in shaping.ends(link) if node in here]

    def start_ip(self) -> None:
        """Gives the hosts their IP addresses, if they are to have any; none sends a frame for it."""
        if self._ip:
            for node in self.nodes:
                self._ip_batch(node, namespaces.address_lines(node))

    def stop_ip(self) -> None:
        """Takes the IP addresses away, so that programs on hosts send nothing more."""
        if self._ip:
            for node in self.nodes:
                device = host_device(node)
                self._ip_batch(node, [f"address flush dev {device}", f"route flush dev {device}"])

    def _ip_batch(self, node: int, lines: Sequence[str]) -> None:
        namespaces.run_inside(self.host_namespaces[node], _IP, "\n".join([*lines, ""]))

    def start_switches(self) -> None:
        """Starts every switch and connects it to the controller, which listens already.

        The controller reports when every switch is connected and has its rules.

        Raises:
            RunError: a daemon of Open vSwitch did not make its bridges.
        """
        self.probes.close()
        ports: dict[str, dict[int, list[int]]] = defaultdict(dict)
        for node, namespace in self.switch_namespaces.items():
            ports[namespace][node] = [HOST_PORT, *self.topology.neighbours(node)]
        self.daemons = SwitchDaemons(self._folder, ports.items(), self.datapath)
        self.daemons.start(self.controller_socket)

    def spans(self) -> list[Span]:
        """Returns the times in which links had the same properties, up to now, in order of their ends.

        Raises:
            RunError: the counters cannot be read.
        """
        return self._spans + self._ending(self._links)[0]

    def links_so_far(self, held_s: Callable[[list[Link]], float]) -> list[Link]:
        """The links, with their properties and with former ones, which hold a frame for up to `held_s`."""
        now, changed = time.time_ns(), self._shaped_ns
        former = (each for each in self._spans if now - changed[each.link.index] < 1e9 * held_s([each.link]))
        return [*(each.link for each in former), *self._links]

    @property
    def _links(self) -> list[Link]:
        return [self._reshaped.get(link.index, link) for link in self.topology.links]

    def _ending(self, links: Iterable[Link]) -> tuple[list[Span], dict[tuple[int, int], Counted]]:
        """Returns the spans of links with properties that end now, and what was counted at their ends."""
        counted: dict[str, dict[str, Counted]] = {}
        found: list[Span] = []
        then: dict[tuple[int, int], Counted] = {}
        now_ns = time.time_ns()
        for link in links:
            shaped = any(getattr(link, name) for name in PROPERTIES)
            if not shaped and link.index not in self._reshaped:
                continue
            for node, device in shaping.ends(link):
                if (namespace := self.switch_namespaces.get(node)) is None:
                    continue
                if namespace not in counted:
                    by_rules = self.kernel.nft_egress and not self.kernel.netem
                    rules = namespaces.run_inside(namespace, _NFT_LIST) if by_rules else None
                    counted[namespace] = read_counters(namespaces.run_inside(namespace, _TC_LIST), rules)
                now = counted[namespace].get(device, Counted())
                before = self._counted.get((link.index, node), Counted())
                if shaped:
                    found.append(Span(link, node, self._shaped_ns[link.index], now_ns, now.since(before)))
                # Queueing disciplines stay, and go on counting; rules of nftables are replaced.
                then[link.index, node] = now if self.kernel.netem else Counted(waited=now.waited)
        return found, then

    def _present(self, ends: Ends) -> list[Link]:
        return [self._reshaped.get(link.index, link) for link in links_between(self.topology, ends)]

    def shaped(self, ends: Ends, properties: Mapping[str, float | None]) -> list[Link]:
        """Returns links as `shape` would make them, or raises its InputError."""
        after = [replace(link, **properties) for link in self._present(ends)]  # type: ignore[arg-type]
        for link in after:
            if problem := contradiction(link):
                raise InputError(f"link {link.u}-{link.v}: {problem}")
        if problems := missing_features(Topology("links", (), tuple(after)), self.kernel):
            raise InputError(problems[0])
        return after

    def shape(self, ends: Ends, properties: Mapping[str, float | None]) -> list[Link]:
        """Gives links other properties while they are in use, with a command of each kind a namespace.

        Args:
            ends: the nodes at the ends of a link; None: all links.
            properties: values of `topos.Link` by their names; None takes a property away.

        Returns:
            The links as they are then.

        Raises:
            InputError: the kernel cannot provide a property, or properties contradict each other.
            RunError: a command failed; both ends have the properties that they had before, or the error says
                that they have not.
        """
        before, after = self._present(ends), self.shaped(ends, properties)
        ended, counted = self._ending(before)
        pairs = zip(before, after, strict=True)
        try:
            self._apply((line for pair in pairs for line in shaping.changed_tc(*pair, self.kernel)), _TC)
            self._apply((line for link in after for line in shaping.changed_nft(link, self.kernel)), _NFT)
        except RunError as error:
            for pair in zip(before, after, strict=True):
                self._restore(*pair, error)
            raise
        else:
            self._reshaped.update((link.index, link) for link in after)
        finally:
            self._spans += ended
            self._counted |= counted
            self._shaped_ns |= dict.fromkeys((link.index for link in after), time.time_ns())
        return after

    def _restore(self, link: Link, failed: Link, cause: RunError) -> None:
        """Gives both ends of a link its properties, whatever they have; at least those that `failed` has.

        Raises:
            RunError: a command failed; names `cause` too.
        """
        try:
            try:
                self._apply(shaping.changed_tc(failed, link, self.kernel), _TC)
            except RunError:  # frames under way at the end are lost
                self._counted = {end: each for end, each in self._counted.items() if end[0] != link.index}
                for node, device in shaping.ends(link):
                    with suppress(RunError):  # the end has no property
                        self._apply([(node, f"qdisc del dev {device} root")], _TC)
                self._apply(shaping.changed_tc(link, link, self.kernel), _TC)
            self._apply(shaping.changed_nft(link, self.kernel), _NFT)
        except RunError as error:
            text = f"{cause}; the ends of link {link.u}-{link.v} may differ, since restoring failed: {error}"
            raise RunError(text) from cause

    def shape_as_declared(self) -> None:
        """Applies bandwidth, delay and loss; last, since Open vSwitch clears the qdiscs of a new port."""
        self._apply(shaping.tc_commands(self.topology, self.kernel), _TC)
        self._apply(shaping.nft_ruleset(self.topology, self.kernel), _NFT)
        self._shaped_ns = dict.fromkeys((link.index for link in self.topology.links), time.time_ns())

    def _apply(self, commands: Iterable[tuple[int, str]], argv: Sequence[str]) -> None:
        """Runs a command once in the namespace of each switch here, with its nodes' lines as its input."""
        lines: dict[str, list[str]] = defaultdict(list)
        for node, line in commands:
            if node in self.switch_namespaces:
                lines[self.switch_namespaces[node]].append(line)
        for namespace, texts in lines.items():
            namespaces.run_inside(namespace, argv, "\n".join([*texts, ""]))

    # Faults of the daemons (`testbed.emulation.run.parts`).

    def restart_daemon(self, node: int, command: str) -> int:
        """Starts a process that was killed; returns its process id.

        While its database is away, ovs-vswitchd forwards nothing; what it needs besides follows with the
        database: `wait_for_database` tells when the switches work with it.
        """
        daemon = self.daemons.of(node)
        if command == SWITCHES and command in daemon.away:
            self._bare.add(self.switch_namespaces[node])
        pid = daemon.restart(command)
        if command == SWITCHES and DATABASE not in daemon.away:
            self.wait_for_database(node)
        return pid

    def add_switch(self, node: int) -> None:
        """Makes a switch that was removed; its links get their properties again."""
        self.daemons.add_bridge(node)
        self._shape_again([node])

    def _shape_again(self, nodes: Iterable[int]) -> None:
        """Gives the links of switches that have just been made their properties; counters begin at zero."""
        made = set(nodes)
        lines = shaping.tc_commands(Topology("links", (), tuple(self._links)), self.kernel)
        self._apply((line for line in lines if line[0] in made), _TC)
        self._counted = {end: counted for end, counted in self._counted.items() if end[1] not in made}

    def wait_for_database(self, node: int) -> None:
        """See `testbed.emulation.network.switch_daemons.SwitchDaemons.wait_for_database`.

        An ovs-vswitchd that was started again has taken all properties from the devices that it found: its
        links get them again.
        """
        self.daemons.wait_for_database(node)
        namespace = self.switch_namespaces[node]
        # A daemon and its database may be started at once, each in a thread of its own.
        with self._restoring:
            if namespace in self._bare:
                nodes = [other for other, path in self.switch_namespaces.items() if path == namespace]
                self._shape_again(nodes)
                self._bare.discard(namespace)

    # `testbed.experiments.events.network.NetworkControl`.

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
        hosts, switches = self.host_namespaces, self.switch_namespaces
        both = (hosts, host_device(node)), (switches, port_device(node, HOST_PORT))
        host_ends = [(found[node], device) for found, device in both if node in found]
        if up:
            _set(reversed(host_ends), up=True)
            if self._ip and host_ends:  # the kernel removed the routes with the device
                self._ip_batch(node, namespaces.address_lines(node))
        for link in links:
            self._set_link_ends(link)
        if not up:
            # The router's end first: a router that cannot send gets an error, and counts no frame as sent.
            _set(host_ends, up=False)

    def _set_link_ends(self, link: Link) -> None:
        """Sets both ends of a link to the state that results from all faults so far.

        The end at `u`, where the capture is, goes down first and comes up last: while only the other end is
        up, no frame that is lost can be captured.
        """
        up = self.state.is_up(link)
        ends = self._ends(link)
        _set(reversed(ends) if up else ends, up)

    def set_tunnel(self, u: int, v: int, up: bool) -> None:
        """Lets the tunnel of a link carry the frames that leave here, or lose them in silence.

        Its device stays up, and captures see the frames; VXLAN has no machine to send them to.
        """
        (link,) = links_between(self.topology, (u, v))
        if tunnel := self._tunnels.get(link.index):
            line = f"type vxlan remote {tunnel.remote if up else '0.0.0.0'}"
            self._apply(((node, f"link set {device} {line}") for node, device in shaping.ends(link)), _IP)

    def stop(self) -> None:
        """Takes the network down.

        May be called at any point of the bring-up, and more than once. The kernel removes namespaces and
        devices once the last process in them has ended, in the background.

        Raises:
            RunError: parts could not be ended; the next call tries to end them again.
        """
        steps = Steps()
        steps.run("switch daemons", self.daemons.stop)
        if self.net is not None:
            for node in self.net.hosts:
                steps.run(node.name, node.terminate)
        steps.run("probes", self.probes.close)
        steps.run("namespaces", self._held.close)
        if self._rules is not None:
            steps.run("rules for tunnels", self._rules.communicate)
        steps.check()
        self.net = None


def _set(ends: Iterable[tuple[str, str]], up: bool) -> None:
    """Sets devices up or down, each in its namespace, in order."""
    namespaces.inside([(namespace, partial(namespaces.set_up, device, up)) for namespace, device in ends])
