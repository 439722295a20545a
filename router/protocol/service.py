"""The interface of services: what a router offers to the applications on its node.

Protocol paper, section 2: `set_predicate` and `send_message`. A service says which events and socket commands
there are, what p0 is, and which applications get a message. `router.protocol.registries.SERVICES` has the
services by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from router.content.base import Content
from router.predicates.model import Message, Predicate
from router.protocol.context import Context
from router.protocol.events import Action, ApplicationGone, Event
from router.protocol.parts import Part
from router.protocol.routing import RoutingTable

#: A request of an application, decoded from JSON.
Request = Mapping[str, Any]
#: Passes an event to the core; returns the actions that are for applications.
Handle = Callable[[Event], Iterable[Action]]
#: The answer to a request, and the actions to carry out after it.
Answer = tuple[dict[str, Any], Iterable[Action]]
#: A request that is served in several turns. It yields False at the end of a step, and True to wait until the
#: core names the application in an action, which is then sent in.
Steps = Generator[bool, Action | None, Answer]
#: Serves a request, at once or in steps. Raises RequestError.
Command = Callable[[Request, Handle], Answer | Steps]


class RequestError(ValueError):
    """A request that cannot be served; the message tells the application why."""


class Session(ABC):
    """An application that is connected to the socket of its router.

    Args:
        number: the application's, as events name it.
        content: what predicates and messages are.
    """

    def __init__(self, number: int, content: Content) -> None:
        self.number = number
        self.content = content

    @abstractmethod
    def commands(self) -> Mapping[str, Command]:
        """The commands of the service: value of `op` -> how it is served."""


class DecidingPredicates(Protocol):
    """The predicates that alone decide which applications get a message.

    Attributes:
        changes: how often one of them has changed.
    """

    changes: int

    def by_application(self) -> Mapping[int, Predicate]:
        """The predicates that select something, by application, in the order of `Service.receivers`."""


@dataclass(frozen=True, slots=True)
class NoOptions:
    """The options of a service without options."""


class Service(Part, ABC):
    """A service at one router.

    Attributes:
        options: the dataclass of the service's options (`router.options.option`): the keys of [service]
            beside `kind`; `RouterOptions.service_options` is an object of the class.
        sends_messages: whether applications send messages of the routing scheme.
        keeps_records: whether its actions have records (`ServiceAction.record`), for which drivers open a
            file.

    Args:
        context: of the router.
        routing: its entry for interface 0 is p0, which the service keeps; other entries are the scheme's.
            After a change of p0 the service calls `context.parts.local_changed`.
    """

    options: ClassVar[type] = NoOptions
    sends_messages: ClassVar[bool] = True
    keeps_records: ClassVar[bool] = False

    def __init__(self, context: Context, routing: RoutingTable) -> None:
        self.context = context
        self.routing = routing

    def parts(self) -> Sequence[Part]:
        """Further parts of the router that the service needs."""
        return ()

    @abstractmethod
    def application_gone(self, event: ApplicationGone, now: float) -> list[Action]:
        """An application was disconnected."""

    @abstractmethod
    def receivers(self, message: Message) -> tuple[int, ...]:
        """The applications that get a message which p0 selects; each call is about another message."""

    def search(self, message: Message) -> Iterator[None] | None:  # noqa: ARG002
        """The work to be done, turn by turn, before `receivers` is asked about a message; None: none."""
        return None

    def deciding_predicates(self) -> DecidingPredicates | None:
        """How compiled code may deliver messages, and take them from applications (`router.forwarding`).

        Returns:
            The predicates of the applications, in a service whose `receivers` are those whose predicate
            selects the message, and whose command `send_message` passes a message on by the event
            SendMessage. None: only the service can do either.
        """
        return None

    @classmethod
    @abstractmethod
    def session(cls, number: int, content: Content) -> Session:
        """A newly connected application."""
