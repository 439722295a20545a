"""The controller against real Open vSwitch bridges and routers."""

from __future__ import annotations

import json
import stat
import subprocess
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from router.wire.frames import Commit, Frame, FrameType
from router.wire.header import CONTROLLER_DESTINATION, ETHERTYPE, node_address, port_addresses
from testbed.controller.framework import FRAMEWORKS, OS_KEN, RYU
from testbed.emulation.control.running import Running
from testbed.emulation.network.namespaces import run
from testbed.support.names import host_device, switch_name
from tests.support.command import Held, output_of
from tests.support.polling import TIMEOUT, poll, wait_for
from tests.support.runtime_wire import socket_in
from tests.support.whole_frames import encode

pytestmark = [pytest.mark.emulation, pytest.mark.root]

Start = Callable[..., Held]
LEAVES = 40
MARK = b"testing".ljust(50, b".")


def _events(network: Held, *names: str) -> list[dict[str, Any]]:
    """The events of some names in the controller's log, without times."""
    lines = map(json.loads, network.folder.controller_log.read_text().splitlines())
    timeless = ({key: line[key] for key in line.keys() - {"t_ns", "seconds"}} for line in lines)
    return [event for event in timeless if event["event"] in names]


def _committed(network: Held, epoch: int) -> None:
    poll(lambda: len(_events(network, "committed")) >= epoch or None, TIMEOUT, f"epoch {epoch} is committed")


def _rules(network: Held, node: int) -> list[str]:
    """The rules of a switch as Open vSwitch prints them, without counters."""
    socket = next(network.own.rglob(f"{switch_name(node)}.mgmt"))
    text = run(["ovs-ofctl", "-O", "OpenFlow13", "--no-stats", "dump-flows", f"unix:{socket}"])
    return sorted(text.splitlines()[1:])


def test_both_frameworks_give_the_same_rules_and_epochs(held: Start) -> None:
    pytest.importorskip("os_ken")
    seen = {}
    for framework in FRAMEWORKS:
        chosen = f'[broadcast]\nframework = "{framework}"\n'
        network = held("ring,4", more=chosen)
        output_of("link", "--run", network.tag, "0", "1", "down")
        _committed(network, 2)
        run(["ovs-vsctl", f"--db=unix:{network.own}/switches/0.sock", "del-controller", switch_name(3)])
        _committed(network, 3)
        rules = [_rules(network, node) for node in range(3)]
        seen[framework] = rules, _events(network, "epoch_started", "committed")
        network.run.kill()
        network.run.wait()
    assert seen[OS_KEN] == seen[RYU]
    started = [(event["down_links"], event["down_nodes"]) for event in seen[RYU][1] if "down_links" in event]
    assert started == [([], []), ([0], []), ([0], [3])]


def test_a_hub_replicates_to_exactly_the_named_ports_over_pages(held: Start) -> None:
    network = held(f"star,{LEAVES + 1}")
    running = Running.find(network.tag)
    neighbours = running.topology.neighbours(0)
    received: Counter[int] = Counter()
    with ExitStack() as stack:
        ends = {
            node: stack.enter_context(socket_in(Path(running.namespace(node, "listen")), host_device(node)))
            for node in range(LEAVES + 1)
        }

        def send(node: int, destination: bytes, payload: bytes = MARK, ethertype: int = ETHERTYPE) -> None:
            ends[node].send(destination + node_address(node) + ethertype.to_bytes(2, "big") + payload)

        def expect(*nodes: int) -> None:
            """Waits until exactly these hosts have got one marked frame."""

            def left() -> str | None:
                for node, end in ends.items():
                    with suppress(BlockingIOError):
                        while True:
                            received[node] += end.recv(65_535)[14:].startswith(MARK)
                return None if +received == Counter(nodes) else f"got {+received}"

            wait_for(left)
            received.clear()

        for ports in ({1}, {LEAVES}, {1, 31, 32, 33, 40}, set(neighbours), {2, 39}):
            for address in port_addresses(ports):
                send(0, address)
            expect(*(neighbours[port] for port in ports))
        # From a leaf: the hub's host alone gets it, and it goes no further.
        (first,) = port_addresses([1])
        send(5, first)
        expect(0)
        # Ports that do not exist, and another ethertype: nobody gets it.
        send(0, port_addresses([LEAVES + 1])[0])
        send(0, first, ethertype=ETHERTYPE + 1)
        # A VLAN tag in front of the ethertype: neither over a link, nor to the controller.
        for address in (first, CONTROLLER_DESTINATION):
            send(0, address, b"\0\7" + ETHERTYPE.to_bytes(2, "big") + MARK, ethertype=0x8100)
        send(0, port_addresses([7])[0])
        expect(neighbours[7])
        send(1, CONTROLLER_DESTINATION, b"\x63" + bytes(45))
        send(1, CONTROLLER_DESTINATION, encode(Frame(FrameType.COMMIT, 1, 1, 1, 1, Commit(1))))
    network.run.interrupt()
    network.run.wait()
    (counters,) = _events(network, "counters")
    assert counters["undecodable"] == {"bad_version": 1}
    assert counters["refused"] == {"1": {"unexpected_type": 1}}
    # One frame for each router, or again if its ACK was late.
    assert min(counters["frames_sent"][kind] for kind in ("TABLE", "COMMIT")) > LEAVES
    assert counters["frames_received"]["HELLO"] > LEAVES


def test_no_other_user_can_pass_for_a_switch(held: Start) -> None:
    """The controller listens on a socket that its own user alone may open, and no part on a port."""
    network = held("line,2")
    socket = network.own / "switches" / "controller"
    assert stat.S_IMODE(socket.stat().st_mode) == 0o600
    connect = f"import socket; socket.socket(socket.AF_UNIX).connect({str(socket)!r})"
    as_nobody = ["setpriv", "--reuid=nobody", "--clear-groups", "/usr/bin/python3", "-c", connect]
    refused = subprocess.run(as_nobody, capture_output=True, text=True, check=False)
    assert "PermissionError" in refused.stderr
    pids = [f"pid={process['pid']}," for process in network.run.state()["processes"]]
    assert not [line for line in run(["ss", "-Htlnp"]).splitlines() if any(pid in line for pid in pids)]
