"""The workload's applications in virtual time, and the records of what they do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from router.content.base import Content
from router.predicates.encoded.model import BloomMessage
from router.predicates.model import Message, Value
from router.predicates.parser import parse_predicate
from router.privacy.member import Member
from router.protocol.attention.events import (
    DeliverPublication,
    Refresh,
    Register,
    Registered,
    Unregister,
    Upload,
    Uploaded,
)
from router.protocol.events import (
    Accepted,
    Deliver,
    Event,
    Refused,
    SendMessage,
    ServiceAction,
    SetPredicate,
)
from router.protocol.services.subscriptions import Subscriptions
from router.records.applications import ApplicationRecords
from testbed.errors import RunError
from testbed.sim.clock import EPOCH_NS, NS, Agenda
from testbed.workload.lookahead import Lookahead
from testbed.workload.model import Workload

#: Name of the application on every node, as in an emulation, and its number at its router.
APPLICATION = "workload"
_NUMBER = 1
#: Virtual time between the predicates of second 0, which the emulation's driver paces as well.
_PACE_NS = 1_000_000
_NO_FIELDS: Mapping[str, Any] = {}


class RecordSink(Protocol):
    """Takes the records of a service, such as `router.records.attention.ServiceRecords`."""

    def write(self, t_ns: int, node: int, app: str | None, record: Mapping[str, Any]) -> None:
        """Takes the record of an action of the router of `node`, for its application `app`."""


class Applications:
    """Plays a workload, one application on each node that takes part.

    Args:
        workload: the workload.
        time_scale: experiment seconds per virtual second.
        agenda: the agenda on which items are scheduled.
        handle: passes an event to the router of a node.
        records: gets what the applications do; as routers write it, with virtual times.
        content: the content type, which unites the subscriptions of an application.
        service_records: gets the records of the service's actions; None: they are not kept.
        members: node -> the member of the private network that its application is; None: there is no privacy.

    Attributes:
        sent: messages and publications that routers accepted.
        delivered: deliveries so far.
    """

    def __init__(
        self,
        workload: Workload,
        time_scale: float,
        agenda: Agenda,
        handle: Callable[[int, Event], None],
        records: ApplicationRecords,
        content: Content,
        service_records: RecordSink | None = None,
        members: Mapping[int, Member] | None = None,
    ) -> None:
        self._content = content
        self._members = {} if members is None else members
        self._items = Lookahead(workload.items)
        self._time_scale = time_scale
        self._agenda = agenda
        self._handle = handle
        self._records = records
        self._service_records = service_records
        self._start_ns = 0
        #: Nodes whose application the records name.
        self._connected: set[int] = set()
        #: Node -> subscriptions, for nodes whose application has had a predicate; the number that a router
        #: would give each subscription; and the count of such numbers.
        self._subscriptions: dict[int, Subscriptions] = {}
        self._numbers: dict[tuple[int, str], int] = {}
        self._subscribed: Counter[int] = Counter()
        self._pending: Mapping[str, Value] | None = None
        #: The subscription that a router registered last.
        self._registered = 0
        self.sent = 0
        self.delivered = 0

    def start(self) -> None:
        """Starts experiment second 0 now.

        The predicates of second 0 are set first, one after the other.
        """
        now = self._start_ns = self._agenda.now
        first = 0
        while (item := self._items.head) and item.at_s <= 0 and item.action == "set_predicate":
            self._agenda.at(now + first * _PACE_NS, self._items.take().perform, self)
            first += 1
        self._agenda.at(now + first * _PACE_NS, self._next)

    def tell(self, node: int, action: Deliver | Accepted | Refused | ServiceAction) -> None:
        """Handles an action of a router for its application."""
        if isinstance(action, Deliver) and (member := self._members.get(node)) is not None:
            self._opened(node, member, action)
        elif isinstance(action, Deliver):
            self.delivered += len(action.apps)
            now_ns = EPOCH_NS + self._agenda.now
            for _ in action.apps:
                self._records.delivered(now_ns, node, APPLICATION, action.source, action.seq)
        elif isinstance(action, Accepted):
            self.sent += 1
            answer = {"source": action.source, "seq": action.seq}
            self._served(node, {"op": "send_message", "attributes": self._pending}, answer)
        elif isinstance(action, ServiceAction):
            self._of_service(node, action)
        else:
            raise RunError(f"node {node}: request refused: {action.reason}")

    def _of_service(self, node: int, action: ServiceAction) -> None:
        """Counts and records an action of the service."""
        if isinstance(action, DeliverPublication):
            self.delivered += 1
        elif isinstance(action, Uploaded):
            self.sent += 1
        elif isinstance(action, Registered):
            self._registered = action.subscription
        if self._service_records is not None and (record := action.record()) is not None:
            app = APPLICATION if action.application == _NUMBER else None
            self._service_records.write(EPOCH_NS + self._agenda.now, node, app, record)

    def _next(self) -> None:
        """Plays every item that is due and schedules the next item."""
        while (item := self._items.head) is not None:
            due = self._start_ns + round(item.at_s / self._time_scale * NS)
            if due > self._agenda.now:
                self._agenda.at(due, self._next)
                return
            self._items.take().perform(self)

    def _opened(self, node: int, member: Member, action: Deliver) -> None:
        """Opens a message that the router delivered, and records whether the member keeps it."""
        assert isinstance(action.message, BloomMessage)
        now_ns = EPOCH_NS + self._agenda.now
        discarded = member.open(action.message).discarded
        if discarded is not None:
            self._records.discarded(now_ns, node, APPLICATION, action.source, action.seq, discarded)
        else:
            self.delivered += 1
            self._records.delivered(now_ns, node, APPLICATION, action.source, action.seq)

    # `testbed.events.applications.ApplicationControl`.

    def set_predicate(self, node: int, predicate: str) -> None:
        self._served(node, {"op": "set_predicate", "predicate": predicate})
        self._subscriptions_of(node).declare(parse_predicate(predicate))
        self._changed(node)

    def subscribe(self, node: int, subscription: str, predicate: str) -> None:
        self._subscribed[node] += 1
        number = self._numbers[node, subscription] = self._subscribed[node]
        self._served(node, {"op": "subscribe", "subscription": number, "predicate": predicate})
        self._subscriptions_of(node).add(number, parse_predicate(predicate))
        self._changed(node)

    def unsubscribe(self, node: int, subscription: str) -> None:
        number = self._numbers.pop((node, subscription))
        self._served(node, {"op": "unsubscribe", "subscription": number})
        self._subscriptions_of(node).remove(number)
        self._changed(node)

    def send_message(self, node: int, attributes: Mapping[str, Value]) -> None:
        self._pending = attributes
        message = Message(attributes)
        member = self._members.get(node)
        self._handle(node, SendMessage(_NUMBER, message if member is None else member.message(message)))

    def register(
        self, node: int, subscription: str, predicate: str, max: int, lifetime_s: float, freshness_s: float
    ) -> None:
        self._handle(node, Register(_NUMBER, parse_predicate(predicate), max, lifetime_s, freshness_s))
        self._numbers[node, subscription] = self._registered

    def refresh(self, node: int, subscription: str) -> None:
        self._handle(node, Refresh(_NUMBER, self._numbers[node, subscription]))

    def unregister(self, node: int, subscription: str) -> None:
        self._handle(node, Unregister(_NUMBER, self._numbers.pop((node, subscription))))

    def publish(self, node: int, attributes: Mapping[str, Value]) -> None:
        self._handle(node, Upload(_NUMBER, Message(attributes)))

    def _subscriptions_of(self, node: int) -> Subscriptions:
        return self._subscriptions.setdefault(node, Subscriptions(self._content))

    def _changed(self, node: int) -> None:
        """Passes the predicate of an application to its router."""
        predicate, member = self._subscriptions[node].predicate, self._members.get(node)
        if member is not None:
            predicate = member.set_predicate(predicate)
        self._handle(node, SetPredicate(_NUMBER, predicate))

    def _served(self, node: int, request: Mapping[str, Any], answer: Mapping[str, Any] = _NO_FIELDS) -> None:
        """Records a request of an application."""
        now_ns = EPOCH_NS + self._agenda.now
        if node not in self._connected:
            self._connected.add(node)
            self._records.connected(now_ns, node, APPLICATION)
        self._records.served(now_ns, node, APPLICATION, now_ns, request, answer)
