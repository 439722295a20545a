"""Bodies of frames as columns: each distinct body is decoded once, however many frames carry it."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from captures.frames.columns import ATTRIBUTES, BODY_COLUMNS, NUMBER, SCHEMA, VALUE, VALUE_TYPES
from router.predicates.model import Message, Value
from router.predicates.printer import format_predicate
from router.wire.bodies import BODIES
from router.wire.format import FrameType
from router.wire.header import DecodeError
from router.wire.message import message_of

#: Python type of a value -> its place among the fields of a value in `attributes`.
_KINDS = {str: 0, int: 1, float: 2, bool: 3}
assert list(VALUE_TYPES) == ["string", "integer", "double", "boolean"]


class BodyValues(NamedTuple):
    """The value of each body column of a body, and the reason why a body does not decode (None: it does)."""

    attributes: Message | None = None
    predicate: str | None = None
    timeout_us: int | None = None
    incarnation: int | None = None
    oldest_epoch: int | None = None
    acknowledged: str | None = None
    reason: str | None = None


NOTHING = BodyValues()
#: Frame type -> the column of its body, and the function from a decoded body to the value of the column.
_COLUMN_OF: dict[FrameType, tuple[str, Callable[[Any], Any]]] = {
    FrameType.MSG: ("attributes", message_of),
    FrameType.RA: ("predicate", format_predicate),
    FrameType.UR: ("predicate", format_predicate),
    FrameType.XRA: ("predicate", format_predicate),
    FrameType.XUR: ("predicate", format_predicate),
    FrameType.SUB: ("predicate", lambda body: format_predicate(body.predicate)),
    FrameType.PUB: ("attributes", attrgetter("message")),
    FrameType.FLUSH: ("attributes", attrgetter("message")),
    FrameType.SR: ("timeout_us", attrgetter("timeout_us")),
    FrameType.HELLO: ("incarnation", attrgetter("incarnation")),
    FrameType.COMMIT: ("oldest_epoch", attrgetter("oldest_epoch")),
    FrameType.ACK: ("acknowledged", attrgetter("acknowledged.name")),
    FrameType.RECEIPT: ("acknowledged", attrgetter("acknowledged.name")),
}
#: Longer bodies are decoded each time, so that the cache has a bound: 16,384 bodies of so many bytes.
_REMEMBERED_BYTES = 2_048


def body_values(number: int, body: bytes) -> BodyValues:
    """The columns of a whole body of the frame type that has `number`."""
    return _remembered(number, body) if len(body) <= _REMEMBERED_BYTES else _decoded(number, body)


@lru_cache(maxsize=16_384)
def _remembered(number: int, body: bytes) -> BodyValues:
    return _decoded(number, body)


def _decoded(number: int, body: bytes) -> BodyValues:
    type_ = FrameType(number)
    try:
        decoded = BODIES[type_].decode(body)
    except DecodeError as error:
        return BodyValues(reason=error.reason.value)
    if type_ not in _COLUMN_OF:
        return NOTHING
    column, value_of = _COLUMN_OF[type_]
    return NOTHING._replace(**{column: value_of(decoded)})


def body_columns(
    distinct: Sequence[BodyValues],
    index: npt.NDArray[np.int64],
    wanted: Container[str] = BODY_COLUMNS,
    compiled: Mapping[str, pa.Array] | None = None,
) -> dict[str, pa.Array]:
    """Returns the required body columns of frames, of which frame i has the body `distinct[index[i]]`.

    Args:
        compiled: the columns of the frames whose body is `distinct[0]`; by default these have no body.
    """
    columns = {}
    for name in BODY_COLUMNS:
        if name not in wanted:
            continue
        values = [getattr(each, name) for each in distinct]
        if compiled and values.count(None) == len(values):
            columns[name] = compiled[name]
            continue
        column = _maps(values) if name == "attributes" else pa.array(values, SCHEMA.field(name).type)
        if not compiled:
            columns[name] = column.take(pa.array(index))
        else:
            # The columns of compiled code, and behind them the other bodies.
            place = np.where(index > 0, len(index) + index, np.arange(len(index)))
            columns[name] = pa.concat_arrays([compiled[name], column]).take(pa.array(place))
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
    numbers = (kinds == _KINDS[int]) | (kinds == _KINDS[float])
    dense = pa.array(
        [float(value) for value, here in zip(values, numbers.tolist(), strict=True) if here], NUMBER.type
    )
    fields.append(dense.take(pa.array(np.cumsum(numbers) - 1, mask=~numbers)))
    items = pa.StructArray.from_arrays(fields, fields=list(VALUE))
    offsets = np.concatenate(([0], np.cumsum([len(message) for message in present], dtype=np.int64)))
    mask = pa.array([message is None for message in messages], pa.bool_())
    return pa.MapArray.from_arrays(
        pa.array(offsets.astype(np.int32)), pa.array(names, pa.string()), items, type=ATTRIBUTES, mask=mask
    )
