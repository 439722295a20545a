"""The records of applications that a router writes: their fields, and the writer of the file.

A router records the requests that it served, the messages that it handed over, and the connections that
ended. The records of a run are the evidence of oracle and accounting on what applications did: no application
has to keep a log, unless the routers of the network read no requests: then the members of the private network
record requests and deliveries, and routers only connections. Times are wall clock in nanoseconds since 1970
UTC, read by the writer of the record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from router.predicates import Value
from router.predicates.parser import parse_message
from router.records.forms import NodeNumber, TimeNs, forms_by_event
from router.records.json_file import RecordFile


class _OfApplication(TypedDict):
    node: Annotated[NodeNumber, "node of the application"]
    app: Annotated[str, "name of the application, unique at its node"]


class _Request(_OfApplication):
    requested_ns: Annotated[TimeNs, "when the router read the request"]


class _OfMessage(_OfApplication):
    source: Annotated[NodeNumber, "node that originated the message"]
    seq: Annotated[int, "sequence number of the message, 64 bits, unsigned"]


class ApplicationConnected(_OfApplication):
    """An application has connected.

    The record is written with the first other record of the application: a connection that only asks for
    the status leaves no record.
    """

    event: Literal["connect"]
    t_ns: Annotated[TimeNs, "when the router accepted the connection"]


class PredicateSet(_Request):
    """An application has replaced its declared predicate; its subscriptions stay."""

    event: Literal["set_predicate"]
    t_ns: Annotated[TimeNs, "when the predicate was in force at the router"]
    predicate: Annotated[str, "the predicate as the application wrote it, in the readable notation"]


class Subscribed(_Request):
    """An application has added a predicate to those that it has in force."""

    event: Literal["subscribe"]
    t_ns: Annotated[TimeNs, "when the predicate was in force at the router"]
    subscription: Annotated[int, "number of the subscription, unique for the connection"]
    predicate: Annotated[str, "the predicate as the application wrote it, in the readable notation"]


class Unsubscribed(_Request):
    """An application has revoked a subscription, or all of them."""

    event: Literal["unsubscribe"]
    t_ns: Annotated[TimeNs, "when the predicate was no longer in force at the router"]
    subscription: NotRequired[Annotated[int, "number of the subscription; absent: all subscriptions"]]


class MessageSent(_Request):
    """A router has accepted a message of an application."""

    event: Literal["send_message"]
    t_ns: Annotated[TimeNs, "when the router had accepted the message"]
    source: Annotated[NodeNumber, "node that originates the message"]
    seq: Annotated[int, "sequence number of the message, 64 bits, unsigned"]
    attributes: Annotated[Mapping[str, Value], "the message: name of the attribute -> value"]


class MessageDelivered(_OfMessage):
    """A router has handed a message over to an application: the socket has taken all of its bytes."""

    event: Literal["deliver"]
    t_ns: Annotated[TimeNs, "when the socket of the application had taken the message"]


class MessageDiscarded(_OfMessage):
    """A member of a private network has discarded a message that its router had delivered."""

    event: Literal["discard"]
    t_ns: Annotated[TimeNs, "when the application had read the message"]
    cause: Annotated[str, "`operator`, `hash`, `stale`, `unknown_key`, `not_authentic` or `replayed`"]


class MessageLost(_OfMessage):
    """A message for an application whose connection ended before the socket had taken the message."""

    event: Literal["lose"]
    t_ns: Annotated[TimeNs, "when the router noticed the end of the connection"]


class ApplicationDisconnected(_OfApplication):
    """The connection of an application has ended, and all of its predicates are withdrawn.

    Connections that the router ends when it stops have no such record.
    """

    event: Literal["disconnect"]
    t_ns: Annotated[TimeNs, "when the predicates of the application were withdrawn"]
    requested_ns: Annotated[TimeNs, "when the router noticed the end of the connection"]


ApplicationEvent = (
    ApplicationConnected
    | PredicateSet
    | Subscribed
    | Unsubscribed
    | MessageSent
    | MessageDelivered
    | MessageDiscarded
    | MessageLost
    | ApplicationDisconnected
)

#: Name of the event -> its record.
APPLICATION_EVENTS: dict[str, type[ApplicationEvent]] = forms_by_event(ApplicationEvent)
#: Requests that are recorded -> the fields that the record takes from the request, or from the answer.
_REQUESTS: Mapping[str, tuple[str, ...]] = {
    "set_predicate": ("predicate",),
    "subscribe": ("subscription", "predicate"),
    "unsubscribe": ("subscription",),
    "send_message": ("source", "seq", "attributes"),
}
#: Values of `op` of the requests that are recorded.
SERVED = frozenset(_REQUESTS)


class ApplicationRecords(RecordFile):
    """Writes the records of the applications of one router, or of a whole simulation, to a file."""

    def connected(self, t_ns: int, node: int, app: str) -> None:
        self.append(ApplicationConnected(event="connect", t_ns=t_ns, node=node, app=app))

    def served(
        self,
        t_ns: int,
        node: int,
        app: str,
        requested_ns: int,
        request: Mapping[str, Any],
        answer: Mapping[str, Any],
    ) -> None:
        """Records a request of `SERVED` that the router has served.

        Args:
            request, answer: as on the application socket (docs/reference/application-socket.md).
        """
        op = request["op"]
        record = {"event": op, "t_ns": t_ns, "node": node, "app": app, "requested_ns": requested_ns}
        for field in _REQUESTS[op]:
            value = answer.get(field, request.get(field))
            if value is None and field == "attributes" and "message" in request:
                value = parse_message(request["message"])
            if value is not None:
                record[field] = value
        self.append(record)

    def delivered(self, t_ns: int, node: int, app: str, source: int, seq: int) -> None:
        # The record on the path of messages: the literal takes half the time of a call of the class.
        record: MessageDelivered = {
            "event": "deliver",
            "t_ns": t_ns,
            "node": node,
            "app": app,
            "source": source,
            "seq": seq,
        }
        self.append(record)

    def discarded(self, t_ns: int, node: int, app: str, source: int, seq: int, cause: str) -> None:
        self.append(
            MessageDiscarded(
                event="discard", t_ns=t_ns, node=node, app=app, source=source, seq=seq, cause=cause
            )
        )

    def undelivered(self, t_ns: int, node: int, app: str, source: int, seq: int) -> None:
        self.append(MessageLost(event="lose", t_ns=t_ns, node=node, app=app, source=source, seq=seq))

    def disconnected(self, t_ns: int, node: int, app: str, noticed_ns: int) -> None:
        self.append(
            ApplicationDisconnected(
                event="disconnect", t_ns=t_ns, node=node, app=app, requested_ns=noticed_ns
            )
        )


class ConnectionRecords(ApplicationRecords):
    """Writes what a router that reads no requests knows of its applications: that a connection began, lost
    messages, and ended. The applications record the rest."""

    def served(self, *_: Any, **__: Any) -> None:
        """The application records its exact request."""

    def delivered(self, *_: Any, **__: Any) -> None:
        """The application records the messages that it kept, and those that it discarded."""
