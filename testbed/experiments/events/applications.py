"""Events of applications: they set predicates, subscribe, unsubscribe and send messages.

The workload of a run holds them together with the random ones (`testbed.experiments.workload.generate`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from router.options import option
from testbed.experiments.events.event import Event, Problem, check_node, duration
from topos.model import Topology

if TYPE_CHECKING:
    from router.predicates.model import Value

#: Name of the application of a workload on a node, unless another is given.
APPLICATION = "workload"
#: A node, and the name of an application on it.
Place = tuple[int, str]
_SUBSCRIPTION = option("Name of the subscription, unique among those in force of the application.")
_PREDICATE = option('Predicate in the readable notation, such as `dest = "ORD" and price < 400`.')


class ApplicationControl(Protocol):
    """The requests of events to an application; emulation and simulation implement them."""

    def set_predicate(self, place: Place, predicate: str) -> None:
        """Replaces the predicate of the application; `predicate` is in the readable notation."""

    def subscribe(self, place: Place, subscription: str, predicate: str) -> None:
        """Adds a predicate under a name."""

    def unsubscribe(self, place: Place, subscription: str) -> None:
        """Removes the predicate of a name."""

    def send_message(self, place: Place, attributes: Mapping[str, Value]) -> None:
        """Sends a message."""

    # With [service] `kind = "attention"`.

    def register(
        self, place: Place, subscription: str, predicate: str, max: int, lifetime_s: float, freshness_s: float
    ) -> None:
        """Registers a subscription under a name."""

    def refresh(self, place: Place, subscription: str) -> None:
        """Refreshes the subscription of a name."""

    def unregister(self, place: Place, subscription: str) -> None:
        """Withdraws the subscription of a name."""

    def publish(self, place: Place, attributes: Mapping[str, Value]) -> None:
        """Uploads a publication."""


@dataclass(frozen=True)
class ApplicationEvent(Event):
    """A request of the application `app` on `node`; `action` is the command of the application socket.

    Attributes:
        carries: the fields of the items of this action in a workload
            (`testbed.experiments.workload.model.Item`), beside time, node and action.
    """

    carries: ClassVar[frozenset[str]]

    node: int = field(metadata=option("Node of the application.", low=0))
    app: str = field(
        default=APPLICATION,
        kw_only=True,
        metadata=option("Name of the application, of which a node may have several."),
    )

    def check(self, topology: Topology) -> Iterator[Problem]:
        yield from check_node(self.node, topology)

    def content(self) -> Mapping[str, Any]:
        """The values of `carries`.

        Raises:
            ValueError: a text does not parse.
        """
        return {name: getattr(self, name) for name in self.carries}

    def check_content(self) -> Iterator[Problem]:
        """Yields what is wrong with the texts of the event."""
        yield from ()

    @classmethod
    def perform(cls, applications: ApplicationControl, place: Place, content: Mapping[str, Any]) -> None:
        """Has an application do it, with the values of `carries`."""
        raise NotImplementedError


@dataclass(frozen=True)
class SetPredicate(ApplicationEvent):
    action = "set_predicate"
    doc = 'The application replaces its predicate; `"none"` withdraws it.'
    carries = frozenset({"predicate"})

    predicate: str = field(metadata=_PREDICATE)

    def check_content(self) -> Iterator[Problem]:
        yield from _check_predicate(self.predicate)

    @classmethod
    def perform(cls, applications: ApplicationControl, place: Place, content: Mapping[str, Any]) -> None:
        applications.set_predicate(place, content["predicate"])


@dataclass(frozen=True)
class Subscribe(ApplicationEvent):
    action = "subscribe"
    doc = "The application adds a predicate to those that it has, under a name."
    carries = frozenset({"subscription", "predicate"})

    subscription: str = field(metadata=_SUBSCRIPTION)
    predicate: str = field(metadata=_PREDICATE)

    def check_content(self) -> Iterator[Problem]:
        yield from _check_predicate(self.predicate)

    @classmethod
    def perform(cls, applications: ApplicationControl, place: Place, content: Mapping[str, Any]) -> None:
        applications.subscribe(place, content["subscription"], content["predicate"])


@dataclass(frozen=True)
class Unsubscribe(ApplicationEvent):
    action = "unsubscribe"
    doc = "The application removes the predicate of that name."
    carries = frozenset({"subscription"})

    subscription: str = field(metadata=_SUBSCRIPTION)

    @classmethod
    def perform(cls, applications: ApplicationControl, place: Place, content: Mapping[str, Any]) -> None:
        applications.unsubscribe(place, content["subscription"])


@dataclass(frozen=True)
class _WithMessage(ApplicationEvent):
    """A request that carries a message."""

    carries = frozenset({"attributes"})

    message: str = field(
        metadata=option('Message in the readable notation, such as `class = "alert" severity = 6`.')
    )

    def content(self) -> Mapping[str, Any]:
        # Imported late, so that a file without such events loads without the parser.
        from router.predicates.parser import parse_message

        return {"attributes": parse_message(self.message)}

    def check_content(self) -> Iterator[Problem]:
        try:
            self.content()
        except ValueError as error:
            yield "message", str(error)


@dataclass(frozen=True)
class SendMessage(_WithMessage):
    action = "send_message"
    doc = "The application sends a message."

    @classmethod
    def perform(cls, applications: ApplicationControl, place: Place, content: Mapping[str, Any]) -> None:
        applications.send_message(place, content["attributes"])


@dataclass(frozen=True)
class Register(ApplicationEvent):
    action = "register"
    doc = "The application registers a subscription with a maximum, a lifetime and a freshness, under a name."
    carries = frozenset({"subscription", "predicate", "max", "lifetime_s", "freshness_s"})

    subscription: str = field(metadata=_SUBSCRIPTION)
    predicate: str = field(metadata=_PREDICATE)
    max: int = field(metadata=option("Greatest number of publications of a round.", low=1, high=2**32 - 1))
    lifetime_s: float = field(metadata=duration("Duration of a round."))
    freshness_s: float = field(metadata=duration("Greatest age of a publication."))

    def check_content(self) -> Iterator[Problem]:
        yield from _check_predicate(self.predicate)

    @classmethod
    def perform(cls, applications: ApplicationControl, place: Place, content: Mapping[str, Any]) -> None:
        applications.register(place, **content)


@dataclass(frozen=True)
class Refresh(ApplicationEvent):
    action = "refresh"
    doc = "The application refreshes the subscription of that name, whose round must be over."
    carries = frozenset({"subscription"})

    subscription: str = field(metadata=_SUBSCRIPTION)

    @classmethod
    def perform(cls, applications: ApplicationControl, place: Place, content: Mapping[str, Any]) -> None:
        applications.refresh(place, content["subscription"])


@dataclass(frozen=True)
class Unregister(ApplicationEvent):
    action = "unregister"
    doc = "The application withdraws the subscription of that name."
    carries = frozenset({"subscription"})

    subscription: str = field(metadata=_SUBSCRIPTION)

    @classmethod
    def perform(cls, applications: ApplicationControl, place: Place, content: Mapping[str, Any]) -> None:
        applications.unregister(place, content["subscription"])


@dataclass(frozen=True)
class Publish(_WithMessage):
    action = "publish"
    doc = "The application uploads a publication."

    @classmethod
    def perform(cls, applications: ApplicationControl, place: Place, content: Mapping[str, Any]) -> None:
        applications.publish(place, content["attributes"])


def _check_predicate(text: str) -> Iterator[Problem]:
    from router.predicates.parser import parse_predicate

    try:
        parse_predicate(text)
    except ValueError as error:
        yield "predicate", str(error)


#: The events that name a subscription.
NAMED = Subscribe | Unsubscribe | Register | Refresh | Unregister


class NamesInForce:
    """Follows requests: subscribe and register take a name of an application, others free it."""

    def __init__(self) -> None:
        self._names: set[tuple[Place, str]] = set()

    def follow(
        self, event: type[ApplicationEvent], place: Place, subscription: str | None, at_s: float
    ) -> str | None:
        """Returns the problem with the name of a request; None: there is none, or the request has no name."""
        if subscription is None:
            return None
        key = place, subscription
        known = key in self._names
        if issubclass(event, Subscribe | Register):
            self._names.add(key)
        elif issubclass(event, Unsubscribe | Unregister):
            self._names.discard(key)
        if issubclass(event, Subscribe | Register) == known:
            state = "is in force" if known else "is not in force"
            where = f"at node {place[0]} at {at_s:g} s"
            return f'"{subscription}" {state} {where}{" already" if known else ""}'
        return None
