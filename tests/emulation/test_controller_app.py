"""The controller against real Open vSwitch bridges."""

from __future__ import annotations

import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from router.wire.frames import Commit, Frame, FrameType
from router.wire.header import CONTROLLER_DESTINATION, ETHERTYPE, port_addresses
from testbed.controller.framework import FRAMEWORKS, OS_KEN, RYU
from testbed.controller.trees import broadcast_tables, spt_trees
from testbed.emulation.run.processes import Event
from tests.support.controller_bridges import Bridges, running
from tests.support.polling import TIMEOUT
from tests.support.whole_frames import encode
from topos.generators import ring, star

pytestmark = [pytest.mark.emulation, pytest.mark.root]

LEAVES = 40
MARK = b"testing".ljust(50, b".")


@pytest.fixture
def square(tmp_path: Path) -> Iterator[Bridges]:
    """A ring of four, its routers up and committed to epoch 1."""
    with running(ring(4), tmp_path) as bridges:
        bridges.wait_for("all_switches_ready")
        for router in bridges.routers.values():
            router.hello()
        bridges.wait_for("committed", epoch=1)
        yield bridges


def test_routers_get_the_tables_of_the_topology_and_a_commit(square: Bridges) -> None:
    expected = broadcast_tables(square.topology, spt_trees(square.topology))
    assert {n: router.tables[1] for n, router in square.routers.items()} == expected
    assert {router.commits[1].oldest_epoch for router in square.routers.values()} == {1}
    names = [event["event"] for event in square.log.events]
    for name in ("switch_connected", "pipeline_installed", "hello", "table_acknowledged"):
        assert names.count(name) == 4, name
    assert names.index("all_switches_ready") < names.index("epoch_started") < names.index("committed")
    assert "openflow_error" not in names


def test_a_link_that_goes_down_and_up_makes_epochs(square: Bridges) -> None:
    topology = square.topology
    failed = next(link for link in topology.links if (link.u, link.v) == (0, 1))
    square.set_link(0, 1, up=False)
    square.wait_for("link_down", u=0, v=1)
    started = square.wait_for("epoch_started", epoch=2)
    assert (started["down_links"], started["down_nodes"]) == ([failed.index], [])
    square.wait_for("committed", epoch=2)
    expected = broadcast_tables(topology, spt_trees(topology, frozenset({failed.index})))
    assert {n: router.tables[2] for n, router in square.routers.items()} == expected
    assert {router.commits[2].oldest_epoch for router in square.routers.values()} == {1}
    square.set_link(0, 1, up=True)
    square.wait_for("link_up", u=0, v=1)
    square.wait_for("committed", epoch=3)
    assert square.routers[0].tables[3] == square.routers[0].tables[1]
    assert {router.commits[3].oldest_epoch for router in square.routers.values()} == {2}


def test_both_frameworks_give_the_same_rules_tables_and_epochs(tmp_path: Path) -> None:
    pytest.importorskip("os_ken")
    seen: dict[str, tuple[object, ...]] = {}
    for framework in FRAMEWORKS:
        folder = tmp_path / framework
        folder.mkdir()
        with running(ring(4), folder, framework) as bridges:
            bridges.wait_for("all_switches_ready")
            for router in bridges.routers.values():
                router.hello()
            bridges.wait_for("committed", epoch=1)
            bridges.set_link(0, 1, up=False)
            bridges.wait_for("committed", epoch=2)
            bridges.disconnect(3)
            bridges.wait_for("switch_disconnected", node=3)
            bridges.wait_for("committed", epoch=3)
            rules = [bridges.rules(node) for node in range(3)]
            epochs = [
                {key: value for key, value in event.items() if key not in ("t_ns", "seconds")}
                for event in _events(bridges)
                if event["event"] in ("epoch_started", "committed")
            ]
            seen[framework] = rules, epochs, [bridges.routers[node].tables for node in range(4)]
    assert seen[OS_KEN] == seen[RYU]


def test_tables_are_sent_again_until_they_are_acknowledged(square: Bridges) -> None:
    deaf = square.routers[3]
    deaf.silent = True
    square.set_link(0, 1, up=False)
    square.wait_for("table_acknowledged", epoch=2, node=0)
    deaf.silent = False
    assert 2 not in deaf.tables
    square.wait_for("committed", epoch=2)
    assert 2 in deaf.tables


def test_sigterm_ends_it_with_its_counters(square: Bridges) -> None:
    square.routers[1].send(CONTROLLER_DESTINATION, b"\x63" + bytes(45))
    square.routers[1].send(CONTROLLER_DESTINATION, encode(Frame(FrameType.COMMIT, 1, 1, 1, 1, Commit(1))))
    square.restart(1)
    square.wait_for("committed", epoch=2)
    assert square.stop_controller() == 0
    (counters,) = [e for e in _events(square) if e["event"] == "counters"]

    def unread() -> str | None:
        """The routers got what the controller sent: each frame once, or again if its ACK was late."""
        got = {kind: square.counted[kind] for kind in ("TABLE", "COMMIT")}
        return None if got == counters["frames_sent"] else f"{got} of {counters['frames_sent']}"

    square.pump_until(unread, TIMEOUT, "the frames of the controller")
    assert min(counters["frames_sent"].values()) >= 8
    # A switch may drop a HELLO.
    assert 5 <= counters["frames_received"]["HELLO"] <= square.counted["HELLO"]
    assert counters["undecodable"] == {"bad_version": 1}
    assert counters["refused"] == {"1": {"unexpected_type": 1}}


def test_a_hub_replicates_to_exactly_the_named_ports_over_pages(tmp_path: Path) -> None:
    with running(star(LEAVES + 1), tmp_path) as bridges:
        bridges.wait_for("all_switches_ready")
        for router in bridges.routers.values():
            router.hello()
        bridges.wait_for("committed", epoch=1)
        hub = bridges.routers[0]
        neighbours = bridges.topology.neighbours(0)
        for ports in ({1}, {LEAVES}, {1, 31, 32, 33, 40}, set(neighbours), {2, 39}):
            for address in port_addresses(ports):
                hub.send(address, MARK)
            _expect(bridges, {neighbours[port] for port in ports})
        # From a leaf: the hub's host alone gets it, and it goes no further.
        bridges.routers[5].send(port_addresses([1])[0], MARK)
        _expect(bridges, {0})
        # Ports that do not exist, and another ethertype: nobody gets it.
        hub.send(port_addresses([LEAVES + 1])[0], MARK)
        hub.socket.send(
            port_addresses([1])[0] + b"\x02\xcb\0\0\0\0" + (ETHERTYPE + 1).to_bytes(2, "big") + MARK
        )
        # A VLAN tag in front of the ethertype: neither over a link, nor to the controller.
        for address in (port_addresses([1])[0], CONTROLLER_DESTINATION):
            tag = b"\x81\x00\x00\x07"
            hub.socket.send(address + b"\x02\xcb\0\0\0\0" + tag + ETHERTYPE.to_bytes(2, "big") + MARK)
        hub.send(port_addresses([7])[0], MARK)
        _expect(bridges, {neighbours[7]})
        assert bridges.stop_controller() == 0
        (counters,) = [event for event in _events(bridges) if event["event"] == "counters"]
        assert counters["undecodable"] == {}


def test_no_other_user_can_pass_for_a_switch(square: Bridges) -> None:
    """The controller listens on a socket that its own user alone may open, and on no port."""
    assert stat.S_IMODE(square.socket.stat().st_mode) == 0o600
    connect = f"import socket; socket.socket(socket.AF_UNIX).connect({str(square.socket)!r})"
    as_nobody = ["setpriv", "--reuid=nobody", "--clear-groups", "/usr/bin/python3", "-c", connect]
    refused = subprocess.run(as_nobody, capture_output=True, text=True, check=False)
    assert "PermissionError" in refused.stderr
    assert square.listening_ports() == []


def _expect(bridges: Bridges, nodes: set[int]) -> None:
    """Waits until exactly these routers have got one marked frame; forgets them then."""

    def got() -> dict[int, int]:
        return {node: len(router.data) for node, router in bridges.routers.items() if router.data}

    wanted = dict.fromkeys(nodes, 1)
    bridges.pump_until(lambda: None if got() == wanted else f"got {got()}", TIMEOUT, f"frames at {nodes}")
    for router in bridges.routers.values():
        assert all(frame[14 : 14 + len(MARK)] == MARK for frame in router.data)
        router.data.clear()


def _events(bridges: Bridges) -> list[Event]:
    bridges.log.read()
    return bridges.log.events
