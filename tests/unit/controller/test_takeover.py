"""A controller that is started after another controller."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from captures.rundir.controller import ControllerLog, RouterHello
from captures.rundir.epochs import NETWORK_EVENTS
from router.records.json_file import write_json
from router.wire.frames import Frame, FrameType, Hello
from testbed.controller.distribution import Distribution
from testbed.controller.events import Bequeath, FrameReceived, Log, PortChanged, SendFrame, SwitchConnected
from testbed.controller.liveness import read_incarnations, read_legacy
from tests.support.controller_network import TIMING, Network, acknowledgement, brought_up
from topos.generators import ring


@pytest.fixture
def former() -> Network:
    return brought_up(ring(4))


def take_over(former: Network) -> Network:
    """A controller that is started with what another one has left and logged, in the same network."""
    network = Network(former.topology)
    legacy = former.legacies[-1] if former.legacies else None
    starts = {int(str(each["node"])): int(str(each["incarnation"])) for each in former.events("hello")}
    network.machine = Distribution(former.topology, TIMING, legacy, incarnations=starts)
    network.now = former.now
    return network


def test_a_controller_takes_over_without_an_epoch(former: Network) -> None:
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


def test_a_link_that_went_down_meanwhile_makes_an_epoch(former: Network) -> None:
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


def test_a_switch_that_lost_its_rules_meanwhile_makes_an_epoch(former: Network) -> None:
    network = take_over(former)
    for node in range(4):
        network.tell(SwitchConnected(node, network.ports(node), emptied=node == 2))
    network.advance(1)
    assert network.events("switch_connected") == [{"node": 2}]
    assert len(network.events("switch_taken_over")) == 3
    assert [event["epoch"] for event in network.events("committed")] == [2]


def test_a_link_that_was_down_already_makes_none(former: Network) -> None:
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


def test_a_router_that_restarted_meanwhile_makes_an_epoch(former: Network) -> None:
    network = take_over(former)
    network.connect()
    network.hello(2, incarnation=1)
    assert network.events("hello") == []
    network.hello(2, incarnation=2)
    network.advance(1)
    assert network.events("hello")[0]["restarted"] is True
    assert network.frames(FrameType.COMMIT, 2) == [0, 1, 2, 3]


def test_a_switch_that_stays_away_is_left_out(former: Network) -> None:
    network = take_over(former)
    for node in (0, 1, 3):
        network.tell(SwitchConnected(node, network.ports(node)))
    network.advance(30)
    assert network.events("switch_disconnected") == [{"node": 2}]
    assert network.events("epoch_started")[0]["down_nodes"] == [2]


def test_a_controller_killed_within_an_epoch_is_followed_by_the_next_epoch(former: Network) -> None:
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


def test_a_controller_killed_after_a_hello_knows_the_start_of_the_router(former: Network) -> None:
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
    network = brought_up(ring(4))
    hello = FrameReceived(2, Frame(FrameType.HELLO, 2, 0, 0, 1, Hello(9)))
    (question,) = network.machine.handle(hello, network.now)
    assert isinstance(question, SendFrame)
    actions = network.machine.handle(acknowledgement(question.frame), network.now)
    kinds = [type(action) for action in actions]
    assert kinds.index(Bequeath) < kinds.index(Log)
    # Killed between the two, it has left a start that is gone, and the router repeats its HELLO.
    former = brought_up(ring(4))
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
    network = brought_up(ring(4))
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
    with closing(ControllerLog(path)) as log:
        log.write("listening", {"socket": "x"})
        for node, incarnation in ((0, 1), (1, 1), (0, 5)):
            fields = RouterHello(node=node, incarnation=incarnation, restarted=incarnation > 1)
            log.write("hello", fields)
    assert read_incarnations(path) == {0: 5, 1: 1}
    with path.open("a") as file:
        file.write('{"t_ns":1,"event":"hello","node":1,"inc')  # the disk was full
    assert read_incarnations(path) == {0: 5, 1: 1}
    with closing(ControllerLog(path)) as log:
        log.write("hello", RouterHello(node=2, incarnation=7, restarted=False))
    assert read_incarnations(path) == {0: 5, 1: 1, 2: 7}


@pytest.mark.parametrize("rest", ["", "x", "x" * 200_000])
@pytest.mark.parametrize("whole", ["", "{}\n", '{"a": 1}\n{}\n'])
def test_a_log_goes_on_after_its_last_whole_line(tmp_path: Path, whole: str, rest: str) -> None:
    path = tmp_path / "controller.jsonl"
    path.write_text(whole + rest)
    ControllerLog(path).close()
    assert path.read_text() == whole


def test_the_legacy_survives_the_file(former: Network, tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    assert read_legacy(path) is None
    write_json(path, former.legacies[-1])
    assert read_legacy(path) == former.legacies[-1]
    path.write_text("{}")
    assert read_legacy(path) is None
