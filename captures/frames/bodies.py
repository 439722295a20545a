"""Bodies of frames as columns: each distinct body is decoded once, however many frames carry it."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from captures.frames.columns import ATTRIBUTES, BODY_COLUMNS, NUMBER, SCHEMA, TYPES, VALUE, VALUE_TYPES
from router.predicates.model import Message, Value
from router.predicates.printer import format_predicate
from router.wire.bodies import BODIES
from router.wire.format import FrameType
from router.wire.frames import Publication, Subscription
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
    attention: dict[str, Any] | None = None
    reason: str | None = None


NOTHING = BodyValues()
_INT64_MAX = 2**63 - 1


def _signed(seq: int) -> int:
    return seq if seq <= _INT64_MAX else seq - 2**64


def _subscription(body: Subscription) -> dict[str, Any]:
    return {
        "round": body.round,
        "nonce": body.nonce,
        "remaining": body.remaining,
        "lifetime_left_us": min(body.lifetime_left_us, _INT64_MAX),
        "freshness_us": min(body.freshness_us, _INT64_MAX),
        "offered": [{"source": source, "seq": _signed(seq)} for source, seq in body.offered],
        "flags": int(body.flags),
    }


def _publication(body: Publication) -> dict[str, Any]:
    return {
        "source": body.source,
        "seq": _signed(body.seq),
        "age_us": min(body.age_us, _INT64_MAX),
        "flags": int(body.flags),
        "homes": list(body.homes),
    }


#: Column -> the function from a decoded body to its value.
_Columns = Mapping[str, Callable[[Any], Any]]
_PREDICATE: _Columns = {"predicate": format_predicate}
_PUBLICATION: _Columns = {"attributes": attrgetter("message"), "attention": _publication}
_ACKNOWLEDGED: _Columns = {"acknowledged": lambda body: TYPES[body.acknowledged]}
#: Frame type -> the columns of its body.
_COLUMNS_OF: Mapping[FrameType, _Columns] = {
    FrameType.MSG: {"attributes": message_of},
    FrameType.RA: _PREDICATE,
    FrameType.UR: _PREDICATE,
    FrameType.XRA: _PREDICATE,
    FrameType.XUR: _PREDICATE,
    FrameType.SUB: {
        "predicate": lambda body: format_predicate(body.predicate),
        "attention": _subscription,
    },
    FrameType.PUB: _PUBLICATION,
    FrameType.FLUSH: _PUBLICATION,
    FrameType.OVERLOAD: {"attention": lambda body: {"round": body.round}},
    FrameType.SR: {"timeout_us": attrgetter("timeout_us")},
    FrameType.HELLO: {"incarnation": attrgetter("incarnation")},
    FrameType.COMMIT: {"oldest_epoch": attrgetter("oldest_epoch")},
    FrameType.ACK: _ACKNOWLEDGED,
    FrameType.RECEIPT: _ACKNOWLEDGED,
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
    columns = _COLUMNS_OF.get(type_, {})
    return NOTHING._replace(**{name: value_of(decoded) for name, value_of in columns.items()})


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
        column = attribute_maps(values) if name == "attributes" else pa.array(values, SCHEMA.field(name).type)
        if not compiled:
            columns[name] = column.take(pa.array(index))
        else:
            # The columns of compiled code, and behind them the other bodies.
            place = np.where(index > 0, len(index) + index, np.arange(len(index)))
            columns[name] = pa.concat_arrays([compiled[name], column]).take(pa.array(place))
    return columns


def attribute_maps(messages: Sequence[Mapping[str, Value] | None]) -> pa.MapArray:
    """The attributes of messages as the column `attributes`; of None, null."""
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
