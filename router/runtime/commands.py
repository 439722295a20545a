"""The commands of the application socket: what each sends, and what its answer means.

Each is a method of `router.runtime.client.Client`, which waits for the answer, and of
`router.runtime.async_client.AsyncClient`, which awaits it; drivers of many clients pass it to `Client.start`.
The methods raise ClientError if the router refuses the command or does not answer, and ValueError if a text
is no predicate or message in the readable notation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from router.predicates import Message, Predicate
from router.predicates.parser import parse_message, parse_predicate
from router.predicates.printer import format_predicate

T = TypeVar("T")


def _nothing(_answer: Mapping[str, Any]) -> None:
    """The value of an answer that says only that the request was served."""


@dataclass(frozen=True, slots=True)
class Command(Generic[T]):
    """A request to a router.

    Attributes:
        value: what an answer with `ok` means; raises KeyError, TypeError or ValueError: it is no such answer.
    """

    op: str
    value: Callable[[Mapping[str, Any]], T]
    fields: Mapping[str, Any] = field(default_factory=dict)


def hello(app: str | None) -> Command[tuple[str, int, frozenset[str]]]:
    """Begins the connection: name of the application, node of the router, commands of its service."""
    return Command(
        "hello",
        lambda answer: (str(answer["app"]), int(answer["node"]), frozenset(answer.get("commands", ()))),
        {} if app is None else {"app": app},
    )


def send_message(message: Message | str) -> Command[tuple[int, int]]:
    """Sends a message (text: readable notation); returns its (source, seq)."""
    return Command("send_message", _identity, {"attributes": _message(message)})


def set_predicate(predicate: Predicate | str) -> Command[None]:
    """Declares this application's predicate, in place of the last predicate that it declared."""
    return Command("set_predicate", _nothing, {"predicate": _text(predicate)})


def subscribe(predicate: Predicate | str) -> Command[int]:
    """Subscribes to the messages of `predicate`.

    Returns the number of the subscription.

    An application receives the messages that its declared predicate or any of its subscriptions selects,
    each message once.
    """
    return Command("subscribe", _number, {"predicate": _text(predicate)})


def unsubscribe(subscription: int) -> Command[None]:
    """Revokes a subscription."""
    return Command("unsubscribe", _nothing, {"subscription": subscription})


def register(
    predicate: Predicate | str, max: int, lifetime_s: float, freshness_s: float, refreshed: bool = False
) -> Command[int]:
    """Registers a subscription with the attention-limited service.

    Returns its number.

    Args:
        max: greatest number of publications of a round.
        lifetime_s: duration of a round, experiment seconds.
        freshness_s: greatest age of a publication, experiment seconds.
        refreshed: it continues a subscription that the router forgot; no publication comes twice.

    Raises:
        ValueError: a duration is not finite.
    """
    if not math.isfinite(lifetime_s) or not math.isfinite(freshness_s):
        raise ValueError(f"lifetime_s, freshness_s: {lifetime_s}, {freshness_s}; JSON has finite numbers")
    limits = {"max": max, "lifetime_s": lifetime_s, "freshness_s": freshness_s}
    again = {"refreshed": True} if refreshed else {}
    return Command("register", _number, {"predicate": _text(predicate), **limits, **again})


def refresh(subscription: int) -> Command[int]:
    """Refreshes a subscription whose round is over; returns the number of the round."""
    return Command("refresh", lambda answer: int(answer["round"]), {"subscription": subscription})


def unregister(subscription: int) -> Command[None]:
    """Withdraws a subscription of the attention-limited service."""
    return Command("unregister", _nothing, {"subscription": subscription})


def publish(message: Message | str) -> Command[tuple[int, int]]:
    """Uploads a publication (text: readable notation) to the attention-limited service.

    Returns its (source, seq).
    """
    return Command("publish", _identity, {"attributes": _message(message)})


def subscriptions() -> Command[dict[int, Predicate]]:
    """Returns this application's subscriptions at the router, by number."""
    return Command(
        "subscriptions",
        lambda answer: {int(n): parse_predicate(text) for n, text in answer["subscriptions"].items()},
    )


def status(tables: bool = True) -> Command[dict[str, Any]]:
    """Returns counters and tables of the router: see `router.runtime.loop.RouterLoop.status`.

    Args:
        tables: False leaves out the predicates and interfaces, for callers that ask often.
    """
    return Command("status", dict, {"tables": tables})


def request_update() -> Command[None]:
    """Makes the router send an SR through every interface (paper, section 3.5.2)."""
    return Command("request_update", _nothing)


def settle() -> Command[None]:
    """Stops the router's periodic sending, so that the network becomes quiet."""
    return Command("settle", _nothing)


def _message(message: Message | str) -> Message:
    return parse_message(message) if isinstance(message, str) else message


def _text(predicate: Predicate | str) -> str:
    return format_predicate(parse_predicate(predicate) if isinstance(predicate, str) else predicate)


def _identity(answer: Mapping[str, Any]) -> tuple[int, int]:
    return int(answer["source"]), int(answer["seq"])


def _number(answer: Mapping[str, Any]) -> int:
    return int(answer["subscription"])
