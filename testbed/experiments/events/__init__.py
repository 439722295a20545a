"""Events of an experiment, [[events]] in its file: a class for each action; those of applications.

The fields of a class are the keys of its section (`router.options.option`).
`testbed.experiments.events.network` lists all classes. The workload of a run holds the events of applications
together with the random ones (`testbed.experiments.workload.generate`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from router.options import SECONDS_MAX, Unit, option, options_of
from router.predicates.parser import parse_message, parse_predicate
from topos import Link, Topology

if TYPE_CHECKING:
    from router.predicates import Value

#: A key, and the problem with its value.
Problem = tuple[str, str]
#: Name of the application of a workload on a node, unless another is given.
APPLICATION = "workload"
#: A node, and the name of an application on it.
Place = tuple[int, str]


@dataclass(frozen=True)
class Event:
    """Something that happens at `at_s`.

    Attributes:
        action: name of the class in experiment files.
        doc: a sentence for the documents.
        lasts: the field with the time from `at_s` to the last part of the event; empty: there is one part.
    """

    action: ClassVar[str]
    doc: ClassVar[str]
    lasts: ClassVar[str] = ""

    at_s: float = field(
        metadata=option("Time of the event.", low=0, high=SECONDS_MAX, unit=Unit.EXPERIMENT_SECONDS)
    )

    @property
    def ends_s(self) -> float:
        """Time at which the last part of the event happens, in experiment seconds."""
        return self.at_s + (getattr(self, self.lasts) if self.lasts else 0.0)

    def check(self, topology: Topology) -> Iterator[Problem]:  # noqa: ARG002 - for subclasses
        """Yields what is wrong with the event in this topology."""
        yield from ()


def duration(doc: str) -> Mapping[str, Any]:
    """The metadata of a field that is a time in experiment seconds, above 0."""
    return option(doc, low=0, above_low=True, high=SECONDS_MAX, unit=Unit.EXPERIMENT_SECONDS)


def check_node(node: int, topology: Topology) -> Iterator[Problem]:
    """Yields a problem with the key `node` if the topology has no such node."""
    last = len(topology.nodes) - 1
    if node > last:
        yield "node", f"there is no node {node}; expected 0 to {last}"


@dataclass(frozen=True)
class OfNode(Event):
    node: int = field(metadata=option("The node.", low=0, node=True))

    def check(self, topology: Topology) -> Iterator[Problem]:
        yield from check_node(self.node, topology)


#: The nodes at the ends of a link; None: of all links.
Ends = tuple[int, int] | None
#: The most neighbours or links that an error names.
NAMED = 10


def links_between(topology: Topology, ends: Ends) -> list[Link]:
    return [link for link in topology.links if ends is None or {link.u, link.v} == set(ends)]


def check_joined(ends: tuple[int, int], topology: Topology) -> Iterator[Problem]:
    """Yields a problem if no link joins two nodes."""
    u, v = ends
    if not links_between(topology, ends):
        if max(u, v) >= len(topology.nodes):
            yield "link", f"there is no node {max(u, v)}; expected 0 to {len(topology.nodes) - 1}"
            return
        near = [topology.label(each) for each in sorted(topology.neighbours(u).values())]
        joined = ", ".join(near[:NAMED]) + (f" and {len(near) - NAMED} more" if near[NAMED:] else "")
        yield "link", f"nodes {u} and {v} are not joined; {u} is joined to {joined or 'no node'}"


@dataclass(frozen=True)
class OfLink(Event):
    link: tuple[int, int] = field(metadata=option("Nodes at the ends of the link.", node=True))

    def check(self, topology: Topology) -> Iterator[Problem]:
        yield from check_joined(self.link, topology)


@dataclass(frozen=True)
class OfLinkForAWhile(OfLink):
    lasts = "down_s"

    down_s: float = field(metadata=duration("How long the link is down."))


@dataclass(frozen=True)
class OfApplication(OfNode):
    app: str = field(
        default=APPLICATION,
        kw_only=True,
        metadata=option("Name of the application, of which a node may have several."),
    )


_PREDICATE = option('Predicate in the readable notation, such as `dest = "ORD" and price < 400`.')
#: The fields that are texts in the readable notation.
_PARSERS: Mapping[str, Callable[[str], Any]] = {"predicate": parse_predicate, "message": parse_message}


class ApplicationEvent(OfApplication):
    """A request of the application `app` on `node`; `action` is the command of the application socket."""

    @classmethod
    @cache
    def carries(cls) -> frozenset[str]:
        """Returns the fields of the items of this action (`testbed.experiments.workload.Item`), beside
        time, node, application and action."""
        own = {each.key for each in options_of(cls)} - {"at_s", "node", "app"}
        return frozenset("attributes" if key == "message" else key for key in own)

    def content(self) -> dict[str, Any]:
        """Returns the values of `carries`.

        Raises:
            ValueError: a text does not parse.
        """
        return {name: getattr(self, name) for name in self.carries()}

    def check_content(self) -> Iterator[Problem]:
        for key, parse in _PARSERS.items():
            try:
                if (text := getattr(self, key, None)) is not None:
                    parse(text)
            except ValueError as error:
                yield key, str(error)


@dataclass(frozen=True)
class SetPredicate(ApplicationEvent):
    action = "set_predicate"
    doc = 'The application replaces its predicate; `"none"` withdraws it.'

    predicate: str = field(metadata=_PREDICATE)


@dataclass(frozen=True)
class NamedEvent(ApplicationEvent):
    subscription: str = field(
        metadata=option("Name of the subscription, unique among those in force of the application.")
    )


@dataclass(frozen=True)
class Subscribe(NamedEvent):
    action = "subscribe"
    doc = "The application adds a predicate to those that it has, under a name."

    predicate: str = field(metadata=_PREDICATE)


class Unsubscribe(NamedEvent):
    action = "unsubscribe"
    doc = "The application removes the predicate of that name."


@dataclass(frozen=True)
class _WithMessage(ApplicationEvent):
    message: str = field(
        metadata=option('Message in the readable notation, such as `class = "alert" severity = 6`.')
    )

    @property
    def attributes(self) -> Mapping[str, Value]:
        return parse_message(self.message)


class SendMessage(_WithMessage):
    action = "send_message"
    doc = "The application sends a message."


@dataclass(frozen=True)
class Register(NamedEvent):
    action = "register"
    doc = "The application registers a subscription with a maximum, a lifetime and a freshness, under a name."

    predicate: str = field(metadata=_PREDICATE)
    max: int = field(metadata=option("Greatest number of publications of a round.", low=1, high=2**32 - 1))
    lifetime_s: float = field(metadata=duration("Duration of a round."))
    freshness_s: float = field(metadata=duration("Greatest age of a publication."))


class Refresh(NamedEvent):
    action = "refresh"
    doc = "The application refreshes the subscription of that name, whose round must be over."


class Unregister(NamedEvent):
    action = "unregister"
    doc = "The application withdraws the subscription of that name."


class Publish(_WithMessage):
    action = "publish"
    doc = "The application uploads a publication."


class RequestUpdate(ApplicationEvent):
    action = "request_update"
    doc = "The application asks its router for an SR through every interface."


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
