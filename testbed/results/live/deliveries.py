"""Deliveries and false negatives so far: the oracle's rules applied to growing logs.

A message is judged once the log extends past its sending by the oracle's window and a margin: no later change
can alter the answer. Until then the message counts as open. The verdict at the end of the run is computed
from the whole logs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from captures.rundir.applications import Recorded
from captures.rundir.controller import ControllerEvent
from router.records.applications import MessageDelivered
from testbed.results.oracle.connectivity import HopLimit, connectivity, tree_changes
from testbed.results.oracle.decide import judge
from testbed.results.oracle.history import Application, History, take_record
from topos import Topology

#: Wall seconds added to the window, since confirmations and deliveries are logged after they were made.
_MARGIN_S = 1.0
#: A message at an application: source, seq, application.
Pair = tuple[int, int, Application]


@dataclass
class Deliveries:
    """The messages that applications sent and received, and the deliveries that the oracle expects.

    Args:
        window_s: `oracle.in_flight_window_s`, wall seconds.
        hop_limit: of the messages; None: messages reach every node that is connected.

    Attributes:
        sent: messages; `judged` of them are no longer open.
        delivered: deliveries; `duplicates` of them are repeated.
        expected: decided and expected deliveries of judged messages; `made` of them were made.
        undecided: pairs (message, application) that are not decided, because of a change.
        missing: pair -> time at which the message was sent (wall clock, ns), of expected deliveries that were
            not made: false negatives so far. A late delivery removes its pair.
        spurious: deliveries that were made and are decided and not expected.
    """

    window_s: float
    network: Topology
    hop_limit: HopLimit | None = None
    sent: int = 0
    judged: int = 0
    delivered: int = 0
    duplicates: int = 0
    expected: int = 0
    undecided: int = 0
    missing: dict[Pair, int] = field(default_factory=dict)
    spurious: int = 0
    _history: History = field(default_factory=History)
    _events: list[ControllerEvent] = field(default_factory=list)
    _made: dict[tuple[int, int], set[Application]] = field(default_factory=dict)
    #: Judged message -> the applications that may receive it.
    _allowed: dict[tuple[int, int], set[Application]] = field(default_factory=dict)

    def take_applications(self, records: Iterable[Recorded]) -> None:
        """Adds events of the applications: those of a node in order of time."""
        for recorded in records:
            record = recorded.event
            if record["event"] == "deliver":
                self._deliver(record)
                continue
            take_record(self._history, recorded)
            if record["event"] == "send_message":
                self.sent += 1

    def take_controller(self, events: Iterable[ControllerEvent]) -> None:
        """Adds events of the controller, in the order of its log."""
        fresh = list(events)
        if fresh:
            self._events += fresh
            self._history.tree_changes = tree_changes(self._events)
            self._history.connectivity = connectivity(self._events, self.network, self.hop_limit)

    def judge_until(self, now_ns: int) -> None:
        """Judges the messages whose answer can no longer change.

        Args:
            now_ns: wall clock up to which the logs have been taken.
        """
        before_ns = now_ns - round((self.window_s + _MARGIN_S) * 1e9)
        due = [sending for sending in self._history.sendings if sending.confirmed_ns < before_ns]
        if not due:
            return
        self._history.sendings = [one for one in self._history.sendings if one.confirmed_ns >= before_ns]
        for timeline in self._history.timelines.values():
            timeline.settings.sort(key=lambda setting: setting.confirmed_ns)
        part = History(
            self._history.timelines,
            sorted(due, key=lambda sending: sending.requested_ns),
            self._history.tree_changes,
            self._history.connectivity,
        )
        allowed: dict[tuple[int, int], set[Application]] = {(one.source, one.seq): set() for one in due}
        for answer in judge(part, self.window_s):
            message = (answer["source"], answer["seq"])
            application = Application(answer["node"], answer["app"])
            allowed[message].add(application)
            if not answer["decided"]:
                self.undecided += 1
            elif answer["expected"]:
                self.expected += 1
                if application not in self._made.get(message, ()):
                    self.missing[*message, application] = answer["sent_ns"]
        for message, applications in allowed.items():
            self.spurious += len(self._made.get(message, set()) - applications)
        self._allowed |= allowed
        self.judged += len(due)

    @property
    def made(self) -> int:
        """Returns the number of expected deliveries of judged messages that were made."""
        return self.expected - len(self.missing)

    def _deliver(self, record: MessageDelivered) -> None:
        message = (record["source"], record["seq"])
        application = Application(record["node"], record["app"])
        self.delivered += 1
        made = self._made.setdefault(message, set())
        if application in made:
            self.duplicates += 1
            return
        made.add(application)
        pair = (*message, application)
        if pair in self.missing:
            del self.missing[pair]
        elif message in self._allowed and application not in self._allowed[message]:
            self.spurious += 1
