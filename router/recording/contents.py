"""Predicates and messages of applications in recordings, as JSON.

The JSON of a large predicate is made in parts, since it may take 100 ms.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from router.predicates.encoded.model import BloomMessage, BloomPredicate
from router.predicates.model import Filter, Message, Predicate
from router.predicates.printer import predicate_from_json, predicate_to_json
from router.recording.long import Content, content_of
from router.wire import private
from router.wire.format import FrameType

#: Constraints, and sets of bits, whose JSON is made at once, some 1 ms.
_ENCODED, _SETS = 1_000, 200


def predicate_content(head: bytes, predicate: Predicate, tail: bytes = b"") -> Content:
    """The JSON of a predicate between other bytes.

    A list of filters; of an encoded predicate, the bytes of its TLVs as a hexadecimal text.
    """
    if isinstance(predicate, BloomPredicate):
        if len(predicate) <= _SETS:
            return content_of((head, _json(private.encode_predicate(predicate).hex()), tail))
        return _hexadecimal(head, predicate, tail)
    batches = _batches(predicate)
    first = next(batches)
    if len(first) == len(predicate) and not _is_long(first):
        return content_of((head, _json(predicate_to_json(predicate)), tail))
    return _in_parts(head, chain([first], batches), tail)


def _batches(predicate: Predicate) -> Iterator[tuple[Filter, ...]]:
    """The filters of a predicate, in batches of at most `_ENCODED` constraints, or of one filter."""
    start = weight = 0
    for end, filter_ in enumerate(predicate.filters):
        weight += 1 + len(filter_)
        if weight > _ENCODED and end > start:
            yield predicate.filters[start:end]
            start, weight = end, 1 + len(filter_)
    yield predicate.filters[start:]


def _is_long(batch: Sequence[Filter]) -> bool:
    return len(batch) == 1 and len(batch[0]) > _ENCODED


def _in_parts(head: bytes, batches: Iterable[tuple[Filter, ...]], tail: bytes) -> Iterator[bytes]:
    opening = head + b"["
    for batch in batches:
        if _is_long(batch):
            yield from _constraints_in_parts(opening + b"[", batch[0])
        else:
            yield opening + _json(predicate_to_json(Predicate(batch)))[1:-1]
        opening = b","
    yield b"]" + tail


def _constraints_in_parts(opening: bytes, filter_: Filter) -> Iterator[bytes]:
    for start in range(0, len(filter_), _ENCODED):
        some = Filter(filter_.constraints[start : start + _ENCODED])
        yield opening + _json(predicate_to_json(Predicate((some,))))[2:-2]
        opening = b","
    yield b"]"


def _hexadecimal(head: bytes, predicate: BloomPredicate, tail: bytes) -> Iterator[bytes]:
    yield head + b'"'
    for part in private.encode_in_parts(predicate, _SETS):
        yield part.hex().encode()
    yield b'"' + tail


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
