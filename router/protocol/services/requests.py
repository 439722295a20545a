"""Values of the requests of applications: predicates, messages and numbers, each with a clear error."""

from __future__ import annotations

from typing import Any

from router.predicates.model import Message, Predicate
from router.predicates.parser import parse_message, parse_predicate
from router.protocol.service import Request, RequestError


def predicate_in(request: Request) -> Predicate:
    """The field `predicate`, in the readable notation.

    Raises:
        RequestError: it is no text.
        ParseError: it is no predicate.
    """
    text = request.get("predicate")
    if not isinstance(text, str):
        raise RequestError(f"predicate: expected a text, got {text!r}")
    return parse_predicate(text)


def message_in(request: Request) -> Message:
    """The field `message`, in the readable notation, or `attributes`, an object.

    Raises:
        RequestError: there is neither or both, or one is of another type.
        ParseError: it is no message.
    """
    text, attributes = request.get("message"), request.get("attributes")
    if (text is None) == (attributes is None):
        raise RequestError("expected either 'message' or 'attributes'")
    if isinstance(text, str):
        return parse_message(text)
    if isinstance(attributes, dict):
        try:
            return Message(attributes)
        except TypeError as error:
            raise RequestError(f"attributes: {error}") from error
    if text is not None:
        raise RequestError(f"message: expected a text, got {text!r}")
    raise RequestError(f"attributes: expected an object, got {attributes!r}")


def integer_in(request: Request, name: str, low: int, high: int) -> int:
    """A field that is an integer from `low` to `high`.

    Raises:
        RequestError: it is something else.
    """
    value: Any = request.get(name)
    # In JSON as in Python, true is no number.
    if type(value) is not int or not low <= value <= high:
        raise RequestError(f"{name}: expected an integer from {low} to {high}, got {value!r}")
    return value


def seconds_in(request: Request, name: str, high: float) -> float:
    """A field that is a number above 0 and at most `high`.

    Raises:
        RequestError: it is something else.
    """
    value: Any = request.get(name)
    if type(value) not in (int, float) or not 0 < value <= high:
        raise RequestError(f"{name}: expected a number above 0, at most {high:g}, got {value!r}")
    return float(value)
