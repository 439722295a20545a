"""The registry of bodies: how the body of each frame type is encoded and decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from router.predicates import Message, Predicate
from router.predicates.encoded import BloomMessage, BloomPredicate
from router.wire import frames, private
from router.wire.attention import (
    MAX_PUBLICATION_BYTES,
    MAX_SUB_BYTES,
    decode_publication,
    decode_subscription,
    encode_publication,
    encode_subscription,
)
from router.wire.format import DecodeReason, FrameType
from router.wire.header import EXPECTED_TYPES, FRAME_FORMATS, TLV_FORMATS, TYPE_NAMES, DecodeError, struct_of
from router.wire.message import decode_addressed, decode_message, encode_addressed, encode_message_body
from router.wire.predicate import decode_predicate, encode_predicate, filters_of
from router.wire.table import decode_table, encode_table
from router.wire.tlv import encode_tlv, tlvs_of


@dataclass(frozen=True, slots=True)
class BodyCodec:
    """How the body of one frame type is encoded and decoded.

    Attributes:
        type: the class of the body.
        others: further classes of the body that are encoded.
        encode: body -> bytes. Raises ValueError or struct.error where a part of it does not fit.
        decode: bytes -> body. Raises DecodeError.
        filters: of a body that is a predicate: bytes and the most constraints of a filter that are read ->
            its filters, one by one, with the errors of `decode`. A router reads a long one as far as
            its bounds admit.
        undecoded: of a body that a router mostly sends on unread: bytes -> a body of one of the classes
            `others`.
        most: bytes of a body that a router decodes. It refuses a longer one, which it leaves undecoded.
            None: any number.
        sent_on: whether routers send the body on as they received it, with TLVs of unknown types.
    """

    type: type
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]
    others: tuple[Any, ...] = ()
    filters: Callable[[bytes, int | None], Iterator[Any]] | None = None
    undecoded: Callable[[bytes], Any] | None = None
    most: int | None = None
    sent_on: bool = False

    def takes(self, body: object) -> bool:
        """Whether `encode` takes the body: classes derived from those named are of other frames."""
        return type(body) is self.type or type(body) in self.others


def _predicate(frame_type: FrameType, sent_on: bool, others: tuple[Any, ...] = ()) -> BodyCodec:
    return BodyCodec(
        Predicate,
        encode_predicate,
        partial(decode_predicate, frame_type),
        others,
        filters=partial(filters_of, frame_type),
        sent_on=sent_on,
    )


def _encoded_predicate(frame_type: FrameType, sent_on: bool) -> BodyCodec:
    return BodyCodec(
        BloomPredicate,
        private.encode_predicate,
        partial(private.decode_predicate, frame_type),
        filters=lambda body, _most: private.filters_of(frame_type, body),
        sent_on=sent_on,
    )


def _publication(frame_type: FrameType) -> BodyCodec:
    return BodyCodec(
        frames.Publication,
        partial(encode_publication, frame_type),
        partial(decode_publication, frame_type),
        most=MAX_PUBLICATION_BYTES,
    )


def _number(frame_type: FrameType, body: Any, read: Callable[[int], int] = int) -> BodyCodec:
    """Of a frame with one TLV of one number, and a class with one attribute of the name of the field.

    Args:
        read: makes the attribute of the number.
    """
    ((tlv, _),) = FRAME_FORMATS[frame_type].tlvs
    (field,) = TLV_FORMATS[tlv].fields
    number = struct_of([field])

    def decode(data: bytes) -> Any:
        ((_, start, _),) = tlvs_of(frame_type, data)
        return body(read(number.unpack_from(data, start)[0]))

    return BodyCodec(body, lambda value: encode_tlv(tlv, number.pack(getattr(value, field.name))), decode)


def _acknowledged(number: int) -> FrameType:
    if number not in TYPE_NAMES:
        raise DecodeError(
            DecodeReason.BAD_VALUE, f"acknowledged frame type {number}; expected {EXPECTED_TYPES}"
        )
    return FrameType(number)


BODIES: dict[FrameType, BodyCodec] = {
    FrameType.MSG: BodyCodec(
        Message,
        partial(encode_addressed, encode_message_body),
        partial(decode_addressed, decode_message),
        others=(frames.EncodedMessage, frames.AddressedMessage),
        undecoded=partial(decode_addressed, frames.EncodedMessage),
    ),
    FrameType.RA: _predicate(FrameType.RA, sent_on=True),
    FrameType.SR: _number(FrameType.SR, frames.SenderRequest),
    FrameType.UR: _predicate(FrameType.UR, sent_on=False, others=(frames.ClassifiedPredicate,)),
    FrameType.HELLO: _number(FrameType.HELLO, frames.Hello),
    FrameType.COMMIT: _number(FrameType.COMMIT, frames.Commit),
    FrameType.ACK: _number(FrameType.ACK, frames.Ack, _acknowledged),
    FrameType.SUB: BodyCodec(
        frames.Subscription, encode_subscription, decode_subscription, most=MAX_SUB_BYTES
    ),
    FrameType.PUB: _publication(FrameType.PUB),
    FrameType.OVERLOAD: _number(FrameType.OVERLOAD, frames.Overload),
    FrameType.FLUSH: _publication(FrameType.FLUSH),
    FrameType.XMSG: BodyCodec(
        BloomMessage,
        partial(encode_addressed, private.encode_message),
        partial(decode_addressed, private.decode_message),
        others=(frames.AddressedMessage,),
    ),
    FrameType.XRA: _encoded_predicate(FrameType.XRA, sent_on=True),
    FrameType.XUR: _encoded_predicate(FrameType.XUR, sent_on=False),
    FrameType.TABLE: BodyCodec(frames.BroadcastTable, encode_table, decode_table),
    FrameType.RECEIPT: _number(FrameType.RECEIPT, frames.Ack, _acknowledged),
}


def decode_encoded(body: frames.EncodedPredicate) -> Predicate:
    """The whole predicate of a body that was left undecoded.

    Raises:
        DecodeError: the body breaks a rule of the format.
    """
    predicate: Predicate = BODIES[body.frame_type].decode(body.encoded)
    return predicate


def filters_in(body: frames.EncodedPredicate, most: int | None = None) -> Iterator[Any]:
    """The filters of a predicate that was left undecoded, one by one.

    Args:
        most: constraints of a filter that are read, where filters have constraints; None: all.

    Raises:
        DecodeError: the body breaks a rule of the format at the filter that is due.
    """
    read = BODIES[body.frame_type].filters
    assert read is not None
    return read(body.encoded, most)
