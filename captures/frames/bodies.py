"""Bodies of frames as columns: each distinct body is decoded once, however many frames carry it."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from captures.frames.columns import ATTRIBUTES, BODY_COLUMNS, SCHEMA, VALUE, VALUE_TYPES
from router.predicates.model import Message, Predicate, Value
from router.predicates.printer import format_predicate
from router.wire.codec import decode_body
from router.wire.frames import Ack, Commit, FrameType, Hello, SenderRequest
from router.wire.header import DecodeError, Header

#: Python type of a value -> its place among the fields of a value in `attributes`.
_KINDS = {str: 0, int: 1, float: 2, bool: 3}
assert list(VALUE_TYPES) == ["string", "integer", "double", "boolean"]


class BodyValues(NamedTuple):
    """What a body gives for each body column, and why it does not decode (None: it does)."""

    attributes: Message | None = None
    predicate: str | None = None
    timeout_us: int | None = None
    incarnation: int | None = None
    oldest_epoch: int | None = None
    acknowledged: str | None = None
    reason: str | None = None


NOTHING = BodyValues()
#: Longer bodies are decoded each time: what is remembered may take so many bytes 16,384 times, with values.
_REMEMBERED_BYTES = 2_048


def body_values(kind: int, body: bytes) -> BodyValues:
    """The columns of a whole body of frame type number `kind`."""
    return _remembered(kind, body) if len(body) <= _REMEMBERED_BYTES else _decoded(kind, body)


@lru_cache(maxsize=16_384)
def _remembered(kind: int, body: bytes) -> BodyValues:
    return _decoded(kind, body)


def _decoded(kind: int, body: bytes) -> BodyValues:
    header = Header(FrameType(kind), 0, 0, 0, 0, 0, len(body), 0, 1, len(body))
    try:
        decoded = decode_body(header, body)
    except DecodeError as error:
        return BodyValues(reason=error.reason.value)
    if isinstance(decoded, Message):
        return BodyValues(attributes=decoded)
    if isinstance(decoded, Predicate):
        return BodyValues(predicate=format_predicate(decoded))
    if isinstance(decoded, SenderRequest):
        return BodyValues(timeout_us=decoded.timeout_us)
    if isinstance(decoded, Hello):
        return BodyValues(incarnation=decoded.incarnation)
    if isinstance(decoded, Commit):
        return BodyValues(oldest_epoch=decoded.oldest_epoch)
    if isinstance(decoded, Ack):
        return BodyValues(acknowledged=decoded.acknowledged.name)
    return NOTHING


def body_columns(
    distinct: Sequence[BodyValues], index: npt.NDArray[np.int64], wanted: Container[str] = BODY_COLUMNS
) -> dict[str, pa.Array]:
    """The body columns wanted of frames, of which frame i has the body `distinct[index[i]]`."""
    rows = pa.array(index)
    columns = {}
    for name in BODY_COLUMNS:
        if name in wanted:
            values = [getattr(each, name) for each in distinct]
            column = _maps(values) if name == "attributes" else pa.array(values, SCHEMA.field(name).type)
            columns[name] = column.take(rows)
    return columns


def _maps(messages: Sequence[Message | None]) -> pa.MapArray:
    present: list[Mapping[str, Value]] = [message or {} for message in messages]
    names = [name for message in present for name in message]
    values = [value for message in present for value in message.values()]
    kinds = np.array([_KINDS[type(value)] for value in values], np.int8)
    fields = []
    for number, kind in enumerate(VALUE_TYPES.values()):
        # The values of one type close together, and from there to their places.
        ours = kinds == number
        dense = pa.array([value for value, here in zip(values, ours.tolist(), strict=True) if here], kind)
        fields.append(dense.take(pa.array(np.cumsum(ours) - 1, mask=~ours)))
    items = pa.StructArray.from_arrays(fields, fields=list(VALUE))
    offsets = np.concatenate(([0], np.cumsum([len(message) for message in present], dtype=np.int64)))
    mask = pa.array([message is None for message in messages], pa.bool_())
    return pa.MapArray.from_arrays(
        pa.array(offsets.astype(np.int32)), pa.array(names, pa.string()), items, type=ATTRIBUTES, mask=mask
    )
