"""The attention-limited service: the events and actions that it adds to those of the core.

Attention paper, section 3.1. A subscription is identified by its home, the router at which it was
registered, and a number of 64 bits that the home gave it; a publication by the router at which it was
uploaded, and a number of that router. `at_s` of an action is the time of the event that it answers, in
seconds of the router's clock (experiment seconds); all routers of a run have the same clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

from router.predicates import Message, Predicate
from router.predicates.printer import format_predicate
from router.protocol.events import ServiceAction, ServiceEvent
from router.wire.frames import value


class Index(StrEnum):
    """The index of a router that references a cached publication (section 4.1)."""

    # An enumeration's own hash is computed in Python.
    __hash__ = str.__hash__

    #: Pending publications: uploaded at this router, sent to no other router.
    PPT = "ppt"
    #: Disseminated publications: sent to or by other routers, and used at this router.
    DPT = "dpt"
    #: Overflowing publications: sent to or by other routers, and never used at this router.
    OPT = "opt"


class Origin(StrEnum):
    """Where a router got the publication that it delivers."""

    #: An application of the router uploaded it at that moment.
    UPLOAD = "upload"
    #: The router had it in an index, before the delivery.
    PPT = "ppt"
    DPT = "dpt"
    OPT = "opt"
    #: Another router sent it.
    REMOTE = "remote"


class Outcome(StrEnum):
    """The end of a round of a subscription."""

    #: `max` publications were delivered.
    SATISFIED = "satisfied"
    #: The lifetime has passed before.
    EXPIRED = "expired"
    #: The application withdrew the subscription, or left.
    WITHDRAWN = "withdrawn"


# Events.


@dataclass(frozen=True, slots=True)
class Register(ServiceEvent):
    """An application registers S(predicate, max, lifetime, freshness); answered by `Registered` or `Refused`.

    Attributes:
        app: the application.
        predicate: publications that it matches are delivered.
        max: greatest number of publications of a round, at least 1; the paper's selectivity.
        lifetime_s: duration of a round, seconds of the router's clock, above 0.
        freshness_s: greatest age of a publication at its delivery, seconds, above 0.
        refreshed: the subscription continues one that the router has forgotten, for instance because it
            restarted: the first round has the number 1, and gets nothing that was delivered before.
    """

    app: int
    predicate: Predicate
    max: int
    lifetime_s: float
    freshness_s: float
    refreshed: bool = False


@dataclass(frozen=True, slots=True)
class Refresh(ServiceEvent):
    """An application refreshes a subscription whose round is over; answered by `Registered` or `Refused`."""

    app: int
    subscription: int


@dataclass(frozen=True, slots=True)
class Unregister(ServiceEvent):
    """An application withdraws a subscription; answered by `Unregistered` or `Refused`."""

    app: int
    subscription: int


@dataclass(frozen=True, slots=True)
class Upload(ServiceEvent):
    """An application uploads a publication, its first and only appearance; answered by `Uploaded`."""

    app: int
    message: Message


# Actions.


class _Recorded(ServiceAction):
    """Base of the actions of this service: a record has their fields, in their order."""

    __slots__: tuple[str, ...] = ()

    #: Name of the event in the record.
    event: ClassVar[str]
    #: Fields of the action that its record leaves out.
    left_out: ClassVar[frozenset[str]] = frozenset({"app"})

    def record(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self.__slots__ if name not in self.left_out}
        return {"event": self.event, **fields}


class _ForApplication(_Recorded):
    """Base of the actions whose `line` an application gets."""

    __slots__ = ()

    app: int

    @property
    def application(self) -> int:
        return self.app


@dataclass(frozen=True, slots=True)
class Registered(_ForApplication):
    """The answer to a `Register` or `Refresh`: a round has begun.

    Comes before any delivery of the round.
    """

    event: ClassVar[str] = "register"

    app: int
    subscription: int
    round: int
    predicate: Predicate
    max: int
    lifetime_s: float
    freshness_s: float
    at_s: float

    def record(self) -> dict[str, Any]:
        record = {**_Recorded.record(self), "predicate": format_predicate(self.predicate)}
        return record if self.round == 0 else {**record, "event": "refresh"}


@dataclass(frozen=True, slots=True)
class Unregistered(_ForApplication):
    """A subscription is gone: the answer to an `Unregister`, or its application has left."""

    event: ClassVar[str] = "unregister"

    app: int
    subscription: int
    at_s: float


@dataclass(frozen=True, slots=True)
class Uploaded(_ForApplication):
    """The answer to an `Upload`: the publication has these identifiers.

    Comes before any delivery of it.
    """

    event: ClassVar[str] = "upload"

    app: int
    source: int
    seq: int
    attributes: Message
    at_s: float


@value
class DeliverPublication(_ForApplication):
    """Pass a publication up to one application, for one subscription.

    Attributes:
        age_s: time since its upload as this router knows it, seconds.
        whence: where the router got it.
    """

    event: ClassVar[str] = "deliver"
    left_out: ClassVar[frozenset[str]] = frozenset({"app", "message"})

    app: int
    subscription: int
    round: int
    source: int
    seq: int
    age_s: float
    whence: Origin
    message: Message
    at_s: float

    def line(self) -> Mapping[str, Any]:
        line = self.record()
        del line["whence"], line["at_s"]
        return {**line, "attributes": self.message}


@dataclass(frozen=True, slots=True)
class RoundEnded(_ForApplication):
    """A round of a subscription is over.

    Attributes:
        got: publications that were delivered in the round.
        got_remote: those of them that another router sent for it.
        max: of the subscription.
    """

    event: ClassVar[str] = "outcome"

    app: int
    subscription: int
    round: int
    outcome: Outcome
    got: int
    got_remote: int
    max: int
    at_s: float

    def line(self) -> Mapping[str, Any]:
        line = self.record()
        del line["got_remote"], line["max"], line["at_s"]
        return line


@dataclass(frozen=True, slots=True)
class IndexChanged(_Recorded):
    """A publication entered, left or changed an index of this router; for the records alone.

    Made only with the option `record_caches`.

    Attributes:
        before, after: None: in no index.
        cause: the row of the table of transitions (`dissemination.TRANSITIONS`), or "evicted", "flushed".
    """

    event: ClassVar[str] = "cache"

    source: int
    seq: int
    before: Index | None
    after: Index | None
    cause: str
    at_s: float
