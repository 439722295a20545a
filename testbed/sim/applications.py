"""The workload's applications in virtual time, and the records of what they do."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from router.predicates import Message, Predicate, Value
from router.predicates.encoded import BloomMessage
from router.predicates.parser import parse_predicate
from router.privacy.member import Discard
from router.protocol import events
from router.protocol.options import CONTENTS
from router.protocol.services.attention import (
    DeliverPublication,
    Refresh,
    Register,
    Registered,
    Unregister,
    Upload,
    Uploaded,
)
from router.protocol.services.exhaustive import any_of
from router.records.applications import ApplicationRecords
from testbed.experiments.config import Experiment
from testbed.experiments.events import Place
from testbed.experiments.workload import Workload
from testbed.experiments.workload.keys import members_of
from testbed.sim import EPOCH_NS, NS, Agenda
from testbed.support.errors import RunError

#: Virtual time between the predicates of second 0, which the emulation's driver paces as well.
_PACE_NS = 1_000_000
_NO_FIELDS: Mapping[str, Any] = {}


#: Takes the record of an action of a service, as `router.records.attention.ServiceRecords.write`: time, node,
#: its application, record.
RecordSink = Callable[[int, int, str | None, Mapping[str, Any]], None]


class Applications:
    """Plays a workload with its applications, as many on a node as it names.

    Args:
        handle: passes an event to the router of a node.
        records: gets what the applications do; as routers write it, with virtual times.
        service_records: gets the records of the service's actions; None: they are not kept.

    Attributes:
        sent: messages and publications that routers accepted.
    """

    def __init__(
        self,
        experiment: Experiment,
        workload: Workload,
        agenda: Agenda,
        handle: Callable[[int, events.Event], None],
        records: ApplicationRecords,
        service_records: RecordSink | None,
    ) -> None:
        #: The content type, which unites the subscriptions of an application.
        self._content = content = CONTENTS[experiment.protocol.covering]()
        #: Application -> the member of the private network that it is; empty: there is no privacy.
        self._members = members_of(experiment, workload.applications) if experiment.privacy.on else {}
        self._items = iter(workload.items)
        self._item = next(self._items, None)
        self._time_scale = experiment.virtual_rate
        self._agenda = agenda
        self._handle = handle
        self._records = records
        self._service_records = service_records
        self._start_ns = 0
        #: Node -> its applications in order of their requests; routers number them from 1.
        self._numbered: defaultdict[int, list[str]] = defaultdict(list)
        #: Applications that the records name.
        self._connected: set[Place] = set()
        #: Application -> its predicates, if it has had one: that of `set_predicate` under 0, subscriptions
        #: under the numbers that a router would give them; these numbers; and their count at each router.
        self._predicates: defaultdict[Place, dict[int, Predicate]] = defaultdict(lambda: {0: content.nothing})
        self._numbers: dict[tuple[Place, str], int] = {}
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
        while (item := self._item) and item.at_s <= 0 and item.action == "set_predicate":
            self._agenda.at(now + first * _PACE_NS, item.perform, self)
            self._item = next(self._items, None)
            first += 1
        self._agenda.at(now + first * _PACE_NS, self._next)

    def tell(
        self, node: int, action: events.Deliver | events.Accepted | events.Refused | events.ServiceAction
    ) -> None:
        if isinstance(action, events.ServiceAction):
            self._of_service(node, action)
        elif isinstance(action, events.Deliver):
            for number in action.apps:
                self._delivered((node, self._name(node, number)), action)
        elif isinstance(action, events.Accepted):
            self.sent += 1
            answer = {"source": action.source, "seq": action.seq}
            place = node, self._name(node, action.app)
            self._served(place, {"op": "send_message", "attributes": self._pending}, answer)
        else:
            raise RunError(f"node {node}: request refused: {action.reason}")

    def _of_service(self, node: int, action: events.ServiceAction) -> None:
        if isinstance(action, DeliverPublication):
            self.delivered += 1
        elif isinstance(action, Uploaded):
            self.sent += 1
        elif isinstance(action, Registered):
            self._registered = action.subscription
        if self._service_records is not None and (record := action.record()) is not None:
            number = action.application
            app = None if number is None else self._name(node, number)
            self._service_records(EPOCH_NS + self._agenda.now, node, app, record)

    def _number(self, place: Place) -> int:
        node, app = place
        if app not in self._numbered[node]:
            self._numbered[node].append(app)
        return self._numbered[node].index(app) + 1

    def _name(self, node: int, number: int) -> str:
        return self._numbered[node][number - 1]

    def _next(self) -> None:
        """Plays every item that is due and schedules the next item."""
        while (item := self._item) is not None:
            due = self._start_ns + round(item.at_s / self._time_scale * NS)
            if due > self._agenda.now:
                self._agenda.at(due, self._next)
                return
            self._item = next(self._items, None)
            item.perform(self)

    def _delivered(self, place: Place, action: events.Deliver) -> None:
        """Records a message that the router delivered; a member opens it, and may discard it."""
        delivery = EPOCH_NS + self._agenda.now, *place, action.source, action.seq
        if self._members:
            assert isinstance(action.message, BloomMessage)
            opened = self._members[place].open(action.message)
            if isinstance(opened, Discard):
                self._records.discarded(*delivery, opened)
                return
        self.delivered += 1
        self._records.delivered(*delivery)

    # The requests (`Item.perform`).

    def set_predicate(self, place: Place, predicate: str) -> None:
        self._served(place, {"op": "set_predicate", "predicate": predicate})
        self._predicates[place][0] = parse_predicate(predicate)
        self._changed(place)

    def subscribe(self, place: Place, subscription: str, predicate: str) -> None:
        self._subscribed[place[0]] += 1
        number = self._numbers[place, subscription] = self._subscribed[place[0]]
        self._served(place, {"op": "subscribe", "subscription": number, "predicate": predicate})
        self._predicates[place][number] = parse_predicate(predicate)
        self._changed(place)

    def unsubscribe(self, place: Place, subscription: str) -> None:
        number = self._numbers.pop((place, subscription))
        self._served(place, {"op": "unsubscribe", "subscription": number})
        del self._predicates[place][number]
        self._changed(place)

    def send_message(self, place: Place, attributes: Mapping[str, Value]) -> None:
        self._pending = attributes
        message = Message(attributes)
        member = self._members.get(place)
        sent = message if member is None else member.message(message)
        self._handle(place[0], events.SendMessage(self._number(place), sent))

    def request_update(self, place: Place) -> None:
        self._handle(place[0], events.RequestUpdate())

    def register(
        self, place: Place, subscription: str, predicate: str, max: int, lifetime_s: float, freshness_s: float
    ) -> None:
        number = self._number(place)
        self._handle(place[0], Register(number, parse_predicate(predicate), max, lifetime_s, freshness_s))
        self._numbers[place, subscription] = self._registered

    def refresh(self, place: Place, subscription: str) -> None:
        self._handle(place[0], Refresh(self._number(place), self._numbers[place, subscription]))

    def unregister(self, place: Place, subscription: str) -> None:
        self._handle(place[0], Unregister(self._number(place), self._numbers.pop((place, subscription))))

    def publish(self, place: Place, attributes: Mapping[str, Value]) -> None:
        # Publications of one event share their attributes.
        message = attributes if isinstance(attributes, Message) else Message(attributes)
        self._handle(place[0], Upload(self._number(place), message))

    def _changed(self, place: Place) -> None:
        """Passes the predicate of an application to its router."""
        predicate = any_of(self._content, self._predicates[place])
        member = self._members.get(place)
        if member is not None:
            member.predicate = predicate
            predicate = member.encode(predicate)
        self._handle(place[0], events.SetPredicate(self._number(place), predicate))

    def _served(
        self, place: Place, request: Mapping[str, Any], answer: Mapping[str, Any] = _NO_FIELDS
    ) -> None:
        now_ns = EPOCH_NS + self._agenda.now
        if place not in self._connected:
            self._connected.add(place)
            self._records.connected(now_ns, *place)
        self._records.served(now_ns, *place, now_ns, request, answer)
