"""The driver of a workload: all applications of it, in one thread.

The driver is an ordinary client of the routers' application sockets.
"""

from __future__ import annotations

import heapq
import selectors
import time
from array import array
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol, TypeVar

from router.clock.clock import ExperimentClock
from router.clock.meter import NOTHING, Meter
from router.predicates import Message
from router.privacy.application import PrivateApplication
from router.records.applications import ApplicationRecords
from router.runtime import commands
from router.runtime.client import Client, ClientError, Request
from router.runtime.commands import Command
from testbed.experiments.events import Place
from testbed.experiments.workload import Item, Workload
from testbed.support.errors import RunError
from testbed.support.usage import allow_open_files

T = TypeVar("T")
#: Called with experiment seconds since the start, messages sent and deliveries received.
Progress = Callable[[float, int, int], None]
#: Requests of second 0 that may be unanswered at once: routers advertise as they answer.
_INITIAL_WINDOW = 32
#: Wall seconds between two questions whether the network keeps up with the predicates of second 0.
_PACE_S = 0.01
#: Items sent before the sockets are polled.
_BURST = 64
#: Longest time in wall seconds between two checks for a stop and reports of progress.
_TICK_S = 0.2
#: Wall seconds to wait for answers that are due.
_ANSWER_TIMEOUT_S = 30.0


class Opening(Protocol):
    """Paces the predicates of second 0."""

    def keeps_up(self) -> bool:
        """Whether the network keeps up, so that the next predicate may be set."""

    def opened(self) -> None:
        """Is called when routers have confirmed all of them."""


@dataclass(frozen=True)
class TimedAction:
    """Another action on the workload's clock, such as taking down a link; it should be quick."""

    at_s: float
    run: Callable[[], None]


class Driver:
    """The applications of a workload, connected.

    `close` ends the connections, and routers withdraw the predicates; if the captures must not have the
    withdrawal, stop the routers first.

    Args:
        sockets: application sockets by node.
        applications: the applications to run, such as `Workload.applications`.
        private: application -> its private side; None: routers read predicates and messages.

    Raises:
        RunError: a node has no socket or its router does not answer (names the node).
    """

    def __init__(
        self,
        sockets: Mapping[int, Path],
        applications: Iterable[Place],
        private: Mapping[Place, PrivateApplication] | None = None,
    ) -> None:
        self._private = {} if private is None else private
        self.sockets = dict(sockets)
        #: What each application has asked for last: its predicate, and those of its subscriptions by name.
        self._predicates: dict[Place, str] = {}
        self._subscribed: defaultdict[Place, dict[str, str]] = defaultdict(dict)
        #: Applications that are not connected: their router was killed, or they were (`gone`).
        self._away: set[Place] = set()
        self._gone: set[Place] = set()
        wanted = sorted(applications)
        missing = sorted({node for node, _ in wanted if node not in sockets})
        if missing:
            raise RunError(f"no application socket for node {', '.join(map(str, missing))}")
        allow_open_files(len(wanted))
        self.delivered = 0
        #: Messages and publications that routers accepted.
        self._sent = 0
        #: (application, name) -> the request that subscribed; the router numbers subscriptions.
        self._subscriptions: dict[tuple[Place, str], Request[int]] = {}
        self._outstanding = 0
        #: Wall seconds from each request to its answer.
        self.answer_delays_s = array("d")
        self._late: Callable[[float], None] | None = None
        #: Notes the end of a turn, from when it began: `time.monotonic`, `time.thread_time`.
        self._turn_ends: Callable[[float, float], None] | None = None
        self._turn_began = (0.0, 0.0)
        self._stopping = False
        self._clients: dict[Place, Client] = {}
        #: Application -> its unanswered requests, each with `time.monotonic()` when it was made.
        self._waiting: dict[Place, deque[tuple[Request[Any], float]]] = {}
        self._selector = selectors.DefaultSelector()
        try:
            for place in wanted:
                self._connect(place)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Disconnects.

        Routers may have ended.
        """
        self._selector.close()
        for place, client in self._clients.items():
            if place in self._private:
                # What has arrived: the application records what it keeps of it. The router may have ended.
                with suppress(ClientError):
                    while deliveries := client.read_events():
                        self.delivered += len(deliveries)
            client.close()
        self._clients.clear()
        for records in self._records():
            records.close()

    def attend(self, source: Any, ready: Callable[[], None]) -> None:
        """Calls `ready` whenever a socket can be read while `play` or `drain` waits.

        Args:
            source: an object with `fileno()`.
        """
        self._selector.register(source, selectors.EVENT_READ, ready)

    def ignore(self, source: Any) -> None:
        """Ends `attend`."""
        self._selector.unregister(source)

    def lose(self, node: int) -> None:
        """Forgets the connections of a node, whose router was killed.

        Requests without an answer are lost, and the items of its applications are left out until `regain`.
        """
        for place in [place for place in self._clients if place[0] == node]:
            self._disconnect(place)

    def regain(self, node: int) -> None:
        """Connects the applications of a node again.

        They ask for the predicates that they had, and for those of the items that were left out.

        Raises:
            RunError: the router does not answer.
        """
        for place in sorted(place for place in self._away - self._gone if place[0] == node):
            self._connect(place)
            self._away.discard(place)
            if (predicate := self._predicates.get(place)) is not None:
                self._ask(place, "set_predicate", predicate=predicate)
            for subscription, text in self._subscribed[place].items():
                self._ask(place, "subscribe", subscription, predicate=text)

    def kill(self, place: Place) -> None:
        """Ends the connection of an application as its death would.

        What is on its way to it is not read, and its further items are left out.
        """
        if place in self._clients:
            self._disconnect(place)
        self._gone.add(place)
        self._away.add(place)

    def _disconnect(self, place: Place) -> None:
        client = self._clients.pop(place)
        self._selector.unregister(client)
        client.close()
        self._outstanding -= len(self._waiting[place])
        self._waiting[place].clear()
        self._away.add(place)

    def _records(self) -> list[ApplicationRecords]:
        """The records that the applications keep, each file once."""
        kept = (each.records for each in self._private.values() if each.records is not None)
        return list({id(records): records for records in kept}.values())

    def stop(self) -> None:
        """Makes `play` and `drain` return soon, until `resume`.

        A signal handler may call it.
        """
        self._stopping = True

    def resume(self) -> None:
        """Revokes `stop`, so that `drain` can receive the remaining deliveries."""
        self._stopping = False

    def play(
        self,
        workload: Workload,
        clock: ExperimentClock,
        duration_s: float,
        progress: Progress | None = None,
        actions: Sequence[TimedAction] = (),
        zero_s: float | None = None,
        meter: Meter | None = None,
        opening: Opening | None = None,
    ) -> float:
        """Sends each item when it is due on the experiment clock, until `duration_s` has passed.

        The predicates of second 0 go first; no other item is sent before they are confirmed. Second 0
        is that of the first predicate, so that their duration appears as lateness of later items.

        Args:
            duration_s: experiment seconds.
            progress: called about five times a wall second.
            actions: done at their times, between items.
            zero_s: second 0 of the workload in seconds of the clock; None: now.
            meter: is given the lateness of the items, and of the answers.
            opening: paces the predicates of second 0; None: as fast as routers confirm them.

        Returns:
            The greatest lateness: wall seconds from the time at which an item was due to its sending, without
            the items of second 0, which are paced.

        Raises:
            RunError: a router closed its socket, refused a request or did not answer (names the node).
        """
        time_of = attrgetter("at_s")
        agenda: Iterator[Item | TimedAction] = heapq.merge(
            workload.items, sorted(actions, key=time_of), key=time_of
        )
        # Before second 0: to generate a workload takes time.
        entry = next(agenda, None)
        meter = Meter() if meter is None else meter
        self._late = partial(meter.late, clock=clock)
        self._turn_ends = partial(meter.ends_turn, work=NOTHING, clock=clock)
        self._turn_began = time.monotonic(), time.thread_time()
        zero_s = clock.now() if zero_s is None else zero_s
        while clock.now() < zero_s and not self._stopping:
            self._turn(clock.timeout(zero_s))
        entry = self._set_first_predicates(entry, agenda, opening)
        lateness_max = next_report = 0.0
        while not self._stopping:
            now_s = clock.now() - zero_s
            for _ in range(_BURST):
                if entry is None or entry.at_s > now_s:
                    break
                lateness_max = max(lateness_max, clock.waited(zero_s + entry.at_s))
                meter.overdue(zero_s + entry.at_s, clock)
                if isinstance(entry, Item):
                    self._request(entry)
                else:
                    entry.run()
                entry = next(agenda, None)
            if progress and time.monotonic() >= next_report:
                next_report = time.monotonic() + _TICK_S
                progress(now_s, self._sent, self.delivered)
            due_s = duration_s if entry is None else min(entry.at_s, duration_s)
            if now_s >= duration_s and (entry is None or entry.at_s > now_s):
                break
            self._turn(clock.timeout(zero_s + due_s))
        self._await_answers()
        # What comes after the workload is no turn.
        self._turn_ends = None
        return lateness_max

    def drain(self, until: Callable[[], bool], timeout_s: float) -> bool:
        """Receives deliveries until `until()` is true.

        Args:
            until: called about fifty times a second; for instance, whether the routers are quiet.
            timeout_s: wall seconds to wait.

        Returns:
            Whether `until` became true (False: the time has passed, or `stop` was called).

        Raises:
            RunError: a router closed its socket (names the node).
        """
        deadline = time.monotonic() + timeout_s
        quiet = until()
        while not quiet and not self._stopping and time.monotonic() < deadline:
            self._turn(0.02)
            quiet = until()
        return quiet

    def _connect(self, place: Place) -> None:
        node, app = place
        path = self.sockets[node]
        try:
            client = Client(path, app, key=self._private.get(place))
        except ClientError as error:
            raise RunError(f"node {node}: {error}") from error
        self._clients[place] = client
        self._waiting[place] = deque()
        if client.node != node:
            raise RunError(f"node {node}: the router at {path} is that of node {client.node}")
        self._selector.register(client, selectors.EVENT_READ, place)

    def _set_first_predicates(
        self, entry: Item | TimedAction | None, agenda: Iterator[Item | TimedAction], opening: Opening | None
    ) -> Item | TimedAction | None:
        """Sets the predicates of second 0, from `entry` on; returns what comes next, if anything does."""
        while isinstance(entry, Item) and entry.at_s <= 0 and not self._stopping:
            if entry.action != "set_predicate":
                break
            while opening is not None and not opening.keeps_up() and not self._stopping:
                self._turn(_PACE_S)
            self._request(entry)
            self._await_answers(at_most=_INITIAL_WINDOW - 1)
            entry = next(agenda, None)
        self._await_answers()
        if opening is not None:
            opening.opened()
        return entry

    def _request(self, item: Item) -> None:
        self._remember(item)
        if (item.node, item.app) in self._away:
            return
        try:
            self._ask(item.place, item.action, **item.content)
        except (ClientError, ValueError) as error:
            raise RunError(f"node {item.node}: {item.action}: {error}") from error

    def _remember(self, item: Item) -> None:
        """Keeps what an application would ask for again, of a router that knows nothing of it."""
        place = item.node, item.app
        if item.action == "set_predicate" and item.predicate is not None:
            self._predicates[place] = item.predicate
        elif item.action == "subscribe" and item.predicate is not None:
            self._subscribed[place][str(item.subscription)] = item.predicate
        elif item.action == "unsubscribe":
            self._subscribed[place].pop(str(item.subscription), None)

    def _ask(self, place: Place, action: str, subscription: str | None = None, **content: Any) -> None:
        """Makes a request of an item (`Item.content`); returns before the answer."""
        make, key = getattr(commands, action), (place, str(subscription))
        if "attributes" in content:
            self._start(place, make(Message(content["attributes"])))
        elif subscription is None:
            self._start(place, make(**content))
        elif content:
            self._subscriptions[key] = self._start(place, make(**content))
        else:
            self._start(place, make(self._number_of(place, subscription)))
            if action != "refresh":
                del self._subscriptions[key]

    def _start(self, place: Place, command: Command[T]) -> Request[T]:
        request = self._clients[place].start(command)
        self._waiting[place].append((request, time.monotonic()))
        self._outstanding += 1
        if self._clients[place].wants_write:
            self._watch(place)
        return request

    def _number_of(self, place: Place, subscription: str) -> int:
        request = self._subscriptions.get((place, subscription))
        if request is None:
            raise ValueError(f"no subscription {subscription!r} is in force")
        if request.answer is None:
            self._await_answers()
        return self._clients[place].value(request)

    def _watch(self, place: Place) -> None:
        client = self._clients[place]
        mask = selectors.EVENT_READ | (selectors.EVENT_WRITE if client.wants_write else 0)
        self._selector.modify(client, mask, place)

    def _turn(self, wait_s: float) -> None:
        """Waits for routers, at most `wait_s` and at most a tick, and handles their answers and
        deliveries."""
        for records in self._records() if self._private else ():
            records.tick(time.monotonic())
        if self._turn_ends is not None:
            self._turn_ends(*self._turn_began)
        ready = self._selector.select(min(max(wait_s, 0), _TICK_S))
        self._turn_began = time.monotonic(), time.thread_time()
        for key, mask in ready:
            if callable(key.data):
                key.data()
                continue
            place: Place = key.data
            client = self._clients[place]
            try:
                if mask & selectors.EVENT_WRITE:
                    client.flush()
                    self._watch(place)
                if mask & selectors.EVENT_READ:
                    self.delivered += len(client.read_events())
            except ClientError as error:
                raise RunError(f"node {place[0]}: {error}") from error
            self._take_answers(place)

    def _take_answers(self, place: Place) -> None:
        waiting = self._waiting[place]
        # A router answers in the order of the requests.
        while waiting and (answer := waiting[0][0].answer) is not None:
            request, asked = waiting.popleft()
            delay_s = time.monotonic() - asked
            self.answer_delays_s.append(delay_s)
            if self._late is not None:
                self._late(delay_s)
            self._outstanding -= 1
            if not answer.get("ok"):
                raise RunError(f"node {place[0]}: {request.command.op} refused: {answer.get('error')}")
            self._sent += request.command.op in ("send_message", "publish")

    def _await_answers(self, at_most: int = 0) -> None:
        deadline = time.monotonic() + _ANSWER_TIMEOUT_S
        while self._outstanding > at_most:
            if time.monotonic() >= deadline:
                late = [f"{node} ({len(queue)})" for (node, _), queue in self._waiting.items() if queue]
                raise RunError(
                    f"no answer in {_ANSWER_TIMEOUT_S:g} s from node (requests): {', '.join(late)}"
                )
            self._turn(deadline - time.monotonic())
