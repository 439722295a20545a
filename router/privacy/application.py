"""An application as a member of a private network: its requests, and the deliveries that it keeps.

`router.runtime.client.Client` hands its requests and the deliveries of its router to this object. The router
sees encoded predicates and messages only; the records of the application have the exact ones.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from router.predicates import NOTHING, Message, Predicate
from router.predicates.encoded import Suite
from router.predicates.parser import parse_predicate
from router.predicates.printer import format_predicate
from router.privacy.member import Discard, Member
from router.records.applications import SERVED, ApplicationRecords
from router.wire import private


@dataclass(frozen=True, slots=True)
class _Subscription:
    """A subscription: its exact predicate, and the suites under which the router has it."""

    predicate: Predicate
    suites: frozenset[Suite]


@dataclass
class PrivateApplication:
    """The private side of one connection.

    Attributes:
        member: has the keys.
        records: gets the exact requests, and the deliveries that were kept or discarded; None: no records are
            written. The router records the begin and the end of the connection.
        owns_records: whether the records are of this connection alone, and closed with it; else whoever made
            them does.
        node, name: of the application, for the records; set when the router has answered.
    """

    member: Member
    records: ApplicationRecords | None = None
    owns_records: bool = False
    node: int = 0
    name: str = ""
    #: The declared predicate, and the subscriptions by number.
    _declared: Predicate = NOTHING
    _numbered: dict[int, _Subscription] = field(default_factory=dict)
    #: The predicates to be declared and subscribed to, by number of the request, until the answer.
    _declaring: dict[int, Predicate] = field(default_factory=dict)
    _asked_for: dict[int, _Subscription] = field(default_factory=dict)
    #: The requests without an answer, by number: when each was made, and its exact form.
    _asked: dict[int, tuple[int, dict[str, Any]]] = field(default_factory=dict)

    @property
    def subscriptions(self) -> dict[int, Predicate]:
        """The subscriptions in force, by number."""
        return {number: each.predicate for number, each in self._numbered.items()}

    def connected(self, node: int, name: str) -> None:
        """The router has accepted the connection, and knows nothing of an earlier one."""
        self.node, self.name = node, name
        self._declared = NOTHING
        for each in (self._numbered, self._declaring, self._asked_for, self._asked):
            each.clear()
        self._changed()

    def request(self, number: int, op: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The fields that the router gets in place of those of a request.

        Args:
            number: the number of the request.
            fields: the exact ones: `predicate` in the readable notation, `attributes`, `subscription`.
        """
        if op in SERVED:
            self._asked[number] = time.time_ns(), {"op": op, **fields}
        if op == "send_message":
            message = self.member.message(Message(fields["attributes"]))
            return {"encoded": private.encode_message(message).hex()}
        if op in ("set_predicate", "subscribe"):
            predicate = parse_predicate(fields["predicate"])
            if op == "subscribe":
                self._asked_for[number] = _Subscription(predicate, self.member.suites)
                encoded = self.member.encode(predicate)
            else:
                self._declaring[number] = predicate
                # The router has a subscription under the keys of its time: if they were others, what is
                # declared covers it.
                older = [each.predicate for each in self._subscribed() if each.suites != self.member.suites]
                encoded = self.member.encode(_union(predicate, *older))
            self._changed()
            return {"encoded": private.encode_predicate(encoded).hex()}
        if op == "unsubscribe":
            if "subscription" in fields:
                self._numbered.pop(fields["subscription"], None)
            else:
                self._numbered.clear()
            self._changed()
        return dict(fields)

    def answered(self, number: int, answer: Mapping[str, Any]) -> None:
        """The router has answered a request; one that it refused leaves all as it was."""
        subscribed, declared = self._asked_for.pop(number, None), self._declaring.pop(number, None)
        if subscribed is not None or declared is not None:
            if subscribed is not None and answer.get("ok"):
                self._numbered[answer["subscription"]] = subscribed
            if declared is not None and answer.get("ok"):
                self._declared = declared
            self._changed()
        asked = self._asked.pop(number, None)
        if asked is not None and answer.get("ok") and self.records is not None:
            self.records.served(time.time_ns(), self.node, self.name, *asked, answer)

    def delivered(self, source: int, seq: int, encoded: str) -> Message | None:
        """The message of a delivery; None: it is not for this application."""
        opened: Message | Discard
        try:
            body = private.decode_message(bytes.fromhex(encoded))
        except ValueError:
            opened = Discard.NOT_AUTHENTIC
        else:
            opened = self.member.open(body)
        where = time.time_ns(), self.node, self.name, source, seq
        if isinstance(opened, Message):
            if self.records is not None:
                self.records.delivered(*where)
            return opened
        if self.records is not None:
            self.records.discarded(*where, opened)
        return None

    def close(self) -> None:
        """The connection is closed."""
        if self.owns_records and self.records is not None:
            self.records.close()

    @property
    def declared(self) -> str:
        """The declared predicate in the readable notation: the last that the router was asked to take."""
        return format_predicate((self._declared, *self._declaring.values())[-1])

    def _subscribed(self) -> tuple[_Subscription, ...]:
        return (*self._numbered.values(), *self._asked_for.values())

    def _changed(self) -> None:
        # Until its answer the router may deliver by the declared predicate or by the one that is to be.
        every = (self._declared, *self._declaring.values(), *(each.predicate for each in self._subscribed()))
        self.member.predicate = _union(*every)


def _union(*predicates: Predicate) -> Predicate:
    return Predicate(tuple(filter_ for each in predicates for filter_ in each))
