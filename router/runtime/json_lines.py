"""The lines of the application socket: JSON objects, of which a routing table is written in steps."""

from __future__ import annotations

import json
import math
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from router.predicates.covering.budget import weight_of
from router.predicates.model import NOTHING
from router.predicates.printer import format_filter
from router.protocol.scheme import Row

#: The weight of filters that are written as text in one step, which takes a millisecond or two.
_WRITTEN = 200


class EncodedJson(NamedTuple):
    """A value of a JSON object that is encoded already.

    Attributes:
        parts: the pieces of its text.
    """

    parts: Sequence[bytes]


def parse_strictly(line: bytes) -> Any:
    """Parses JSON; an answer that repeats a value of it is JSON, too.

    Raises:
        ValueError: not JSON in UTF-8, or with NaN, an infinity, or a number that no double can have.
        RecursionError: nested too deeply.
    """
    return json.loads(line, parse_constant=_finite, parse_float=_finite)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is not finite")
    return number


def json_line(content: Mapping[str, Any]) -> bytes:
    """A JSON object as a line; its values may be `EncodedJson`."""
    encoded = {name: value for name, value in content.items() if isinstance(value, EncodedJson)}
    if not encoded:
        return _dumped(content) + b"\n"
    plain = {name: value for name, value in content.items() if name not in encoded}
    parts = [_dumped(plain)[:-1]]
    for name, value in encoded.items():
        parts += (b"," if len(parts) > 1 or plain else b"", _dumped(name), b":", *value.parts)
    # Once: a copy of a long line takes milliseconds.
    return b"".join((*parts, b"}\n"))


def rows_in_steps(rows: Iterable[Row]) -> Generator[None, None, EncodedJson]:
    """The rows of a routing table as JSON (`Row.as_json`), in steps of a few milliseconds at most."""
    parts: list[bytes] = [b"["]
    for row in rows:
        yield
        if len(parts) > 1:
            parts.append(b",")
        yield from _write(row, parts)
    parts.append(b"]")
    return EncodedJson(parts)


def _write(row: Row, parts: list[bytes]) -> Generator[None, None, None]:
    predicate = row.predicate
    if not predicate or predicate.unreadable is not None:
        parts.append(_dumped(row.as_json()))
        return
    # Without its filters a row is short.
    fields = replace(row, predicate=NOTHING).as_json()
    del fields["predicate"]
    parts.append(_dumped(fields)[:-1] + b',"predicate":"')
    texts: list[str] = []
    weight = 0
    for filter_ in predicate:
        own = weight_of(filter_)
        if texts and weight + own > _WRITTEN:
            parts += (_dumped(" or ".join(texts))[1:-1], b" or ")
            texts, weight = [], 0
            yield
        texts.append(format_filter(filter_))
        weight += own
    parts += (_dumped(" or ".join(texts))[1:-1], b'"}')


def _dumped(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
