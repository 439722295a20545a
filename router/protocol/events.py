"""The input of the protocol core (events) and its output (actions).

An application is known to the core by a number that its driver chooses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from router.predicates import Message, Predicate
from router.wire.frames import Frame, value


@dataclass(frozen=True, slots=True)
class Started:
    """The router is up and can send."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed; what is due at `now` is done."""


@value
class FrameReceived:
    """A whole frame came in from the router of node `sender` (read from its source address)."""

    sender: int
    frame: Frame


@dataclass(frozen=True, slots=True)
class ControllerFrame:
    """A whole frame came in from the controller."""

    frame: Frame


@dataclass(frozen=True, slots=True)
class SetPredicate:
    """`set_predicate(p)` of one application; overwrites its previous one (section 2)."""

    app: int
    predicate: Predicate


@dataclass(frozen=True, slots=True)
class SendMessage:
    """`send_message(m)` of one application (section 2)."""

    app: int
    message: Message


@dataclass(frozen=True, slots=True)
class ApplicationGone:
    """An application left; its predicate goes with it."""

    app: int


@dataclass(frozen=True, slots=True)
class RequestUpdate:
    """Issue a sender request now, whatever the policy (section 3.5.2).

    Through all interfaces, or those of `interfaces` beyond which this router's own tree goes on. A request
    that is still outstanding there is given up. Before the first epoch there is nobody to ask, and nothing
    happens.
    """

    interfaces: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class DeliveryRefused:
    """A layer around the core has refused a delivery of the last actions: the message is forged.

    Attributes:
        source, seq: of the message.
        forwarded: whether the message goes on to neighbours.
    """

    source: int
    seq: int
    forwarded: bool


@dataclass(frozen=True, slots=True)
class Settle:
    """Start nothing more of your own accord: no periodic RA, no SR by policy.

    For the end of a run.
    """


@dataclass(frozen=True, slots=True)
class HandlingTime:
    """The driver measured how long an SR or UR took to handle, in seconds: t_p of section 3.5.3."""

    seconds: float


class ServiceEvent:
    """Base of the events that a service adds to those of this module (`router.protocol.services`)."""

    __slots__ = ()


Event = (
    Started
    | Tick
    | FrameReceived
    | ControllerFrame
    | SetPredicate
    | SendMessage
    | ApplicationGone
    | RequestUpdate
    | DeliveryRefused
    | Settle
    | HandlingTime
    | ServiceEvent
)


@value
class Send:
    """Send `frame` out of every interface of the set, which is never empty and never holds 0."""

    interfaces: frozenset[int]
    frame: Frame


@dataclass(frozen=True, slots=True)
class SendToController:
    frame: Frame


@dataclass(frozen=True, slots=True)
class Deliver:
    """Pass a message up to the applications named, all of whose predicates select it."""

    apps: tuple[int, ...]
    source: int
    seq: int
    message: Message


@dataclass(frozen=True, slots=True)
class Accepted:
    """The answer to a SendMessage: the message has these identifiers.

    Comes before any `Deliver` of it.
    """

    app: int
    source: int
    seq: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The other answer to a SendMessage or SetPredicate: it was not taken, and why."""

    app: int
    reason: str


class ServiceAction:
    """Base of the actions that a service adds to those of this module (`router.protocol.services`).

    Drivers know nothing more of them: they pass `line` to the application and append `record` to the records
    of the service. `router.recording.actions` has a code for each class.
    """

    __slots__ = ()

    @property
    def application(self) -> int | None:
        """The application that gets `line`; None: the action is for the records alone."""
        return None

    def line(self) -> Mapping[str, Any] | None:
        """The event that the application reads from its socket, a JSON object; None: it reads nothing."""
        return None

    def record(self) -> Mapping[str, Any] | None:
        """The record of the service, without the fields that its writer adds; None: there is none."""
        return None


Action = Send | SendToController | Deliver | Accepted | Refused | ServiceAction
