"""Open vSwitch bridges of a topology, with raw sockets in the place of routers; for tests of the controller.

The switches, links and the controller are real. A router is played by one socket at the host's end of the
host link.
"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from router.wire.codec import read_frame
from router.wire.frames import Ack, BroadcastTable, Commit, Frame, FrameType, Hello
from router.wire.header import (
    CONTROLLER_DESTINATION,
    CONTROLLER_SOURCE,
    ETHERTYPE,
    ROUTER_DESTINATION,
    node_address,
)
from router.wire.intake import Reassembler
from testbed.controller.framework import RYU
from testbed.emulation.network.emulated import EmulatedNetwork
from testbed.emulation.network.namespaces import inside, run, set_up
from testbed.emulation.run.processes import Event, ProcessLog
from testbed.machine.probes import KernelFeatures
from testbed.support.names import host_device, port_device, switch_name
from tests.support.polling import TIMEOUT
from tests.support.whole_frames import encode
from topos import Topology
from topos.loaders import to_json

_HELLO_S = 0.2
_TYPE = ETHERTYPE.to_bytes(2, "big")


class Router:
    """The controller's view of a router: it sends HELLO and ACK, and receives TABLE and COMMIT."""

    def __init__(self, node: int, device: str, incarnation: int = 1) -> None:
        self.node = node
        self.device = device
        self.incarnation = incarnation
        self.tables: dict[int, BroadcastTable] = {}
        self.commits: dict[int, Commit] = {}
        self.data: list[bytes] = []  # frames from other routers, whole
        self.silent = False
        #: Whole frames of the controller, and HELLOs, by type.
        self.counted: Counter[str] = Counter()
        self._hello_due: float | None = None
        self._reassembler = Reassembler()
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE))
        self.socket.bind((device, ETHERTYPE))
        self.socket.setblocking(False)

    def hello(self) -> None:
        """Sends HELLO now and every _HELLO_S until a TABLE arrives.

        One HELLO is not enough: a switch that dropped a frame before it had its pipeline may drop such frames
            from its cache for a moment after it has confirmed the pipeline.
        """
        self._hello_due = 0.0
        self.tick()

    def tick(self) -> None:
        if self._hello_due is None or time.monotonic() < self._hello_due:
            return
        self._hello_due = time.monotonic() + _HELLO_S
        self.counted[FrameType.HELLO.name] += 1
        self._to_controller(FrameType.HELLO, 0, 0, Hello(self.incarnation))

    def send(self, destination: bytes, payload: bytes) -> None:
        self.socket.send(destination + node_address(self.node) + _TYPE + payload)

    def read(self) -> None:
        """Reads one frame; answers frames of the controller."""
        data, address = self.socket.recvfrom(65_535)
        if address[2] == socket.PACKET_OUTGOING:
            return
        if data[6:12] != CONTROLLER_SOURCE:
            self.data.append(data)
            return
        assert data[:6] == ROUTER_DESTINATION
        if self.silent:
            return
        whole = self._reassembler.add("controller", data[14:], time.monotonic())
        if whole is not None:
            frame = read_frame(*whole)
            assert frame.issuer == self.node
            self.counted[frame.type.name] += 1
            if isinstance(frame.body, BroadcastTable):
                self.tables[frame.epoch] = frame.body
                self._hello_due = None
            elif isinstance(frame.body, Commit):
                self.commits[frame.epoch] = frame.body
            self._to_controller(FrameType.ACK, frame.seq, frame.epoch, Ack(frame.type))

    def _to_controller(self, kind: FrameType, seq: int, epoch: int, body: Hello | Ack) -> None:
        self.send(CONTROLLER_DESTINATION, encode(Frame(kind, self.node, seq, epoch, 1, body)))


class Bridges:
    """The running network.

    Attributes:
        log: the controller's log.
    """

    def __init__(self, topology: Topology, folder: Path, framework: str = RYU) -> None:
        self.topology = topology
        # A short path: the name of a Unix socket has at most 107 bytes.
        self._switches = Path(tempfile.mkdtemp(prefix="cbcb-", dir="/run"))
        self._network = EmulatedNetwork(topology, self._switches, "user", KernelFeatures(False, False, False))
        self._hosts: list[str] = []
        self._config = folder / "controller.json"
        self._log_path = folder / "controller.jsonl"
        self.socket = self._network.controller_socket
        self._controller: subprocess.Popen[bytes] | None = None
        self.routers: dict[int, Router] = {}
        #: What replaced routers have counted.
        self._counted: Counter[str] = Counter()
        self.log = ProcessLog(self._log_path, self._check_controller)
        (folder / "topology.json").write_text(to_json(topology))
        config = {"topology": str(folder / "topology.json"), "log": str(self._log_path), "layer": "spt"}
        config["framework"] = framework
        config |= {"socket": str(self.socket), "state": str(folder / "controller-state.json")}
        self._config.write_text(json.dumps(config | {"parent_pid": os.getpid()}))

    def start(self) -> None:
        self._hosts = self._network.start_hosts()
        self._network.start_links()
        for node in self.topology.nodes:
            self._start_router(node.id, incarnation=1)
        self.start_controller()
        self._network.start_switches()

    def _start_router(self, node: int, incarnation: int) -> None:
        def start() -> None:
            self.routers[node] = Router(node, host_device(node), incarnation)

        inside([(self._hosts[node], start)])

    def start_controller(self) -> None:
        """Starts the controller; returns when it listens."""
        self._controller = subprocess.Popen(
            [sys.executable, "-m", "testbed.controller", str(self._config)], start_new_session=True
        )
        self.wait_for("listening")

    def kill_controller(self) -> None:
        """Kills the controller (SIGKILL)."""
        if self._controller is not None:
            self._controller.kill()
            self._controller.wait()
            self._controller = None

    def stop(self) -> None:
        """Removes everything that was made."""
        self.kill_controller()
        for router in self.routers.values():
            router.socket.close()
        self._network.stop()
        shutil.rmtree(self._switches)

    def stop_controller(self) -> int:
        """Sends SIGTERM to the controller; returns its exit status."""
        assert self._controller is not None
        self._controller.send_signal(signal.SIGTERM)
        return self._controller.wait(TIMEOUT)

    def listening_ports(self) -> list[str]:
        """The lines of ss(8) about TCP ports on which the controller listens."""
        assert self._controller is not None
        lines = run(["ss", "-Htlnp"]).splitlines()
        return [line for line in lines if f"pid={self._controller.pid}," in line]

    def set_link(self, u: int, v: int, up: bool) -> None:
        link = next(link for link in self.topology.links if (link.u, link.v) == (u, v))
        port = port_device(link.u, link.u_port)
        inside([(self._network.switch_namespace(link.u), lambda: set_up(port, up))])

    def disconnect(self, node: int) -> None:
        """Makes a switch of the first daemon leave its controller."""
        database = f"--db=unix:{self._switches}/0.sock"
        run(["ovs-vsctl", database, "del-controller", switch_name(node)])

    def rules(self, node: int) -> list[str]:
        """The rules of a switch as Open vSwitch prints them, without counters."""
        socket = next(self._switches.rglob(f"{switch_name(node)}.mgmt"))
        text = run(["ovs-ofctl", "-O", "OpenFlow13", "--no-stats", "dump-flows", f"unix:{socket}"])
        return sorted(text.splitlines()[1:])

    def restart(self, node: int) -> None:
        """Replaces a node's router by a restarted router, with a new socket and no state."""
        old = self.routers[node]
        with suppress(BlockingIOError):
            while True:
                old.read()
        self._counted += old.counted
        old.socket.close()
        self._start_router(node, old.incarnation + 1)
        self.routers[node].hello()

    @property
    def counted(self) -> Counter[str]:
        """Frames of the controller that the routers got, and HELLOs that they sent, by type."""
        return sum((router.counted for router in self.routers.values()), self._counted)

    def wait_for(self, event: str, timeout_s: float = TIMEOUT, **fields: object) -> Event:
        """Returns the first event of the controller with a name and fields; answers frames while it waits."""

        def left() -> str | None:
            return None if self._find(event, fields) else f"events: {self.log.events[-5:]}"

        self.pump_until(left, timeout_s, f"{event} {fields}")
        found = self._find(event, fields)
        assert found is not None
        return found

    def pump_until(self, left: Callable[[], str | None], timeout_s: float, what: str) -> None:
        """Lets the routers answer until `left` returns None; fails with the text of `left` at the
        deadline."""
        deadline = time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            for router in self.routers.values():
                selector.register(router.socket, selectors.EVENT_READ, router)
            while (difference := left()) is not None:
                assert time.monotonic() < deadline, f"{what}: not after {timeout_s} s; {difference}"
                for key, _ in selector.select(0.01):
                    key.data.read()
                for router in self.routers.values():
                    router.tick()

    def _find(self, event: str, fields: dict[str, object]) -> Event | None:
        self._check_controller()
        self.log.read()
        matching = (e for e in self.log.events if e["event"] == event and fields.items() <= e.items())
        return next(matching, None)

    def _check_controller(self) -> None:
        if self._controller is not None:
            status = self._controller.poll()
            assert status is None, f"the controller ended with status {status}"


@contextmanager
def running(topology: Topology, folder: Path, framework: str = RYU) -> Iterator[Bridges]:
    bridges = Bridges(topology, folder, framework)
    try:
        bridges.start()
        yield bridges
    finally:
        bridges.stop()
