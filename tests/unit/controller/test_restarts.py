"""The controller's state machine and routers that are silent, restart, or are in an epoch of their own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from router.protocol.broadcast import EPOCH_LEAD
from router.wire.frames import Commit, FrameType
from router.wire.header import HOST_PORT
from testbed.controller.events import PortChanged, Tick
from tests.support.controller_network import TIMING, Network, acknowledgement, brought_up
from topos.generators import line, ring


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
    network = brought_up(ring(4))
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
    network = brought_up(ring(8), replace(TIMING, window=window))
    network.advance(1)
    network.deaf = {3}
    network.tell(PortChanged(0, 1, False))
    network.advance(waited_s + 3 * TIMING.settle_s)
    assert network.events("router_unresponsive") == [{"node": 3, "waited_s": waited_s}]
    last = network.events("committed")[-1]
    assert (last["epoch"], last["routers"]) == (3, 7)


def test_a_controller_that_was_stopped_gives_nobody_up_before_it_reads_the_answers() -> None:
    network = brought_up(ring(4))
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
    network = brought_up(ring(4))
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
    network = brought_up(ring(4))
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
    network = brought_up(ring(8))
    network.deaf = {2, 3}
    network.tell(PortChanged(0, 1, False))
    network.advance(TIMING.patience_s)
    network.tell(acknowledgement([sent.frame for sent in network.sent if sent.node == 3][-1]))
    network.advance(TIMING.patience_s - TIMING.settle_s)
    assert network.events("router_unresponsive") == []
    network.advance(2 * TIMING.settle_s)
    assert network.events("router_unresponsive") == [{"node": 2, "waited_s": TIMING.patience_s}]


def test_answers_of_a_router_that_was_given_up_make_few_epochs_for_all() -> None:
    network = brought_up(ring(4), replace(TIMING, retry_s=0.5, patience_s=0.5))
    network.deaf = {2}
    network.tell(PortChanged(0, 1, False))
    start = network.now
    while network.now < start + TIMING.restart_s:
        network.advance(0.5 + 3 * TIMING.settle_s)
        network.tell(acknowledgement([sent.frame for sent in network.sent if sent.node == 2][-1]))
    assert len(network.events("router_responsive")) == TIMING.restarts


def test_a_restart_of_a_router_that_was_given_up_counts_once() -> None:
    network = brought_up(ring(4), replace(TIMING, retry_s=0.5, patience_s=0.5))
    for start in range(2, 2 + TIMING.restarts):
        network.deaf = {2}
        network.tell(PortChanged(0, 1, start % 2 == 0), PortChanged(0, 1, start % 2 == 1))
        network.advance(0.5 + 3 * TIMING.settle_s)
        network.deaf = set()
        network.hello(2, incarnation=start)
        network.advance(0.5)
    assert len(network.events("router_unresponsive")) == TIMING.restarts
    assert network.events("hello")[-1]["incarnation"] == 1 + TIMING.restarts
    assert network.machine.refused == {}


def test_a_restart_makes_a_new_epoch_in_which_all_advertise_again() -> None:
    network = brought_up(line(3))
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
    network = brought_up(ring(4))
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


@pytest.mark.parametrize("ahead", [1, 1000, EPOCH_LEAD])
def test_a_router_that_is_ahead_is_brought_in_by_a_higher_epoch(ahead: int) -> None:
    network = brought_up(line(3))
    network.ahead = {1: 2 + ahead}
    network.tell(PortChanged(0, 1, False))
    network.advance(1)
    assert [event["epoch"] for event in network.events("committed")] == [1, 3 + ahead]
    assert sorted(network.frames(FrameType.COMMIT, 3 + ahead)) == [0, 1, 2]
    assert network.machine.refused == {(1, "other_epoch"): 1}
    assert network.machine.settled


@pytest.mark.parametrize("foreign", [2**32 - 1, EPOCH_LEAD + 100])
def test_a_router_that_is_too_far_ahead_is_left_out_until_it_restarts(foreign: int) -> None:
    network = brought_up(line(3))
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
    network = brought_up(line(3))
    for incarnation in range(2, 42):
        network.hello(1, incarnation=incarnation)
        network.advance(0.1)
    assert network.machine.refused == {(1, "hello_rate"): 40 - TIMING.restarts}
    assert [event["epoch"] for event in network.events("committed")] == [1, 2, 3, 4]
    assert len(network.events("hello")) == 3 + TIMING.restarts
    # A router that has really restarted repeats its HELLO.
    network.advance(TIMING.restart_s)
    network.hello(1, incarnation=41)
    network.advance(1)
    assert network.events("committed")[-1]["epoch"] == 5
    assert network.machine.settled


def test_acknowledgements_of_foreign_epochs_make_few_epochs_for_all() -> None:
    network = brought_up(line(3))
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
