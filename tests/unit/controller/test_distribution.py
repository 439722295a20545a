"""The controller's state machine: epochs, links, switches and frames."""

from __future__ import annotations

import sys

import pytest

from router.wire.frames import BroadcastTable, Commit, Frame, FrameType, Hello
from router.wire.header import HOST_PORT
from testbed.controller.distribution import Timing
from testbed.controller.events import FrameReceived, PortChanged, SwitchConnected, SwitchDisconnected
from tests.support.controller_network import Network, acknowledgement, brought_up
from tests.support.tree_entries import sources_of
from topos.generators import line, ring


def test_first_epoch_from_connection_to_commit() -> None:
    network = brought_up(line(3))
    assert [log.event for log in network.logged] == [
        *["switch_connected", "pipeline_installed"] * 3,
        "all_switches_ready",
        "epoch_started",
        *["hello", "table_acknowledged"] * 3,
        "committed",
    ]
    assert network.frames(FrameType.TABLE, 1) == [0, 1, 2]
    assert network.frames(FrameType.COMMIT, 1) == [0, 1, 2]
    assert {s.frame.body for s in network.sent if s.frame.type is FrameType.COMMIT} == {Commit(1)}
    assert network.events("epoch_started") == [{"epoch": 1, "routers": 3, "down_links": [], "down_nodes": []}]
    assert network.machine.next_deadline() is None
    numbers = [sent.frame.seq for sent in network.sent]
    assert len(set(numbers)) == len(numbers)


def test_no_epoch_before_every_switch_is_ready() -> None:
    network = Network(line(3))
    network.tell(SwitchConnected(0, network.ports(0)), SwitchConnected(1, network.ports(1)))
    network.hello(0)
    network.advance(60)
    assert not network.events("all_switches_ready")
    assert not network.sent
    network.tell(SwitchConnected(2, network.ports(2)))
    network.advance(1)
    assert network.frames(FrameType.TABLE, 1) == [0]


def test_a_frame_takes_no_work_for_every_node() -> None:
    network = brought_up(line(4))
    called: set[str] = set()
    try:
        sys.setprofile(lambda frame, _event, _argument: called.add(frame.f_code.co_qualname))
        network.hello(2)
        of_hello = called.copy()
        network.tell(PortChanged(0, HOST_PORT, False))
    finally:
        sys.setprofile(None)
    assert "Distribution._frame_received" in of_hello
    assert "Liveness.down_nodes" in called - of_hello


def test_retransmission_backs_off_with_the_same_frame() -> None:
    network = Network(line(2))
    network.deaf = {1}
    network.bring_up()
    start = network.now
    times: list[float] = []
    known = len(network.sent)
    while network.now < start + 9:
        network.advance(0.25)
        times += [network.now - start] * (len(network.sent) - known)
        known = len(network.sent)
    assert times == [1.0, 3.0, 7.0]
    tables = [sent.frame for sent in network.sent if sent.node == 1]
    assert tables == tables[:1] * 4


def test_a_network_of_which_nothing_is_left_has_settled() -> None:
    network = brought_up(line(2))
    for node in (0, 1):
        network.tell(PortChanged(node, HOST_PORT, False))
    network.advance(1)
    assert network.events("committed")[-1]["routers"] == 0
    assert network.machine.settled
    network.tell(PortChanged(0, HOST_PORT, True), PortChanged(1, HOST_PORT, True))
    network.advance(1)
    assert network.events("committed")[-1]["routers"] == 2
    assert network.sent[-1].frame.body == Commit(oldest_epoch=1)


def test_both_ends_of_a_failed_link_make_one_epoch_that_keeps_the_last_one() -> None:
    network = brought_up(ring(4))
    link = network.topology.links[0]
    network.tell(PortChanged(link.u, link.u_port, False), PortChanged(link.v, link.v_port, False))
    network.advance(1)
    assert network.events("link_down") == [{"link": 0, "u": link.u, "v": link.v}]
    assert network.events("epoch_started")[1:] == [
        {"epoch": 2, "routers": 4, "down_links": [0], "down_nodes": []}
    ]
    commits = [s.frame.body for s in network.sent if s.frame.epoch == 2 and s.frame.type is FrameType.COMMIT]
    assert commits == [Commit(oldest_epoch=1)] * 4
    network.tell(PortChanged(link.u, link.u_port, True))
    network.advance(1)
    assert not network.events("link_up"), "one end is still down"
    network.tell(PortChanged(link.v, link.v_port, True))
    network.advance(1)
    assert network.events("link_up") == [{"link": 0, "u": link.u, "v": link.v}]
    assert [e["epoch"] for e in network.events("committed")] == [1, 2, 3]
    assert network.sent[-1].frame.body == Commit(oldest_epoch=2)


def test_a_flap_shorter_than_the_settling_time_makes_all_advertise_again() -> None:
    network = brought_up(ring(4))
    link = network.topology.links[0]
    network.tell(PortChanged(link.u, link.u_port, False))
    network.advance(0.05)
    network.tell(PortChanged(link.u, link.u_port, True))
    network.advance(5)
    # The link may have lost an advertisement that is not repeated.
    assert network.events("epoch_started")[1:] == [
        {"epoch": 2, "routers": 4, "down_links": [], "down_nodes": []}
    ]
    assert network.machine.next_deadline() is None


def test_a_commit_keeps_the_epoch_that_some_still_originate_in() -> None:
    network = brought_up(ring(4))
    first, second = network.topology.links[:2]
    network.deaf = {3}
    network.tell(PortChanged(first.u, first.u_port, False))
    network.advance(0.5)
    assert network.frames(FrameType.TABLE, 2)
    network.tell(PortChanged(second.u, second.u_port, False))  # epoch 2 is abandoned
    network.deaf = set()
    network.advance(1)
    assert [e["epoch"] for e in network.events("committed")] == [1, 3]
    assert network.sent[-1].frame.body == Commit(oldest_epoch=1)


def test_acknowledgements_of_an_abandoned_epoch_count_for_nothing() -> None:
    network = brought_up(line(2))
    network.deaf = {0, 1}
    link = network.topology.links[0]
    network.tell(PortChanged(link.u, link.u_port, False))
    network.advance(0.2)
    late = [acknowledgement(sent.frame) for sent in network.sent if sent.frame.epoch == 2]
    network.tell(PortChanged(link.u, link.u_port, True))
    network.advance(0.2)
    network.tell(*late)
    assert len(late) == 2
    assert not network.frames(FrameType.COMMIT, 3)


@pytest.mark.parametrize("switch", [True, False], ids=["switch", "port of the host"])
def test_a_switch_that_disconnects_takes_its_node_out_and_back_in(switch: bool) -> None:
    network = brought_up(ring(4))
    network.tell(SwitchDisconnected(2) if switch else PortChanged(2, HOST_PORT, False))
    network.advance(1)
    assert network.events("node_down") == [{"node": 2}] * (not switch)
    assert network.events("epoch_started")[1]["down_nodes"] == [2]
    assert network.frames(FrameType.TABLE, 2) == [0, 1, 3]
    table = next(s.frame.body for s in network.sent if s.frame.epoch == 2 and s.node == 1)
    assert isinstance(table, BroadcastTable)
    assert sources_of(table) == [0, 1, 3]
    network.tell(SwitchConnected(2, network.ports(2)) if switch else PortChanged(2, HOST_PORT, True))
    network.advance(1)
    assert network.events("node_up") == [{"node": 2}] * (not switch)
    assert network.frames(FrameType.COMMIT, 3) == [0, 1, 2, 3]


def test_ports_missing_at_connection_are_down() -> None:
    network = Network(line(2))
    network.tell(SwitchConnected(0, frozenset({HOST_PORT})), SwitchConnected(1, network.ports(1)))
    network.advance(1)
    assert network.events("epoch_started")[0]["down_links"] == [0]
    network.tell(PortChanged(0, 1, True), PortChanged(0, 77, True))
    network.advance(1)
    assert network.events("epoch_started")[1]["down_links"] == []


def test_the_window_bounds_what_is_unacknowledged() -> None:
    network = Network(line(10), Timing(window=3))
    network.deaf = set(range(10))
    network.bring_up()
    assert network.frames(FrameType.TABLE, 1) == [0, 1, 2]
    network.deaf = set()
    network.advance(20)
    assert network.frames(FrameType.COMMIT, 1) == list(range(10))
    assert network.most_unacknowledged <= 3


def test_frames_of_no_use_are_counted() -> None:
    network = brought_up(line(2))
    network.tell(FrameReceived(0, Frame(FrameType.HELLO, 1, 0, 0, 1, Hello(9))))
    network.tell(FrameReceived(0, Frame(FrameType.COMMIT, 0, 0, 1, 1, Commit(1))))
    network.tell(acknowledgement(Frame(FrameType.TABLE, 0, 999, 1, 1, Commit(1))))
    assert network.machine.refused == {(0, "wrong_issuer"): 1, (0, "unexpected_type"): 1}
