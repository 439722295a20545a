"""The emulated network without routers: Mininet's objects, the switches' daemons, and what is left."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from router.runtime.packet_socket import RECEIVE_BUFFER
from router.system import enter_network_namespace, namespace_path, returning_to_its_namespace
from router.wire.header import ETHERTYPE, node_address
from testbed.emulation.network.emulated import EmulatedNetwork
from testbed.emulation.network.namespaces import Namespaces, run_inside
from testbed.emulation.network.switch_daemons import DATABASE, SWITCHES, SwitchDaemons
from testbed.emulation.network.switch_sockets import packet_sockets
from testbed.machine.probes import KernelFeatures, kernel_features
from testbed.support.errors import RunError
from testbed.support.run_state import ProcessId
from topos.generators import ring

pytestmark = [pytest.mark.emulation, pytest.mark.root]

NOTHING = KernelFeatures(netem=False, tbf=False, nft_egress=False)


@pytest.fixture
def folder() -> Iterator[Path]:
    # A short path: the name of a Unix socket has at most 107 bytes.
    path = Path(tempfile.mkdtemp(prefix="cbcb-", dir="/run"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def network(folder: Path) -> Iterator[EmulatedNetwork]:
    """A ring of 30: six daemons."""
    made = EmulatedNetwork(ring(30), folder, "user", NOTHING)
    try:
        made.start_hosts()
        made.start_links()
        made.start_switches()
        yield made
    finally:
        made.stop()


def test_a_shell_of_a_host_starts_on_first_use_and_sees_its_own_device(network: EmulatedNetwork) -> None:
    host = network.net["r3"]
    assert "shell" not in vars(host)
    assert host.cmd("ls /sys/class/net").split() == ["lo", "r3-eth0"]
    assert namespace_path(host.pid).readlink() == Path(network.host_namespaces[3]).readlink()
    assert "r3-eth0" in host.popen(["ip", "-br", "link"]).communicate()[0].decode()


def test_devices_come_up_without_ipv6(network: EmulatedNetwork) -> None:
    assert run_inside(network.switch_namespaces[3], ["cat", "/proc/self/net/if_inet6"]) == ""
    assert network.net["r3"].cmd("cat /proc/net/if_inet6") == ""


def test_frames_that_come_while_a_switch_is_busy_find_room_or_are_counted(network: EmulatedNetwork) -> None:
    """The fragments of a long predicate come back to back."""
    daemons = network.daemons
    assert daemons is not None
    pid = daemons.of(3).processes[-1].pid
    with returning_to_its_namespace():
        enter_network_namespace(network.host_namespaces[3])
        host = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    with host:
        host.bind(("r3-eth0", 0))
        frame = bytes.fromhex("020000000001") + node_address(3) + ETHERTYPE.to_bytes(2, "big") + bytes(1400)
        # The kernel charges a frame more than its bytes: the buffers hold 14,000 to 23,000.
        for sent, least, most in ((1000, 0, 0), (41_000, 15_000, 40_000)):
            os.kill(pid, signal.SIGSTOP)
            try:
                for _ in range(sent):
                    host.send(frame)
            finally:
                os.kill(pid, signal.SIGCONT)
            dropped = {node: drops["no_room"] for node, drops in daemons.take_dropped().items()}
            assert least <= dropped.pop(3) <= most
            assert set(dropped.values()) == {0}
    assert daemons.take_dropped()[3]["no_room"] == 0


def test_a_switch_that_was_started_again_has_room(network: EmulatedNetwork) -> None:
    network.daemons.of(3).kill(SWITCHES)
    pid = network.restart_daemon(3, SWITCHES)
    sizes = []
    for each in packet_sockets(pid):
        with each:
            # The socket that sends has no device; the first frame makes it.
            if each.getsockname()[0]:
                sizes.append(each.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF))
    # Five switches with three ports each; the kernel doubles the size.
    assert sizes == [2 * RECEIVE_BUFFER] * 15


@pytest.mark.parametrize("daemon", [SWITCHES, DATABASE])
def test_what_two_switches_share_is_started_once_after_kills(network: EmulatedNetwork, daemon: str) -> None:
    network.daemons.of(3).kill(daemon)
    network.daemons.of(4).kill(daemon)
    pid = network.restart_daemon(3, daemon)
    assert network.restart_daemon(4, daemon) == pid
    network.wait_for_database(4)
    network.daemons.check(daemon)
    assert set(network.daemons.counters()) == set(range(30))


def test_switches_that_are_started_without_their_database_wait_for_it(network: EmulatedNetwork) -> None:
    network.daemons.of(3).kill(DATABASE)
    network.daemons.of(3).kill(SWITCHES)
    network.restart_daemon(3, SWITCHES)
    network.restart_daemon(3, DATABASE)
    network.wait_for_database(3)
    assert set(network.daemons.counters()) == set(range(30))


def test_a_stopped_network_leaves_no_process_and_no_namespace(network: EmulatedNetwork) -> None:
    pids = [ProcessId.of(pid) for pid in network.daemons.pids]
    assert len(pids) == 2 * 6
    shell = ProcessId.of(network.net["r0"].pid)
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    network.stop()
    assert [process for process in (*pids, shell) if process.alive()] == []
    # 30 hosts, six groups of switches; the terminal of the shell.
    assert descriptors - len(list(Path("/proc/self/fd").iterdir())) >= 36


def test_a_device_that_open_vswitch_cannot_use_is_named(folder: Path) -> None:
    held = Namespaces()
    (namespace,) = held.make(1)
    daemons = SwitchDaemons(folder, [(namespace, {0: [1]})], "user")
    try:
        with pytest.raises(RunError, match=r"Open vSwitch cannot use s0-e1: .*No such device"):
            daemons.start(folder / "controller")
    finally:
        daemons.stop()
        held.close()


def test_a_daemon_that_cannot_make_its_bridges_says_why(network: EmulatedNetwork, folder: Path) -> None:
    """A second userspace datapath in the namespace of the first."""
    (folder / "second").mkdir()
    daemons = SwitchDaemons(folder / "second", [(network.switch_namespaces[0], {40: []})], "user")
    try:
        with pytest.raises(RunError, match=r"cannot use s40: .*failed to create bridge s40"):
            daemons.start(folder / "second" / "controller")
    finally:
        daemons.stop()


def test_links_have_their_properties_after_the_switches_were_started_again(folder: Path) -> None:
    kernel = kernel_features()
    if not kernel.tbf:
        pytest.skip("this kernel offers no TBF")
    topology = ring(30)
    shaped = tuple(replace(link, bandwidth_mbps=5.0) for link in topology.links)
    network = EmulatedNetwork(replace(topology, links=shaped), folder, "user", kernel)
    try:
        network.start_hosts()
        network.start_links()
        network.start_switches()
        network.shape_as_declared()
        network.shape((0, 1), {"bandwidth_mbps": 7.0})
        network.daemons.of(0).kill(SWITCHES)
        network.restart_daemon(0, SWITCHES)
        network.daemons.remove_bridge(3)
        network.add_switch(3)
        for link in shaped:
            rate = 7 if {link.u, link.v} == {0, 1} else 5
            for node, port in ((link.u, link.u_port), (link.v, link.v_port)):
                inside = ["nsenter", f"--net={network.switch_namespaces[node]}"]
                show = [*inside, "tc", "qdisc", "show", "dev", f"s{node}-e{port}"]
                shown = subprocess.run(show, capture_output=True, text=True, check=True).stdout
                assert f"rate {rate}Mbit" in shown
        # And take further changes.
        assert network.shape((0, 1), {"bandwidth_mbps": 9.0})[0].bandwidth_mbps == 9
    finally:
        network.stop()
