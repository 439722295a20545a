"""The driver against real application sockets of an ideal network, without delay or loss."""

from __future__ import annotations

import json
import selectors
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from captures.rundir import RunLayout
from captures.rundir.oracle import ORACLE
from router.clock.clock import ExperimentClock
from router.predicates import Predicate, matches
from router.protocol.core.router import Router
from router.protocol.events import (
    Accepted,
    Action,
    ApplicationGone,
    Deliver,
    Event,
    Refused,
    SendMessage,
    SetPredicate,
)
from router.protocol.options import RouterOptions
from router.runtime.applications import Applications
from testbed.experiments.events import APPLICATION
from testbed.experiments.workload import Item, Workload
from testbed.experiments.workload.driver import Driver, TimedAction
from testbed.results.oracle.decide import judge
from testbed.results.oracle.history import read_history
from testbed.support.errors import RunError
from tests.support.applications import application_events, records_in
from tests.support.polling import TIMEOUT

STOP = 255


class AnsweredClock(ExperimentClock):
    """A clock that stands still while a request is not answered, and goes on by a second a look at most.

    So each item of a workload finds what earlier ones have done, however slow the machine is. The clock is
    never faster than its rate.
    """

    def __init__(self, rate: float, driver: Driver) -> None:
        super().__init__(rate)
        self._driver = driver
        self._now_s = 0.0
        self._looked_at = time.monotonic()

    def now(self) -> float:
        since, self._looked_at = self._looked_at, time.monotonic()
        if not self._driver._outstanding:
            self._now_s += min(1.0, (self._looked_at - since) * self.rate)
        return self._now_s

    def waited(self, since: float) -> float:
        return max(0.0, self.now() - since) / self.rate

    def timeout(self, deadline: float) -> float:
        return min(1.0, max(0.0, deadline - self.now())) / self.rate


class IdealNetwork(threading.Thread):
    """The application sockets of `count` nodes in one thread; matching applications get a message at once."""

    def __init__(self, folder: Path, count: int) -> None:
        super().__init__(daemon=True)
        self.sockets = {node: folder / f"r{node}.sock" for node in range(count)}
        self.refuse: str | None = None
        self._predicates: dict[tuple[int, int], Predicate] = {}
        self._sent = dict.fromkeys(range(count), 0)
        self._selector = selectors.DefaultSelector()
        #: A byte is the number of a router that goes away, or `STOP`.
        self._orders, self._orderer = socket.socketpair()
        self._selector.register(self._orders, selectors.EVENT_READ, None)
        self.nodes = {
            node: Applications(
                *(Router(node, RouterOptions(), None, 1), path, self._selector, self._handler(node)),
                *(lambda _verbose: {}, records_in(folder, node)),
            )
            for node, path in self.sockets.items()
        }
        self.start()

    def close_router(self, node: int) -> None:
        self._orderer.send(bytes([node]))

    def stop(self) -> None:
        """Serves what was asked, ends the service and completes the records; a second call does nothing."""
        if self.is_alive():
            self._orderer.send(bytes([STOP]))
            self.join(TIMEOUT)
            assert not self.is_alive()
            for each in (self._selector, self._orders, self._orderer):
                each.close()

    def run(self) -> None:
        orders = b""
        while STOP not in orders:
            # What was asked before an order comes with it at the latest.
            orders = b""
            for key, mask in self._selector.select():
                if key.data is None:
                    orders = self._orders.recv(16)
                else:
                    key.data(mask)
            for applications in self.nodes.values():
                applications.serve(float("inf"))
            for node in orders:
                if node != STOP:
                    self.nodes.pop(node).close()
        for applications in self.nodes.values():
            applications.close()

    def _handler(self, node: int) -> Any:
        def handle(event: Event) -> list[Action]:
            match event:
                case SetPredicate(app, predicate):
                    self._predicates[node, app] = predicate
                case ApplicationGone(app):
                    self._predicates.pop((node, app), None)
                case SendMessage(app, message):
                    if self.refuse:
                        return [Refused(app, self.refuse)]
                    seq = self._sent[node] = self._sent[node] + 1
                    for target, applications in self.nodes.items():
                        apps = tuple(
                            number
                            for (at, number), predicate in self._predicates.items()
                            if at == target and matches(predicate, message)
                        )
                        if apps:
                            applications.perform([Deliver(apps, node, seq, message)])
                    return [Accepted(app, node, seq)]
            return []

        return handle


@pytest.fixture
def network(tmp_path: Path) -> Iterator[IdealNetwork]:
    ideal = IdealNetwork(tmp_path, 4)
    yield ideal
    ideal.stop()


def want(at_s: float, node: int, predicate: str) -> Item:
    return Item(at_s, node, "set_predicate", predicate=predicate)


def send(at_s: float, node: int, **attributes: int) -> Item:
    return Item(at_s, node, "send_message", attributes=attributes)


def test_a_workload_is_played_in_time_and_logged(network: IdealNetwork, tmp_path: Path) -> None:
    workload = Workload(
        (
            want(0, 1, "a < 5"),
            want(0, 2, "a > 2"),
            send(6, 0, a=3),
            send(12, 0, a=1),
            want(18, 1, "a any integer"),
            send(24, 3, a=9),
        )
    )
    reports: list[tuple[float, int, int]] = []
    with closing(Driver(network.sockets, workload.applications)) as driver:
        started = time.monotonic()
        lateness_max_s = driver.play(
            workload,
            AnsweredClock(60, driver),
            duration_s=36,
            progress=lambda *report: reports.append(report),
        )
        elapsed = time.monotonic() - started
        assert driver.drain(lambda: driver.delivered == 5, timeout_s=TIMEOUT)
    assert elapsed >= 0.6
    assert lateness_max_s > 0
    assert reports and reports == sorted(reports)

    network.stop()
    log = application_events(tmp_path)
    assert {line["app"] for line in log} == {"workload"}
    sent = {(e["source"], e["seq"]): e for e in log if e["event"] == "send_message"}
    assert [e["attributes"] for e in sent.values()] == [{"a": 3}, {"a": 1}, {"a": 9}]
    got = {(e["source"], e["seq"], e["node"]) for e in log if e["event"] == "deliver"}
    assert got == {(0, 1, 1), (0, 1, 2), (0, 2, 1), (3, 1, 1), (3, 1, 2)}
    settings = [e for e in log if e["event"] == "set_predicate" and e["node"] == 1]
    assert [e["predicate"] for e in settings] == ["a < 5", "a any integer"]
    # Items go out when they are due: 0.1 s of wall time after one another.
    first, second, _ = (e["requested_ns"] for e in sent.values())
    assert (second - first) / 1e9 > 0.05


def test_applications_of_a_router_that_restarts_ask_again_and_killed_ones_do_not(
    network: IdealNetwork, tmp_path: Path
) -> None:
    workload = Workload(
        (
            want(0, 1, "a < 5"),
            want(0, 2, "a > 0"),
            Item(2, 1, "subscribe", predicate="a = 7", subscription="seven"),
            Item(2, 1, "subscribe", predicate="a = 8", subscription="eight"),
            send(8, 1, a=1),  # left out: the router is away
            want(9, 1, "a > 10"),
            Item(9, 1, "unsubscribe", subscription="eight"),
            *(send(20 + at, 0, a=a) for at, a in enumerate((1, 7, 8, 11))),
        )
    )
    with closing(Driver(network.sockets, workload.applications)) as driver:
        actions = [
            TimedAction(6, lambda: driver.lose(1)),
            TimedAction(6, lambda: driver.kill((2, "workload"))),
            TimedAction(12, lambda: driver.regain(1)),
            TimedAction(12, lambda: driver.regain(2)),
        ]
        driver.play(workload, AnsweredClock(60, driver), duration_s=30, actions=actions)
        assert driver.drain(lambda: driver.delivered == 2, timeout_s=TIMEOUT)
    network.stop()
    log = application_events(tmp_path)
    assert sum(e["event"] == "send_message" for e in log) == 4
    assert {(e["seq"], e["node"]) for e in log if e["event"] == "deliver"} == {(2, 1), (4, 1)}
    first = next(position for position, e in enumerate(log) if e["node"] == 1 and e["event"] == "disconnect")
    again = [e for e in log[first:] if e["node"] == 1 and "predicate" in e]
    assert [(e["event"], e["predicate"]) for e in again] == [
        ("set_predicate", "a > 10"),
        ("subscribe", "a = 7"),
    ]


def test_subscriptions_of_a_workload_come_and_go(network: IdealNetwork, tmp_path: Path) -> None:
    """Applications of a node are connections of their own, whose subscriptions may have one name."""

    def subscribe(at_s: float, name: str, predicate: str, app: str = "workload") -> Item:
        return Item(at_s, 1, "subscribe", predicate=predicate, subscription=name, app=app)

    workload = Workload(
        (
            want(0, 1, "a = 1"),
            subscribe(6, "low", "a < 5"),
            subscribe(6, "high", "a > 7"),
            subscribe(6, "low", "a = 3", "board"),
            *(send(12, 0, a=a) for a in (1, 3, 6, 9)),
            # The subscription is revoked before its number is known.
            subscribe(18, "other", "a = 6"),
            Item(18, 1, "unsubscribe", subscription="other"),
            Item(18, 1, "unsubscribe", subscription="low"),
            *(Item(24, 0, "send_message", attributes={"a": a}, app="feed") for a in (1, 3, 6, 9)),
        )
    )
    with closing(Driver(network.sockets, workload.applications)) as driver:
        driver.play(workload, AnsweredClock(60, driver), duration_s=30)
        assert driver.drain(lambda: driver.delivered == 7, timeout_s=TIMEOUT)
        # Its name is free; no other subscription is left to revoke.
        with pytest.raises(RunError, match="node 1: unsubscribe: no subscription 'low' is in force"):
            driver.play(Workload((Item(0, 1, "unsubscribe", subscription="low"),)), ExperimentClock(60), 1)
    network.stop()
    ORACLE.write(RunLayout(tmp_path), judge(read_history(RunLayout(tmp_path)), 0.0))
    answers = map(json.loads, RunLayout(tmp_path).oracle.read_text().splitlines())
    log = application_events(tmp_path)
    got = sorted((e["app"], e["node"], e["source"], e["seq"]) for e in log if e["event"] == "deliver")
    assert got == sorted((o["app"], o["node"], o["source"], o["seq"]) for o in answers if o["expected"])
    assert [(app, seq) for app, _, _, seq in got] == [
        *(("board", seq) for seq in (2, 6)),
        *(("workload", seq) for seq in (1, 2, 4, 5, 8)),
    ]
    sent = [e["app"] for e in log if e["event"] == "send_message"]
    assert sent == ["workload"] * 4 + ["feed"] * 4
    assert sum("subscribe" in e["event"] for e in log) == 6


def test_thousands_of_messages_a_second(network: IdealNetwork) -> None:
    count = 4000
    workload = Workload((want(0, 1, "a any integer"), *(send(0.5, n % 4, a=n) for n in range(count))))
    with closing(Driver(network.sockets, workload.applications)) as driver:
        driver.play(workload, ExperimentClock(1), duration_s=0.5)
        assert driver.drain(lambda: driver.delivered == count, timeout_s=TIMEOUT)


def test_stop_ends_a_play_early(network: IdealNetwork, tmp_path: Path) -> None:
    with closing(Driver(network.sockets, [(0, APPLICATION)])) as driver:
        timer = threading.Timer(0.3, driver.stop)
        timer.start()
        started = time.monotonic()
        driver.play(Workload((send(3600, 0, a=1),)), ExperimentClock(1), duration_s=7200)
        timer.join()
        assert not driver.drain(lambda: False, timeout_s=60)
        assert time.monotonic() - started < 60
    network.stop()
    assert "send_message" not in {e["event"] for e in application_events(tmp_path)}


def test_a_router_that_goes_away_is_named(network: IdealNetwork) -> None:
    workload = Workload((want(0, 2, "a = 1"), send(3600, 0, a=1)))
    timer = threading.Timer(0.2, network.close_router, [2])
    with closing(Driver(network.sockets, workload.applications)) as driver:
        timer.start()
        with pytest.raises(RunError, match=r"^node 2: .*closed the connection"):
            driver.play(workload, ExperimentClock(1), duration_s=3600)
    timer.join()


def test_a_refusal_is_an_error_with_its_reason(network: IdealNetwork) -> None:
    network.refuse = "too large"
    with (
        closing(Driver(network.sockets, [(3, APPLICATION)])) as driver,
        pytest.raises(RunError, match=r"node 3: send_message refused: .*too large"),
    ):
        driver.play(Workload((send(0, 3, a=1),)), ExperimentClock(1), duration_s=1)


def test_unknown_nodes_and_dead_sockets_are_named(network: IdealNetwork, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no application socket for node 7, 9"):
        Driver(network.sockets, [(node, APPLICATION) for node in (1, 7, 9)])
    with pytest.raises(RunError, match=r"node 1: .*No such file"):
        Driver({1: tmp_path / "absent.sock"}, [(1, APPLICATION)])
    with pytest.raises(RunError, match=r"node 1: the router at .* is that of node 0"):
        Driver({1: network.sockets[0]}, [(1, APPLICATION)])


def test_leaving_withdraws_the_predicates(network: IdealNetwork, tmp_path: Path) -> None:
    with closing(Driver(network.sockets, [(0, APPLICATION), (1, APPLICATION)])) as driver:
        driver.play(Workload((want(0, 1, "a = 1"),)), ExperimentClock(100), duration_s=1)
    network.stop()
    assert [(e["node"], e["event"]) for e in application_events(tmp_path)][-1] == (1, "disconnect")
