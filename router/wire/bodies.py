"""The registry of bodies: how the body of each frame type is encoded, decoded and described."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from router.predicates.model import Message, Predicate
from router.wire.format import FrameType, Tlv
from router.wire.frames import Ack, BroadcastTable, Commit, Hello, SenderRequest
from router.wire.message import decode_addressed, describe_addressed, encode_addressed
from router.wire.number import NumberCodec, frame_type_of
from router.wire.predicate import decode_predicate, describe_predicate, encode_predicate
from router.wire.table import decode_table, describe_table, encode_table


@dataclass(frozen=True, slots=True)
class BodyCodec:
    """How the body of one frame type is encoded, decoded and described.

    Attributes:
        type: the class of the body.
        encode: body -> bytes. Raises ValueError or struct.error where a part of it does not fit.
        decode: bytes -> body. Raises DecodeError.
        describe: body -> its TLVs, each as its type and its fields by the names of the format; lengths and
            counts are left out.
    """

    type: type
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]
    describe: Callable[[Any], list[tuple[Tlv, dict[str, Any]]]]


def _predicate(frame_type: FrameType) -> BodyCodec:
    return BodyCodec(Predicate, encode_predicate, partial(decode_predicate, frame_type), describe_predicate)


def _number(frame_type: FrameType, body: Any, read: Callable[[int], int] = int) -> BodyCodec:
    """Of a body class whose one attribute is named like the field; `read` makes it of the number."""
    codec = NumberCodec(frame_type)
    return BodyCodec(
        body,
        lambda value: codec.encode(getattr(value, codec.field)),
        lambda data: body(read(codec.decode(data))),
        lambda value: [(codec.tlv, {codec.field: getattr(value, codec.field)})],
    )


BODIES: dict[FrameType, BodyCodec] = {
    FrameType.MSG: BodyCodec(Message, encode_addressed, decode_addressed, describe_addressed),
    FrameType.RA: _predicate(FrameType.RA),
    FrameType.SR: _number(FrameType.SR, SenderRequest),
    FrameType.UR: _predicate(FrameType.UR),
    FrameType.HELLO: _number(FrameType.HELLO, Hello),
    FrameType.COMMIT: _number(FrameType.COMMIT, Commit),
    FrameType.ACK: _number(FrameType.ACK, Ack, frame_type_of),
    FrameType.TABLE: BodyCodec(BroadcastTable, encode_table, decode_table, describe_table),
}
