"""Predicates and messages of applications in recordings, as JSON."""

from __future__ import annotations

import json
from typing import Any

from router.predicates.encoded.model import BloomMessage, BloomPredicate
from router.predicates.model import Message, Predicate
from router.predicates.printer import predicate_from_json, predicate_to_json
from router.wire import private
from router.wire.format import FrameType


def predicate_json(predicate: Predicate) -> bytes:
    """A list of filters; of an encoded predicate, the bytes of its TLVs as a hexadecimal text."""
    if isinstance(predicate, BloomPredicate):
        return to_json(private.encode_predicate(predicate).hex())
    return to_json(predicate_to_json(predicate))


def read_predicate(data: bytes) -> Predicate:
    """The predicate of the JSON of `predicate_json`.

    Raises:
        ValueError: it has another form.
    """
    content = json.loads(data)
    if isinstance(content, str):
        return private.decode_predicate(FrameType.XRA, bytes.fromhex(content))
    return predicate_from_json(content)


def message_json(message: Message) -> bytes:
    """An object of the attributes; of a private message, the bytes of its TLVs as a hexadecimal text."""
    if isinstance(message, BloomMessage):
        return to_json(private.encode_message(message).hex())
    return to_json(message)


def read_message(data: bytes) -> Message:
    """The message of the output of `message_json`.

    Raises:
        ValueError, TypeError: it has another form.
    """
    content = json.loads(data)
    if not isinstance(content, str):
        return Message(content)
    body = private.decode_message(bytes.fromhex(content))
    if not isinstance(body, BloomMessage):
        raise ValueError("an application's message has no destinations")  # noqa: TRY004
    return body


def to_json(content: Any) -> bytes:
    """JSON without blanks."""
    return json.dumps(content, separators=(",", ":")).encode()
