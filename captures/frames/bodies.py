"""Bodies of frames as columns: each distinct body is decoded once, however many frames carry it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from captures.frames.columns import ATTRIBUTES, NUMBER, SCHEMA, TYPES, VALUE, VALUE_TYPES
from router.predicates import Value
from router.predicates.printer import format_predicate
from router.wire.bodies import BODIES
from router.wire.format import DecodeReason, FrameType
from router.wire.frames import Publication, Subscription
from router.wire.header import DecodeError
from router.wire.message import message_of

assert list(VALUE_TYPES) == ["string", "integer", "double", "boolean"]
#: Reasons that are not the codec's: no CBCB frame at all, or from a node that is at no end of the link.
NOT_ETHERNET, BAD_ETHERTYPE, BAD_SOURCE = "not_ethernet", "bad_ethertype", "bad_source"
REASONS = [None, NOT_ETHERNET, BAD_ETHERTYPE, BAD_SOURCE, *(reason.value for reason in DecodeReason)]
REASON_NUMBERS = {reason: number for number, reason in enumerate(REASONS)}
_INT64_MAX = 2**63 - 1
Int64s = npt.NDArray[np.int64]


def signed64(number: int) -> int:
    """The signed 64-bit number with the bits of an unsigned one: Spark has no unsigned type."""
    return number - 2**64 if number > _INT64_MAX else number


def _subscription(body: Subscription) -> dict[str, Any]:
    return {
        "round": body.round,
        "nonce": body.nonce,
        "remaining": body.remaining,
        "lifetime_left_us": min(body.lifetime_left_us, _INT64_MAX),
        "freshness_us": min(body.freshness_us, _INT64_MAX),
        "offered": [{"source": source, "seq": signed64(seq)} for source, seq in body.offered],
        "flags": int(body.flags),
    }


def _publication(body: Publication) -> dict[str, Any]:
    return {
        "source": body.source,
        "seq": signed64(body.seq),
        "age_us": min(body.age_us, _INT64_MAX),
        "flags": int(body.flags),
    }


#: Column -> the function from a decoded body to its value.
_Columns = Mapping[str, Callable[[Any], Any]]
_PREDICATE: _Columns = {"predicate": format_predicate}
_DESTINATIONS: _Columns = {"destinations": lambda body: getattr(body, "destinations", None)}
_PUBLICATION: _Columns = {"attributes": attrgetter("message"), "attention": _publication}
_ACKNOWLEDGED: _Columns = {"acknowledged": lambda body: TYPES[body.acknowledged]}
#: Frame type -> the columns of its body.
_COLUMNS_OF: Mapping[FrameType, _Columns] = {
    FrameType.MSG: {"attributes": message_of, **_DESTINATIONS},
    FrameType.XMSG: _DESTINATIONS,
    FrameType.RA: _PREDICATE,
    FrameType.UR: _PREDICATE,
    FrameType.XRA: _PREDICATE,
    FrameType.XUR: _PREDICATE,
    FrameType.SUB: {"predicate": lambda body: format_predicate(body.predicate), "attention": _subscription},
    FrameType.PUB: {**_PUBLICATION, "destinations": attrgetter("homes")},
    FrameType.FLUSH: _PUBLICATION,
    FrameType.OVERLOAD: {"attention": lambda body: {"round": body.round}},
    FrameType.SR: {"timeout_us": attrgetter("timeout_us")},
    FrameType.HELLO: {"incarnation": attrgetter("incarnation")},
    FrameType.COMMIT: {"oldest_epoch": attrgetter("oldest_epoch")},
    FrameType.ACK: _ACKNOWLEDGED,
    FrameType.RECEIPT: _ACKNOWLEDGED,
}


class BodyColumns:
    """Body columns of some frames, put together from the bodies of one frame type after the other."""

    def __init__(self, rows: int, names: Iterable[str]) -> None:
        #: Arrays of values of each column, and the place of each row's value in all of them; -1: null.
        self._values: dict[str, list[pa.Array]] = {name: [] for name in names}
        self._places = {name: np.full(rows, -1) for name in self._values}

    def add(self, name: str, rows: Int64s, index: Int64s, values: pa.Array) -> None:
        """Takes the values of a column: row i of `rows` has the value `values[index[i]]`."""
        self._places[name][rows] = sum(map(len, self._values[name])) + index
        self._values[name].append(values)

    def decode(self, number: int, rows: Int64s, bodies: pa.Array, *, compiled: bool) -> npt.NDArray[np.int8]:
        """Decodes whole bodies, one for each of `rows`, of the frame type that has `number`.

        Returns why each body does not decode, as an index into `REASONS`.

        Args:
            compiled: whether compiled code decodes the predicates that it accepts.
        """
        encoded = bodies.dictionary_encode()
        index, distinct, type_ = encoded.indices.to_numpy(), encoded.dictionary, FrameType(number)
        left = np.arange(len(distinct))
        if compiled and type_ in (FrameType.RA, FrameType.UR):
            from captures.frames.messages import decode_predicates

            accepted, texts = decode_predicates(distinct, texts="predicate" in self._values)
            if texts is not None:
                self.add("predicate", rows, index, texts)
            left = np.flatnonzero(~accepted)
        decoded, reasons = list[Any](), np.zeros(len(distinct), np.int8)
        for place, body in zip(left.tolist(), distinct.take(pa.array(left)).to_pylist(), strict=True):
            try:
                decoded.append(BODIES[type_].decode(body))
            except DecodeError as error:
                decoded.append(None)
                reasons[place] = REASON_NUMBERS[error.reason.value]
        chosen = np.flatnonzero(np.isin(index, left))
        for name, value_of in _COLUMNS_OF.get(type_, {}).items():
            if name in self._values:
                values = [None if body is None else value_of(body) for body in decoded]
                column = attribute_maps(values) if name == "attributes" else pa.array(values, _type(name))
                self.add(name, rows[chosen], np.searchsorted(left, index[chosen]), column)
        why: npt.NDArray[np.int8] = reasons[index]
        return why

    def column(self, name: str) -> pa.Array:
        """A body column of all frames."""
        values, place = self._values[name], self._places[name]
        if not values:
            return pa.nulls(len(place), _type(name))
        if len(values[0]) == len(place) and np.all((place < 0) | (place == np.arange(len(place)))):
            return values[0]
        return pa.concat_arrays(values).take(pa.array(place, mask=place < 0))


def _type(name: str) -> pa.DataType:
    return SCHEMA.field(name).type


def attribute_maps(messages: Sequence[Mapping[str, Value] | None]) -> pa.MapArray:
    """The attributes of messages as the column `attributes`; of None, null."""
    present: list[Mapping[str, Value]] = [message or {} for message in messages]
    names = [name for message in present for name in message]
    values = [value for message in present for value in message.values()]
    fields = [
        pa.array([value if type(value) is of else None for value in values], kind)
        for of, kind in zip((str, int, float, bool), VALUE_TYPES.values(), strict=True)
    ]
    fields.append(
        pa.array([float(value) if type(value) in (int, float) else None for value in values], NUMBER.type)
    )
    items = pa.StructArray.from_arrays(fields, fields=list(VALUE))
    offsets = np.concatenate(([0], np.cumsum([len(message) for message in present], dtype=np.int64)))
    mask = pa.array([message is None for message in messages], pa.bool_())
    return pa.MapArray.from_arrays(
        pa.array(offsets.astype(np.int32)), pa.array(names, pa.string()), items, type=ATTRIBUTES, mask=mask
    )
