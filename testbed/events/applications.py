"""Events of applications: they set predicates, subscribe, unsubscribe and send messages.

The workload of a run holds them together with the random ones (`testbed.workload.generate`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from router.options import option
from testbed.events.event import Event, Problem, check_node
from topos.model import Topology

if TYPE_CHECKING:
    from router.predicates.model import Value

_SUBSCRIPTION = option("Name of the subscription, unique among those in force at the node.")
_PREDICATE = option('Predicate in the readable notation, such as `dest = "ORD" and price < 400`.')


class ApplicationControl(Protocol):
    """The requests of events to the application of a node; emulation and simulation implement them."""

    def set_predicate(self, node: int, predicate: str) -> None:
        """Replaces the predicate of the application; `predicate` is in the readable notation."""

    def subscribe(self, node: int, subscription: str, predicate: str) -> None:
        """Adds a predicate under a name."""

    def unsubscribe(self, node: int, subscription: str) -> None:
        """Removes the predicate of a name."""

    def send_message(self, node: int, attributes: Mapping[str, Value]) -> None:
        """Sends a message."""


@dataclass(frozen=True)
class ApplicationEvent(Event):
    """A request of the application on `node`.

    Attributes:
        carries: the fields of the items of this action in a workload (`testbed.workload.model.Item`), beside
            time, node and action.
    """

    carries: ClassVar[frozenset[str]]

    node: int = field(metadata=option("Node of the application.", low=0))

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
    def perform(cls, applications: ApplicationControl, node: int, content: Mapping[str, Any]) -> None:
        """Has the application of a node do it, with the values of `carries`."""
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
    def perform(cls, applications: ApplicationControl, node: int, content: Mapping[str, Any]) -> None:
        applications.set_predicate(node, content["predicate"])


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
    def perform(cls, applications: ApplicationControl, node: int, content: Mapping[str, Any]) -> None:
        applications.subscribe(node, content["subscription"], content["predicate"])


@dataclass(frozen=True)
class Unsubscribe(ApplicationEvent):
    action = "unsubscribe"
    doc = "The application removes the predicate of that name."
    carries = frozenset({"subscription"})

    subscription: str = field(metadata=_SUBSCRIPTION)

    @classmethod
    def perform(cls, applications: ApplicationControl, node: int, content: Mapping[str, Any]) -> None:
        applications.unsubscribe(node, content["subscription"])


@dataclass(frozen=True)
class SendMessage(ApplicationEvent):
    action = "send_message"
    doc = "The application sends a message."
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

    @classmethod
    def perform(cls, applications: ApplicationControl, node: int, content: Mapping[str, Any]) -> None:
        applications.send_message(node, content["attributes"])


def _check_predicate(text: str) -> Iterator[Problem]:
    from router.predicates.parser import parse_predicate

    try:
        parse_predicate(text)
    except ValueError as error:
        yield "predicate", str(error)
