"""Predicates and messages of applications in recordings, as JSON.

The JSON of a large predicate is made in parts, since it may take 100 ms.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from router.predicates.encoded.model import BloomMessage, BloomPredicate
from router.predicates.model import Message, Predicate
from router.predicates.printer import predicate_from_json, predicate_to_json
from router.recording.long import Content, content_of
from router.wire import private
from router.wire.format import FrameType

#: Constraints whose JSON is made at once, some 1 ms.
_ENCODED = 1_000


def predicate_content(head: bytes, predicate: Predicate, tail: bytes = b"") -> Content:
    """The JSON of a predicate between other bytes.

    A list of filters; of an encoded predicate, the bytes of its TLVs as a hexadecimal text.
    """
    if isinstance(predicate, BloomPredicate):
        return content_of((head, _json(private.encode_predicate(predicate).hex()), tail))
    parts = _filters_json(predicate)
    first = next(parts)
    if len(first) == len(predicate):
        return content_of((head, _json(first), tail))
    return _in_parts(head, first, parts, tail)


def _filters_json(predicate: Predicate) -> Iterator[list[Any]]:
    """The filters of a predicate in JSON, in lists of at most `_ENCODED` constraints, or of one filter."""
    start = weight = 0
    for end, filter_ in enumerate(predicate.filters):
        weight += 1 + len(filter_.constraints)
        if weight > _ENCODED and end > start:
            yield predicate_to_json(Predicate(predicate.filters[start:end]))
            start, weight = end, 1 + len(filter_.constraints)
    yield predicate_to_json(Predicate(predicate.filters[start:]))


def _in_parts(head: bytes, first: list[Any], others: Iterator[list[Any]], tail: bytes) -> Iterator[bytes]:
    yield head + _json(first)[:-1]
    for filters in others:
        yield b"," + _json(filters)[1:-1]
    yield b"]" + tail


def read_predicate(data: bytes) -> Predicate:
    """The predicate of the JSON of `predicate_content`.

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
        return _json(private.encode_message(message).hex())
    return _json(message)


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


def _json(content: Any) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()
