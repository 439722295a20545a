"""The share of an emulation that one machine carries: hosts, links, switches, routers and captures.

The runner (`testbed.emulation.run.emulation`) leads a site by its methods, step by step.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Literal

from captures.capturing.capture_set import CaptureError, CaptureSet, Device
from captures.frames import CaptureIdentity
from captures.rundir import RunLayout
from captures.rundir.applications import read_applications
from captures.rundir.capture_list import host_identity, link_identity, tunnel_identity
from captures.rundir.faults import PartName
from captures.rundir.measures import PartName as LaggingPart, SwitchCounters
from router.clock.meter import Meter
from router.protocol.options import SERVICES
from router.records.applications import ApplicationDisconnected
from router.records.json_file import json_line
from router.runtime.process import RouterSpec
from router.wire.header import HOST_PORT
from testbed.emulation.control.quiescence import quiet_period_s
from testbed.emulation.network.calibration import Span
from testbed.emulation.network.emulated import EmulatedNetwork
from testbed.emulation.network.switch_daemons import DATABASE, SWITCHES
from testbed.emulation.network.switch_sockets import difference
from testbed.emulation.network.tunnels import Tunnel
from testbed.emulation.run.governor import EmulationClock
from testbed.emulation.run.lag_meters import LagMeters
from testbed.emulation.run.processes import Routers
from testbed.experiments.config import Experiment
from testbed.machine.probes import kernel_features
from testbed.support.errors import RunError
from testbed.support.names import host_device, port_device
from testbed.support.processes import wait_until
from testbed.support.run_state import RunState
from testbed.support.usage import proportional_bytes

#: The engine that needs no compiled code.
_NO_ENGINE = "naive"


def barrier_s(nodes: int) -> float:
    """Returns the wall seconds that a barrier of a network of so many nodes may take."""
    return 30.0 + 0.5 * nodes


class Site:
    """The parts on one machine; a method of the bring-up takes it that those before it have returned.

    Args:
        run: the run folder, for logs, counters and captures.
        state: takes the processes that are started.
        clock: its page has the slots of all parts.
        datapath: Open vSwitch datapath, "kernel" or "user".
        incarnation: of the first start of the routers.
        nodes: those that this machine carries, ascending; None: all.
        tunnels: of links to nodes of other machines, by the link's index.

    Attributes:
        lag: of routers, switches and captures, from `start_routers` on.
    """

    def __init__(
        self,
        experiment: Experiment,
        run: RunLayout,
        state: RunState,
        clock: EmulationClock,
        datapath: str,
        incarnation: int,
        nodes: Sequence[int] | None = None,
        tunnels: Mapping[int, Tunnel] | None = None,
    ) -> None:
        self._experiment = experiment
        self._run = run
        self._state = state
        self._clock = clock
        self._incarnation = incarnation
        topology = experiment.topology
        self._barrier_s = barrier_s(len(topology.nodes))
        self.network = EmulatedNetwork(
            *(topology, state.switches, datapath, kernel_features()),
            ip=experiment.network.ip,
            nodes=nodes,
            tunnels=tunnels,
        )
        # They come into being one after the other.
        self.routers: Routers
        self.captures: CaptureSet
        self.lag: LagMeters
        self._baseline: SwitchCounters = {}
        #: Node -> when its router was killed last.
        self._killed_ns: dict[int, int] = {}

    # Bring-up.

    def start_hosts(self) -> None:
        """Makes hosts and links, while the routers' parent loads its code."""
        self.network.start_hosts()
        self.routers = Routers(self._run, self._router_specs())
        self._state.add_processes(self.routers.child.pid)
        self.network.start_links()

    def start_switches(self) -> None:
        """Starts the switches, which connect to the controller."""
        self.network.start_switches()
        self._state.add_processes(*self.network.daemons.pids)
        self.network.shape_as_declared()

    def start_captures(self) -> None:
        clock = (self._clock.path, self._clock.captures_slot)
        devices = capture_devices(self.network)
        self.captures = CaptureSet(devices, self._run, clock, ip=self._experiment.network.ip)
        self.captures.start(deadline_s=self._barrier_s)
        self._state.add_processes(*self.captures.pids)

    def begin_counting(self) -> None:
        """Counts frames from now on: the switches have their rules, and no router sends yet."""
        self._baseline = self._settled_counters()
        self.network.start_ip()

    def start_routers(self) -> None:
        self.routers.start()
        meters: dict[tuple[LaggingPart, int | None], Meter] = {
            ("router", node): self._clock.routers[node] for node in self.network.nodes
        }
        meters["captures", None] = self._clock.captures
        self.lag = LagMeters(self._clock, meters, self.network.daemons.controls)

    @property
    def lags(self) -> list[LagMeters]:
        return [self.lag]

    def not_ready(self) -> list[int]:
        """Returns the nodes whose routers have not opened their sockets.

        Raises:
            RunError: a router has ended.
        """
        missing = self.routers.not_ready()
        if not missing:
            self._state.add_processes(*self.routers.pids.values())
        return missing

    def down(self) -> tuple[set[int], set[int]]:
        """Returns the nodes, and the links by index, that are down."""
        return self.network.state.down_nodes, self.network.state.down_links

    def quiet_s(self) -> float:
        """Returns wall seconds, longer than any frame can be under way (`quiet_period_s`)."""
        return quiet_period_s(self.network.links_so_far(quiet_period_s))

    def namespace(self, node: int) -> str:
        """Returns the path of the network namespace of a node's host."""
        return self.network.host_namespaces[node]

    # The processes, and their faults (`testbed.emulation.run.parts`).

    def check(self) -> None:
        """Raises RunError or CaptureError if a part has ended by itself."""
        for check in self._checks.values():
            check()

    def lost(self) -> PartName | None:
        """Returns the part that has ended by itself, whether or not `check` has raised for it."""
        for part, check in {**self._checks, "router": self.routers.check_again}.items():
            try:
                check()
            except (RunError, CaptureError):
                return part
        return None

    @property
    def _checks(self) -> dict[PartName, Callable[[], None]]:
        return {
            "captures": self.captures.check,
            "router": self.routers.check,
            "database": partial(self.network.daemons.check, DATABASE),
            "switches": partial(self.network.daemons.check, SWITCHES),
        }

    def signal(self, node: int | None, number: int) -> None:
        """Sends a signal to the router of a node; None: to the process of the captures.

        Raises:
            ProcessLookupError: it has ended.
        """
        os.kill(self.captures.pids[0] if node is None else self.routers.pids[node], number)

    def _end_connections(self, node: int, killed_ns: int) -> None:
        """Records that the kill of a router ended the connections of its applications, which it could not."""
        connected: dict[str, None] = {}
        last_ns = 0
        for _, recorded in read_applications(self._run):
            event = recorded.event
            if event["node"] != node:
                continue
            last_ns = max(last_ns, event["t_ns"])
            if event["event"] == "disconnect":
                connected.pop(event["app"], None)
            else:
                connected[event["app"]] = None
        # The router may have worked on until the signal came.
        ended_ns = max(killed_ns, last_ns)
        ends = [
            ApplicationDisconnected(
                event="disconnect", t_ns=ended_ns, node=node, app=app, requested_ns=killed_ns
            )
            for app in connected
        ]
        self.routers.restart_records(node).write_bytes(b"".join(map(json_line, ends)))

    def at(self, node: int) -> Site:  # noqa: ARG002 (other runs have a site for each machine)
        """Returns the site that carries a node."""
        return self

    def kill_router(self, node: int) -> None:
        self._killed_ns[node] = time.time_ns()
        self.routers.kill(node)

    def restart_router(self, node: int) -> None:
        self._end_connections(node, self._killed_ns[node])
        self._state.add_processes(self.routers.restart(node))

    def kill_daemon(self, node: int, command: str) -> None:
        """Kills a process of the group of a switch (`testbed.emulation.network.switch_daemons`)."""
        self.network.daemons.of(node).kill(command)

    def restart_daemon(self, node: int, command: str) -> None:
        self._state.add_processes(self.network.restart_daemon(node, command))

    def exhaust(self, node: int) -> tuple[int, int]:
        """Leaves the router of a node no free file descriptor; returns its limits of before.

        Raises:
            ProcessLookupError, FileNotFoundError: it has ended.
        """
        pid = self.routers.pids[node]
        limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        used = {int(path.name) for path in Path(f"/proc/{pid}/fd").iterdir()}
        lowest_free = next(number for number in count() if number not in used)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (lowest_free, limits[1]))
        return limits

    def replenish(self, node: int, limits: tuple[int, int]) -> None:
        """Ends `exhaust`; raises the same errors."""
        resource.prlimit(self.routers.pids[node], resource.RLIMIT_NOFILE, limits)

    def kill_machine(self) -> None:
        """Kills this process, and with it all that it has started: what a power cut leaves of a machine."""
        os.kill(os.getpid(), signal.SIGKILL)

    def memory_bytes(self) -> float:
        """Returns the memory of all routers, proportional set sizes."""
        return proportional_bytes(self.routers.pids.values())

    def counters(self) -> SwitchCounters:
        """Returns what the ports of the switches have counted since `begin_counting`."""
        return difference(self._baseline, self._settled_counters())

    def spans(self) -> list[Span]:
        """Returns the times in which links had the same properties (`EmulatedNetwork.spans`)."""
        return self.network.spans()

    def list_captures(self) -> None:
        """Writes the list of the captures, unless their own end has."""
        if not self._run.captures.exists():
            self.captures.list_files()

    def end(self, part: Literal["routers", "captures"]) -> None:
        """Kills a part, whether or not it was started, or has ended before."""
        if part == "routers" and hasattr(self, "routers"):
            self.routers.child.kill()
        elif part == "captures" and hasattr(self, "captures"):
            self.captures.kill()

    def stop(self) -> None:
        """Takes the network down; see `EmulatedNetwork.stop`."""
        self.network.stop()

    def _settled_counters(self) -> SwitchCounters:
        """Returns Open vSwitch's counters once two readings agree: it may count a frame after forwarding
        it."""
        last = self.network.daemons.counters()

        def changed() -> str | None:
            nonlocal last
            before, last = last, self.network.daemons.counters()
            moving = [node for node in self.network.nodes if before[node] != last[node]]
            return f"switches {moving[:10]} still count" if moving else None

        wait_until(changed, self._barrier_s, "the switches' counters stand still")
        return last

    def _router_specs(self) -> list[RouterSpec]:
        experiment = self._experiment
        options = experiment.router_options
        run = self._run
        run.routers_folder.mkdir()
        run.applications_folder.mkdir()
        keeps_records = SERVICES[experiment.service.kind].keeps_records
        if keeps_records:
            run.service_folder.mkdir()
        recording = experiment.record
        if recording:
            run.recordings_folder.mkdir()
        security = experiment.security
        return [
            RouterSpec(
                node=node,
                device=host_device(node),
                namespace=self.network.host_namespaces[node],
                socket_path=str(self._state.socket(node)),
                counters_path=str(run.router_counters(node)),
                log_path=str(run.router_log(node)),
                options=options,
                # The engines for attributes are not loaded where routers have none to match.
                matcher=_NO_ENGINE if experiment.privacy.on else experiment.protocol.matcher,
                seed=experiment.seed,
                incarnation=self._incarnation,
                recording_path=str(run.recording(node)) if recording else None,
                clock_path=str(self._clock.path),
                slot=node,
                records_path=str(run.applications_of(node)),
                service_records_path=str(run.service_records_of(node)) if keeps_records else None,
                security=security.mode,
                network_keys_path=str(run.network_keys) if security.on else None,
                windows_path=str(self._state.windows(node)) if security.on else None,
                signing_keys_path=str(run.signing_keys) if security.signs else None,
            )
            for node in self.network.nodes
        ]


def capture_devices(network: EmulatedNetwork) -> dict[CaptureIdentity, Device]:
    """Returns the captures and their devices: of a link at the end of `u`, of a host link at the switch.

    A link to another machine is captured there, too.
    """
    topology, namespaces = network.topology, network.switch_namespaces
    ends = [(link_identity(link), link.u, link.u_port) for link in topology.links]
    ends += [(host_identity(node.id), node.id, HOST_PORT) for node in topology.nodes]
    ends += [
        (tunnel_identity(link), link.v, link.v_port) for link in topology.links if link.u not in namespaces
    ]
    return {
        identity: Device(port_device(node, port), namespaces[node])
        for identity, node, port in ends
        if node in namespaces
    }
