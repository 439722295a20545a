"""Services: what a router offers to the applications on its node.

Protocol paper, section 2: `set_predicate` and `send_message`. A service says which events and socket commands
there are, what p0 is, and which applications get a message. `router.protocol.options.SERVICES` has the
services by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from router.content import Content, shown
from router.options import NoOptions
from router.predicates import Message
from router.protocol.context import Context, Part
from router.protocol.events import Action, ApplicationGone, Event
from router.protocol.routing import RoutingTable

#: A request of an application, decoded from JSON.
Request = Mapping[str, Any]
#: Passes an event to the core; returns the actions that are for applications.
Handle = Callable[[Event], Iterable[Action]]
#: The answer to a request, and the actions to carry out after it.
Answer = tuple[dict[str, Any], Iterable[Action]]
#: Serves a request. Raises RequestError.
Command = Callable[[Request, Handle], Answer]


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

    @classmethod
    @abstractmethod
    def session(cls, number: int, content: Content) -> Session:
        """A newly connected application."""


def integer_in(request: Request, name: str, low: int, high: int) -> int:
    """A field of a request that is an integer from `low` to `high`.

    Raises:
        RequestError: it is something else.
    """
    value: Any = request.get(name)
    # In JSON as in Python, true is no number.
    if type(value) is not int or not low <= value <= high:
        raise RequestError(f"{name}: expected an integer from {low} to {high}, got {shown(value)}")
    return value


def seconds_in(request: Request, name: str, high: float) -> float:
    """A field of a request that is a number above 0 and at most `high`.

    Raises:
        RequestError: it is something else.
    """
    value: Any = request.get(name)
    if type(value) not in (int, float) or not 0 < value <= high:
        raise RequestError(f"{name}: expected a number above 0, at most {high:g}, got {shown(value)}")
    return float(value)
