"""The controller's state machine, driven by hand: no switch, no clock."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from captures.rundir.controller import CONTROLLER_EVENTS, ControllerLog, RouterHello
from captures.rundir.epochs import NETWORK_EVENTS
from captures.rundir.files import check
from router.protocol.broadcast import EPOCH_LEAD
from router.records.forms import fields as record_fields
from router.wire.addresses import HOST_PORT
from router.wire.frames import Ack, BroadcastTable, Commit, Frame, FrameType, Hello
from testbed.controller.distribution import Distribution, Timing
from testbed.controller.events import (
    Action,
    Bequeath,
    ComputeTables,
    Event,
    FrameReceived,
    InstallPipeline,
    Log,
    PipelineInstalled,
    PortChanged,
    SendFrame,
    SwitchConnected,
    SwitchDisconnected,
    TablesComputed,
    Tick,
)
from testbed.controller.liveness import Liveness
from testbed.controller.takeover import Legacy, read_incarnations, read_legacy, write_legacy
from testbed.controller.trees import broadcast_tables, spt_trees
from topos.generators import line, ring
from topos.model import Topology

TIMING = Timing(settle_s=0.1, retry_s=1.0, retry_max_s=4.0, give_up_s=10.0, patience_s=5.0, window=64)


class Network:
    """A topology whose switches perform all actions, and whose routers acknowledge all frames."""

    def __init__(self, topology: Topology, timing: Timing = TIMING) -> None:
        self.topology = topology
        self.machine = Distribution(topology, timing)
        self.now = 0.0
        self.deaf: set[int] = set()
        #: Routers that are in an epoch of which this controller knows nothing.
        self.ahead: dict[int, int] = {}
        self.sent: list[SendFrame] = []
        self.logged: list[Log] = []
        self.legacies: list[Legacy] = []
        self.most_unacknowledged = 0

    def tell(self, *events: Event) -> None:
        """Handles events, and then the events that they cause, at the present time."""
        queue = list(events)
        while queue:
            unacknowledged = 0
            for action in self.machine.handle(queue.pop(0), self.now):
                unacknowledged += isinstance(action, SendFrame)
                queue += self._answer(action)
            self.most_unacknowledged = max(self.most_unacknowledged, unacknowledged)

    def advance(self, seconds: float) -> None:
        """Lets time pass, stopping at every deadline."""
        end = self.now + seconds
        while (due := self.machine.next_deadline()) is not None and due <= end:
            assert due >= self.now
            self.now = due
            self.tell(Tick())
        self.now = end

    def connect(self) -> None:
        for node in self.topology.nodes:
            self.tell(SwitchConnected(node.id, self.ports(node.id)))

    def ports(self, node: int) -> frozenset[int]:
        return frozenset({HOST_PORT, *self.topology.neighbours(node)})

    def hello(self, node: int, incarnation: int = 1) -> None:
        self.tell(FrameReceived(node, Frame(FrameType.HELLO, node, 0, 0, 1, Hello(incarnation))))

    def bring_up(self) -> None:
        self.connect()
        self.advance(1.0)
        for node in self.topology.nodes:
            self.hello(node.id)

    def events(self, name: str) -> list[dict[str, object]]:
        return [dict(log.fields) for log in self.logged if log.event == name]

    def frames(self, kind: FrameType, epoch: int) -> list[int]:
        """Returns the nodes to which a frame of a type and epoch was sent, in order."""
        return [sent.node for sent in self.sent if (sent.frame.type, sent.frame.epoch) == (kind, epoch)]

    def _answer(self, action: Action) -> list[Event]:
        match action:
            case InstallPipeline(node):
                return [PipelineInstalled(node)]
            case ComputeTables(epoch, links, nodes):
                tables = broadcast_tables(self.topology, spt_trees(self.topology, links, nodes))
                return [TablesComputed(epoch, tables)]
            case SendFrame(node, frame):
                self.sent.append(action)
                return [] if node in self.deaf else [acknowledgement(frame, self.ahead.get(node, 0))]
            case Bequeath(legacy):
                self.legacies.append(legacy)
            case Log(event, fields):
                # Exactly the fields that the record of the run folder has.
                check(CONTROLLER_EVENTS[event], event, fields)
                assert {field.name for field in record_fields(CONTROLLER_EVENTS[event])} == fields.keys()
                self.logged.append(action)
        return []


def acknowledgement(frame: Frame, own_epoch: int = 0) -> FrameReceived:
    """The ACK of a router that had tables up to `own_epoch` before the frame came."""
    epoch = max(frame.epoch, own_epoch)
    ack = Frame(FrameType.ACK, frame.issuer, frame.seq, epoch, 1, Ack(frame.type))
    return FrameReceived(frame.issuer, ack)


def test_first_epoch_from_connection_to_commit() -> None:
    network = Network(line(3))
    network.bring_up()
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


def test_a_frame_takes_no_work_for_every_node(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network(line(4))
    network.bring_up()
    asked = 0
    present: property = vars(Liveness)["down_nodes"]

    def down_nodes(self: Liveness) -> frozenset[int]:
        nonlocal asked
        asked += 1
        found: frozenset[int] = present.__get__(self)
        return found

    monkeypatch.setattr(Liveness, "down_nodes", property(down_nodes))
    for _ in range(10):
        network.hello(2)
    assert asked == 0
    network.tell(PortChanged(0, HOST_PORT, False))
    assert asked == 1


def test_no_commit_before_every_router_has_acknowledged() -> None:
    network = Network(line(3))
    network.deaf = {1}
    network.bring_up()
    assert network.frames(FrameType.COMMIT, 1) == []
    network.deaf = set()
    network.advance(1)
    assert network.frames(FrameType.COMMIT, 1) == [0, 1, 2]
    assert network.events("committed") == [{"epoch": 1, "routers": 3, "seconds": 1.9}]


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


def test_a_router_that_stays_silent_is_left_out_until_it_is_heard_of() -> None:
    network = Network(ring(4))
    network.deaf = {2}
    network.bring_up()
    network.advance(30)
    assert network.events("router_unresponsive") == [{"node": 2, "waited_s": 10.0}]
    assert [e["epoch"] for e in network.events("committed")] == [2]
    assert network.events("epoch_started")[1]["down_nodes"] == [2]
    assert 2 not in network.frames(FrameType.TABLE, 2)
    network.deaf = set()
    network.hello(2)
    network.advance(1)
    assert [e["epoch"] for e in network.events("committed")] == [2, 3]
    assert 2 in network.frames(FrameType.COMMIT, 3)


def test_a_router_that_answers_just_after_it_was_given_up_is_brought_in() -> None:
    network = Network(ring(4))
    network.deaf = {2}
    network.bring_up()
    network.advance(10 - network.now + 1.0)
    while not network.events("router_unresponsive"):
        network.advance(0.01)
    network.deaf = set()
    network.tell(acknowledgement(next(s.frame for s in network.sent if s.node == 2)))
    assert network.events("router_responsive") == [{"node": 2}]
    assert not network.machine.settled
    network.advance(1)
    assert network.machine.settled
    assert 2 in network.frames(FrameType.COMMIT, network.events("committed")[-1]["epoch"])


def test_a_router_that_hears_again_after_it_was_given_up_is_asked_and_brought_in() -> None:
    network = Network(ring(4))
    network.bring_up()
    network.advance(1)
    network.deaf = {2}
    link = network.topology.links[0]
    network.tell(PortChanged(link.u, link.u_port, False))
    network.advance(60)
    assert network.events("epoch_started")[-1]["down_nodes"] == [2]
    assert network.events("node_up") == []
    network.deaf = set()
    network.advance(TIMING.retry_max_s + 1)
    assert network.events("router_responsive") == [{"node": 2}]
    assert network.machine.settled
    assert network.machine.next_deadline() is None
    assert network.events("epoch_started")[-1]["down_nodes"] == []


@pytest.mark.parametrize(("window", "waited_s"), [(64, TIMING.patience_s), (1, TIMING.give_up_s)])
def test_an_epoch_after_the_first_is_committed_at_those_that_answer_in_time(
    window: int, waited_s: float
) -> None:
    """While others wait for their frames, the machine may be slow."""
    network = Network(ring(8), replace(TIMING, window=window))
    network.bring_up()
    network.advance(1)
    network.deaf = {3}
    network.tell(PortChanged(0, 1, False))
    network.advance(waited_s + 3 * TIMING.settle_s)
    assert network.events("router_unresponsive") == [{"node": 3, "waited_s": waited_s}]
    last = network.events("committed")[-1]
    assert (last["epoch"], last["routers"]) == (3, 7)


def test_a_controller_that_was_stopped_gives_nobody_up_before_it_reads_the_answers() -> None:
    network = Network(ring(4))
    network.bring_up()
    network.advance(1)
    network.deaf = {2}
    network.tell(PortChanged(0, 1, False))
    network.advance(TIMING.settle_s)
    network.now += 4 * TIMING.patience_s
    network.tell(Tick())
    network.tell(acknowledgement([sent.frame for sent in network.sent if sent.node == 2][-1]))
    network.deaf = set()
    network.advance(1)
    assert network.events("router_unresponsive") == []
    assert network.events("committed")[-1]["routers"] == 4


def test_a_hello_holds_nobody_before_its_router_answers() -> None:
    network = Network(ring(4))
    network.bring_up()
    network.advance(1)
    network.deaf = {2}
    network.hello(2, incarnation=2)
    question = network.sent[-1].frame
    assert (question.type, question.epoch, question.seq >> 32) == (FrameType.COMMIT, 0, 2)
    network.advance(60)
    assert [event["epoch"] for event in network.events("committed")] == [1]
    network.deaf = set()
    network.hello(2, incarnation=2)
    network.advance(1)
    assert [event["epoch"] for event in network.events("committed")] == [1, 2]
    assert network.events("hello")[-1] == {"node": 2, "incarnation": 2, "restarted": True}


@pytest.mark.parametrize("named", [9, 1, 77], ids=["the same start", "the known start", "another start"])
def test_a_hello_that_comes_before_the_answer_to_another_voids_no_answer(named: int) -> None:
    network = Network(ring(4))
    network.bring_up()
    network.deaf = {2}
    network.hello(2, incarnation=9)
    question = network.sent[-1].frame
    network.hello(2, incarnation=named)
    network.tell(acknowledgement(question))
    assert network.events("hello")[-1] == {"node": 2, "incarnation": 9, "restarted": True}
    # A repeated ACK changes nothing.
    network.hello(2, incarnation=77)
    network.tell(acknowledgement(question))
    assert len(network.events("hello")) == 5


def test_a_member_that_never_said_hello_is_given_up_until_it_does() -> None:
    network = Network(ring(4))
    network.connect()
    network.tell(PortChanged(3, HOST_PORT, False))
    for node in range(3):
        network.hello(node)
    network.advance(1)
    network.deaf = {3}
    network.tell(PortChanged(3, HOST_PORT, True))
    network.advance(TIMING.patience_s + 3 * TIMING.settle_s)
    assert [event["routers"] for event in network.events("committed")] == [3, 3]
    network.deaf = set()
    network.hello(3)
    network.advance(1)
    assert [event["routers"] for event in network.events("committed")] == [3, 3, 4]
    assert network.machine.settled


def test_an_answer_of_another_router_gives_a_silent_router_more_time() -> None:
    network = Network(ring(8))
    network.bring_up()
    network.deaf = {2, 3}
    network.tell(PortChanged(0, 1, False))
    network.advance(TIMING.patience_s)
    network.tell(acknowledgement([sent.frame for sent in network.sent if sent.node == 3][-1]))
    network.advance(TIMING.patience_s - TIMING.settle_s)
    assert network.events("router_unresponsive") == []
    network.advance(2 * TIMING.settle_s)
    assert network.events("router_unresponsive") == [{"node": 2, "waited_s": TIMING.patience_s}]


def test_answers_of_a_router_that_was_given_up_make_few_epochs_for_all() -> None:
    network = Network(ring(4), replace(TIMING, retry_s=0.5, patience_s=0.5))
    network.bring_up()
    network.deaf = {2}
    network.tell(PortChanged(0, 1, False))
    start = network.now
    while network.now < start + TIMING.restart_s:
        network.advance(0.5 + 3 * TIMING.settle_s)
        network.tell(acknowledgement([sent.frame for sent in network.sent if sent.node == 2][-1]))
    assert len(network.events("router_responsive")) == TIMING.restarts


def test_a_restart_of_a_router_that_was_given_up_counts_once() -> None:
    network = Network(ring(4), replace(TIMING, retry_s=0.5, patience_s=0.5))
    network.bring_up()
    for start in range(2, 2 + TIMING.restarts):
        network.deaf = {2}
        network.tell(PortChanged(0, 1, start % 2 == 0), PortChanged(0, 1, start % 2 == 1))
        network.advance(0.5 + 3 * TIMING.settle_s)
        network.deaf = set()
        network.hello(2, incarnation=start)
        network.advance(0.5)
    assert len(network.events("router_unresponsive")) == TIMING.restarts
    assert network.events("hello")[-1]["incarnation"] == 1 + TIMING.restarts
    assert network.machine.rejected == {}


def test_a_network_of_which_nothing_is_left_has_settled() -> None:
    network = Network(line(2))
    network.bring_up()
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
    network = Network(ring(4))
    network.bring_up()
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
    network = Network(ring(4))
    network.bring_up()
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
    network = Network(ring(4))
    network.bring_up()
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
    network = Network(line(2))
    network.bring_up()
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


def test_a_restart_makes_a_new_epoch_in_which_all_advertise_again() -> None:
    network = Network(line(3))
    network.bring_up()
    network.sent.clear()
    network.hello(1)  # a repetition that was under way
    network.advance(1)
    assert not network.sent
    network.hello(1, incarnation=2)
    network.hello(1, incarnation=2)
    network.advance(1)
    assert network.events("hello")[-1] == {"node": 1, "incarnation": 2, "restarted": True}
    assert network.frames(FrameType.TABLE, 1) == []
    assert network.frames(FrameType.TABLE, 2) == [0, 1, 2]
    assert network.frames(FrameType.COMMIT, 2) == [0, 1, 2]
    assert network.sent[-1].frame.body == Commit(oldest_epoch=1)
    assert [e["epoch"] for e in network.events("committed")] == [1, 2]
    assert network.machine.next_deadline() is None


def test_restarts_close_to_each_other_make_one_epoch() -> None:
    network = Network(ring(4))
    network.bring_up()
    link = network.topology.links[0]
    network.hello(1, incarnation=2)
    network.advance(TIMING.settle_s / 2)
    network.hello(2, incarnation=2)
    network.hello(1, incarnation=3)
    network.advance(TIMING.settle_s / 2)
    network.tell(PortChanged(link.u, link.u_port, False))
    network.advance(1)
    assert [e["epoch"] for e in network.events("committed")] == [1, 2]
    assert network.events("epoch_started")[-1]["down_links"] == [0]


def test_a_restart_between_commits_abandons_the_epoch() -> None:
    network = Network(line(3))
    network.deaf = {2}
    network.connect()
    network.advance(1)
    for node in (0, 1, 2):
        network.hello(node)
    network.tell(*[acknowledgement(s.frame) for s in network.sent if s.node == 2])
    # Routers 0 and 1 are committed and may have advertised; 2 has not acknowledged its COMMIT.
    assert network.frames(FrameType.COMMIT, 1) == [0, 1, 2]
    network.deaf = set()
    network.hello(0, incarnation=2)
    network.advance(5)
    assert [e["epoch"] for e in network.events("committed")] == [2]
    assert network.frames(FrameType.COMMIT, 2) == [0, 1, 2]


def test_a_restart_before_the_commit_holds_the_commit_back() -> None:
    network = Network(line(3))
    network.connect()
    network.advance(1)
    network.hello(0)
    network.deaf = {0}
    network.hello(0, incarnation=2)
    network.hello(1)
    network.hello(2)
    assert not network.frames(FrameType.COMMIT, 1)
    network.deaf = set()
    network.advance(2)
    assert [e["epoch"] for e in network.events("committed")] == [2]
    assert network.frames(FrameType.COMMIT, 1) == []
    assert network.machine.settled


def test_a_switch_that_disconnects_takes_its_node_out_and_back_in() -> None:
    network = Network(ring(4))
    network.bring_up()
    network.tell(SwitchDisconnected(2))
    network.advance(1)
    assert network.events("epoch_started")[1]["down_nodes"] == [2]
    assert network.frames(FrameType.TABLE, 2) == [0, 1, 3]
    table = next(s.frame.body for s in network.sent if s.frame.epoch == 2 and s.node == 1)
    assert isinstance(table, BroadcastTable)
    assert table.sources().tolist() == [0, 1, 3]
    network.tell(SwitchConnected(2, network.ports(2)))
    network.advance(1)
    assert network.frames(FrameType.COMMIT, 3) == [0, 1, 2, 3]


def test_a_host_port_that_goes_down_takes_the_node_out() -> None:
    network = Network(line(3))
    network.bring_up()
    network.tell(PortChanged(2, HOST_PORT, False))
    network.advance(1)
    assert network.events("node_down") == [{"node": 2}]
    assert network.events("epoch_started")[1]["down_nodes"] == [2]
    network.tell(PortChanged(2, HOST_PORT, True))
    network.advance(1)
    assert network.events("node_up") == [{"node": 2}]
    assert network.frames(FrameType.COMMIT, 3) == [0, 1, 2]


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


@pytest.mark.parametrize("ahead", [1, 1000, EPOCH_LEAD])
def test_a_router_that_is_ahead_is_brought_in_by_a_higher_epoch(ahead: int) -> None:
    network = Network(line(3))
    network.bring_up()
    network.ahead = {1: 2 + ahead}
    network.tell(PortChanged(0, 1, False))
    network.advance(1)
    assert [event["epoch"] for event in network.events("committed")] == [1, 3 + ahead]
    assert sorted(network.frames(FrameType.COMMIT, 3 + ahead)) == [0, 1, 2]
    assert network.machine.rejected == {"other_epoch": 1}
    assert network.machine.refused == {(1, "other_epoch"): 1}
    assert network.machine.settled


@pytest.mark.parametrize("foreign", [2**32 - 1, EPOCH_LEAD + 100])
def test_a_router_that_is_too_far_ahead_is_left_out_until_it_restarts(foreign: int) -> None:
    network = Network(line(3))
    network.bring_up()
    network.ahead = {1: foreign}
    network.tell(PortChanged(0, 1, False))
    network.advance(20)
    assert network.events("router_unresponsive") == [{"node": 1, "waited_s": 5.0}]
    assert network.events("router_responsive") == []
    _, left_out = network.events("committed")
    assert (left_out["epoch"], left_out["routers"]) == (3, 2)
    network.ahead.clear()
    network.hello(1, incarnation=2)
    network.advance(1)
    brought_in = network.events("committed")[-1]
    assert (brought_in["epoch"], brought_in["routers"]) == (4, 3)


def test_hellos_that_change_make_few_epochs_for_all() -> None:
    network = Network(line(3))
    network.bring_up()
    for incarnation in range(2, 42):
        network.hello(1, incarnation=incarnation)
        network.advance(0.1)
    assert network.machine.rejected == {"hello_rate": 40 - TIMING.restarts}
    assert [event["epoch"] for event in network.events("committed")] == [1, 2, 3, 4]
    assert len(network.events("hello")) == 3 + TIMING.restarts
    # A router that has really restarted repeats its HELLO.
    network.advance(TIMING.restart_s)
    network.hello(1, incarnation=41)
    network.advance(1)
    assert network.events("committed")[-1]["epoch"] == 5
    assert network.machine.settled


def test_acknowledgements_of_foreign_epochs_make_few_epochs_for_all() -> None:
    network = Network(line(3))
    network.bring_up()
    network.ahead = {1: 100}
    for epoch in range(1, 40):
        network.ahead = {1: 100 * epoch}
        network.tell(PortChanged(0, 1, epoch % 2 == 0))
        network.advance(0.1)
    made = [int(str(event["epoch"])) for event in network.events("epoch_started")]
    assert max(made) <= 39 + 100 * 39
    assert (
        len([epoch for epoch, before in zip(made[1:], made, strict=False) if epoch > before + 1])
        == TIMING.restarts
    )


def test_the_number_of_a_table_names_the_start_of_its_router() -> None:
    network = Network(line(2))
    network.connect()
    network.advance(1)
    network.hello(0, incarnation=7)
    network.hello(1, incarnation=2**32 - 1)
    numbers = {(sent.node, sent.frame.seq >> 32) for sent in network.sent}
    assert numbers == {(0, 7), (1, 2**32 - 1)}


def test_frames_of_no_use_are_counted() -> None:
    network = Network(line(2))
    network.bring_up()
    network.tell(FrameReceived(0, Frame(FrameType.HELLO, 1, 0, 0, 1, Hello(9))))
    network.tell(FrameReceived(0, Frame(FrameType.COMMIT, 0, 0, 1, 1, Commit(1))))
    network.tell(acknowledgement(Frame(FrameType.TABLE, 0, 999, 1, 1, Commit(1))))
    assert network.machine.rejected == {"wrong_issuer": 1, "unexpected_type": 1}
    assert network.machine.refused == {(0, "wrong_issuer"): 1, (0, "unexpected_type"): 1}


# A controller that is started after another one.


def take_over(former: Network) -> Network:
    """A controller that is started with what another one has left and logged, in the same network."""
    network = Network(former.topology)
    legacy = former.legacies[-1] if former.legacies else None
    starts = {int(str(each["node"])): int(str(each["incarnation"])) for each in former.events("hello")}
    network.machine = Distribution(former.topology, TIMING, legacy, incarnations=starts)
    network.now = former.now
    return network


def test_a_controller_takes_over_without_an_epoch() -> None:
    former = Network(ring(4))
    former.bring_up()
    assert former.legacies[-1].settled
    network = take_over(former)
    network.connect()
    network.advance(30)
    assert network.events("taken_over") == [{"epoch": 1}]
    assert (network.events("epoch_started"), network.sent) == ([], [])
    assert network.machine.settled
    # To readers of the log, nothing has befallen the network.
    assert not {log.event for log in network.logged} & {
        name for name, event in NETWORK_EVENTS.items() if event.disturbs
    }
    network.tell(PortChanged(0, next(iter(network.topology.neighbours(0))), up=False))
    network.advance(1)
    assert network.frames(FrameType.COMMIT, 2) == [0, 1, 2, 3]


def test_a_link_that_went_down_meanwhile_makes_an_epoch() -> None:
    former = Network(ring(4))
    former.bring_up()
    network = take_over(former)
    port = next(iter(network.topology.neighbours(0)))
    network.tell(SwitchConnected(0, network.ports(0) - {port}))
    network.advance(1)
    assert network.events("epoch_started") == []
    for node in (1, 2, 3):
        network.tell(SwitchConnected(node, network.ports(node)))
    network.advance(1)
    (started,) = network.events("epoch_started")
    assert (started["epoch"], len(started["down_links"])) == (2, 1)  # type: ignore[arg-type]


def test_a_switch_that_lost_its_rules_meanwhile_makes_an_epoch() -> None:
    former = Network(ring(4))
    former.bring_up()
    network = take_over(former)
    for node in range(4):
        network.tell(SwitchConnected(node, network.ports(node), emptied=node == 2))
    network.advance(1)
    assert network.events("switch_connected") == [{"node": 2}]
    assert len(network.events("switch_taken_over")) == 3
    assert [event["epoch"] for event in network.events("committed")] == [2]


def test_a_link_that_was_down_already_makes_none() -> None:
    former = Network(ring(4))
    former.bring_up()
    port = next(iter(former.topology.neighbours(0)))
    former.tell(PortChanged(0, port, up=False))
    former.advance(1)
    network = take_over(former)
    network.tell(SwitchConnected(0, network.ports(0) - {port}))
    for node in (1, 2, 3):
        network.tell(SwitchConnected(node, network.ports(node)))
    network.advance(1)
    assert network.events("epoch_started") == []
    network.tell(PortChanged(0, port, up=True))
    network.advance(1)
    assert network.events("epoch_started")[0]["down_links"] == []


def test_a_router_that_restarted_meanwhile_makes_an_epoch() -> None:
    former = Network(ring(4))
    former.bring_up()
    network = take_over(former)
    network.connect()
    network.hello(2, incarnation=1)
    assert network.events("hello") == []
    network.hello(2, incarnation=2)
    network.advance(1)
    assert network.events("hello")[0]["restarted"] is True
    assert network.frames(FrameType.COMMIT, 2) == [0, 1, 2, 3]


def test_a_switch_that_stays_away_is_left_out() -> None:
    former = Network(ring(4))
    former.bring_up()
    network = take_over(former)
    for node in (0, 1, 3):
        network.tell(SwitchConnected(node, network.ports(node)))
    network.advance(30)
    assert network.events("switch_disconnected") == [{"node": 2}]
    assert network.events("epoch_started")[0]["down_nodes"] == [2]


def test_a_controller_killed_within_an_epoch_is_followed_by_the_next_epoch() -> None:
    former = Network(ring(4))
    former.bring_up()
    former.deaf = {1}
    former.tell(PortChanged(0, next(iter(former.topology.neighbours(0))), up=False))
    former.advance(1)
    assert (former.legacies[-1].epoch, former.legacies[-1].settled) == (2, False)
    network = take_over(former)
    network.connect()
    network.advance(1)
    assert [event["epoch"] for event in network.events("epoch_started")] == [3]
    # Routers that have a table send no HELLO.
    assert [event["epoch"] for event in network.events("committed")] == [3]


def test_a_controller_killed_after_a_hello_knows_the_start_of_the_router() -> None:
    former = Network(ring(4))
    former.bring_up()
    former.hello(2, incarnation=9)
    network = take_over(former)
    network.connect()
    network.advance(1)
    assert [event["epoch"] for event in network.events("committed")] == [2]
    assert {sent.frame.seq >> 32 for sent in network.sent if sent.node == 2} == {9}


def test_a_controller_killed_within_the_first_epoch_is_followed_by_the_next_epoch() -> None:
    former = Network(ring(5))
    former.connect()
    former.hello(0)  # before the epoch, the others within it
    former.advance(1)
    former.deaf = {2, 3}
    for node in (1, 2, 3):
        former.hello(node)
    former.advance(1)
    # 0 and 1 have a table, 2 and 3 may have one; none of them sends a HELLO, but 4.
    assert former.frames(FrameType.TABLE, 1)[:4] == [0, 1, 2, 3]
    assert former.events("committed") == []
    network = take_over(former)
    network.connect()
    network.advance(1)
    assert network.frames(FrameType.TABLE, 2) == [0, 1, 2, 3]
    network.hello(4)
    network.advance(1)
    assert [event["epoch"] for event in network.events("committed")] == [2]
    assert network.frames(FrameType.COMMIT, 2) == [0, 1, 2, 3, 4]


def test_a_controller_killed_between_the_first_commits_is_followed_by_the_next_epoch() -> None:
    former = Network(ring(4))
    former.connect()
    former.advance(1)
    for node in (0, 1, 2):
        former.hello(node)
    former.deaf = {3}
    former.hello(3, incarnation=7)
    (table,) = (sent.frame for sent in former.sent if sent.node == 3)
    former.tell(acknowledgement(table))
    assert former.frames(FrameType.COMMIT, 1) == [0, 1, 2, 3]
    assert former.events("committed") == []
    network = take_over(former)
    network.connect()
    network.advance(1)
    assert [event["epoch"] for event in network.events("committed")] == [2]
    assert {sent.frame.seq >> 32 for sent in network.sent if sent.node == 3} == {7}


def test_a_restart_is_bequeathed_before_it_is_logged() -> None:
    network = Network(ring(4))
    network.bring_up()
    hello = FrameReceived(2, Frame(FrameType.HELLO, 2, 0, 0, 1, Hello(9)))
    (question,) = network.machine.handle(hello, network.now)
    assert isinstance(question, SendFrame)
    actions = network.machine.handle(acknowledgement(question.frame), network.now)
    kinds = [type(action) for action in actions]
    assert kinds.index(Bequeath) < kinds.index(Log)
    # Killed between the two, it has left a start that is gone, and the router repeats its HELLO.
    former = Network(ring(4))
    former.bring_up()
    former.legacies += [action.legacy for action in actions if isinstance(action, Bequeath)]
    successor = take_over(former)
    successor.deaf = {2}  # it drops what is for another start
    successor.connect()
    successor.advance(1)
    successor.deaf = set()
    successor.hello(2, incarnation=9)
    successor.advance(1)
    assert [event["epoch"] for event in successor.events("committed")][-1] == 3
    assert [sent.frame.seq >> 32 for sent in successor.sent if sent.node == 2][-1] == 9


def test_no_controller_reuses_a_number_of_those_before_it() -> None:
    network = Network(ring(4))
    network.bring_up()
    network.deaf = {2}
    starts = dict.fromkeys(range(4), 1)
    for _ in range(3):
        network.hello(2, incarnation=9)
        legacy = network.legacies[-1]
        network.machine = Distribution(network.topology, TIMING, legacy, incarnations=starts)
        network.connect()
    numbers = [sent.frame.seq % 2**32 for sent in network.sent]
    assert len(numbers) == len(set(numbers)) == 8 + 3


def test_the_log_has_the_last_start_of_each_router(tmp_path: Path) -> None:
    path = tmp_path / "controller.jsonl"
    assert read_incarnations(path) == {}
    with ControllerLog(path) as log:
        log.write("listening", {"socket": "x"})
        for node, incarnation in ((0, 1), (1, 1), (0, 5)):
            fields = RouterHello(node=node, incarnation=incarnation, restarted=incarnation > 1)
            log.write("hello", fields)
    assert read_incarnations(path) == {0: 5, 1: 1}
    with path.open("a") as file:
        file.write('{"t_ns":1,"event":"hello","node":1,"inc')  # the disk was full
    assert read_incarnations(path) == {0: 5, 1: 1}
    with ControllerLog(path) as log:
        log.write("hello", RouterHello(node=2, incarnation=7, restarted=False))
    assert read_incarnations(path) == {0: 5, 1: 1, 2: 7}


@pytest.mark.parametrize("rest", ["", "x", "x" * 200_000])
@pytest.mark.parametrize("whole", ["", "{}\n", '{"a": 1}\n{}\n'])
def test_a_log_goes_on_after_its_last_whole_line(tmp_path: Path, whole: str, rest: str) -> None:
    path = tmp_path / "controller.jsonl"
    path.write_text(whole + rest)
    ControllerLog(path).close()
    assert path.read_text() == whole


def test_the_legacy_survives_the_file(tmp_path: Path) -> None:
    former = Network(ring(4))
    former.bring_up()
    path = tmp_path / "state.json"
    assert read_legacy(path) is None
    write_legacy(path, former.legacies[-1])
    assert read_legacy(path) == former.legacies[-1]
    path.write_text("{}")
    assert read_legacy(path) is None
