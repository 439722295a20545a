"""The body of a MSG: ATTRIBUTE TLVs, perhaps behind its destinations."""

from __future__ import annotations

import struct
from typing import Any

from router.predicates.model import Message, Type, type_of
from router.wire.destinations import describe_destinations, encode_destinations, split_destinations
from router.wire.format import DecodeReason, FrameType, Tlv
from router.wire.frames import AddressedMessage, EncodedMessage
from router.wire.header import DecodeError
from router.wire.tlv import TLV_HEADER, TLV_HEADER_LENGTH, OtherTlv, overrun, skip_unknown
from router.wire.value import INTEGER, bad_utf8, decode_value

#: TLV header and name length; value type and value.
_NAMED = struct.Struct("!BIB")
_TYPED_INTEGER = struct.Struct("!Bq")
_TYPED_DOUBLE = struct.Struct("!Bd")
_unpack_tlv = TLV_HEADER.unpack_from
_unpack_integer = INTEGER.unpack_from
_ATTRIBUTE = int(Tlv.ATTRIBUTE)
_INTEGER = int(Type.INTEGER)
_DOUBLE = int(Type.DOUBLE)
_STRING_MARK = bytes((Type.STRING,))
_TRUE = bytes((Type.BOOLEAN, 1))
_FALSE = bytes((Type.BOOLEAN, 0))
#: `type_of` for values of exactly these types, without a call.
_TYPE_OF: dict[type, Type] = {str: Type.STRING, int: Type.INTEGER, float: Type.DOUBLE, bool: Type.BOOLEAN}


def encode_message(message: Message) -> bytes:
    """One ATTRIBUTE for each attribute, in the message's order.

    Raises:
        ValueError: an attribute is outside the model.
    """
    parts: list[bytes] = []
    add = parts.append
    for name, value in message.items():
        raw = name.encode()
        size = len(raw)
        type_ = _TYPE_OF.get(type(value)) or type_of(value)
        if type_ is Type.STRING:
            data = value.encode()  # type: ignore[union-attr]
            add(_NAMED.pack(_ATTRIBUTE, size + 2 + len(data), size) + raw + _STRING_MARK + data)
        elif type_ is Type.INTEGER:
            add(_NAMED.pack(_ATTRIBUTE, size + 10, size) + raw + _TYPED_INTEGER.pack(_INTEGER, value))
        elif type_ is Type.DOUBLE:
            add(_NAMED.pack(_ATTRIBUTE, size + 10, size) + raw + _TYPED_DOUBLE.pack(_DOUBLE, value))
        else:
            add(_NAMED.pack(_ATTRIBUTE, size + 3, size) + raw + (_TRUE if value else _FALSE))
    return b"".join(parts)


def _other_in_message(number: int, _start: int, _end: int) -> None:
    skip_unknown(number, FrameType.MSG)


def decode_message(body: bytes, other: OtherTlv = _other_in_message) -> Message:
    """Reads ATTRIBUTE TLVs; the hot path, so it walks the TLVs itself.

    Every rule of the model is checked, so the message is built without checking it a second time.

    Args:
        other: takes each TLV that is no ATTRIBUTE; of a MSG there are none but unknown ones.

    Raises:
        DecodeError: the body breaks a rule of the format.
    """
    message = Message.__new__(Message)
    offset = 0
    end = len(body)
    while offset < end:
        start = offset + TLV_HEADER_LENGTH
        if start > end:
            raise overrun(offset, end)
        number, length = _unpack_tlv(body, offset)
        offset = start + length
        if offset > end:
            raise overrun(start - TLV_HEADER_LENGTH, end)
        if number != _ATTRIBUTE:
            other(number, start, offset)
            continue
        if length < 3:
            raise DecodeError(DecodeReason.BAD_TLV, f"ATTRIBUTE of {length} bytes; expected at least 3")
        first = start + 1
        at = first + body[start]
        if at == first:
            raise DecodeError(DecodeReason.BAD_NAME, "empty attribute name")
        if at >= offset:
            raise DecodeError(DecodeReason.BAD_TLV, f"name of {body[start]} bytes leaves no room for a value")
        try:
            name = body[first:at].decode()
        except UnicodeDecodeError as error:
            raise bad_utf8(DecodeReason.BAD_NAME, "name", error) from None
        if name in message:
            raise DecodeError(DecodeReason.DUPLICATE_ATTRIBUTE, f"attribute {name!r} twice in a message")
        mark = body[at]
        if mark == _INTEGER and offset - at == 9:
            message[name] = _unpack_integer(body, at + 1)[0]
        else:
            message[name] = decode_value(name, mark, body, at + 1, offset)
    return message


def describe_message(message: Message) -> list[tuple[Tlv, dict[str, Any]]]:
    """The TLVs of a message by the field names of the format."""
    return [
        (Tlv.ATTRIBUTE, {"attribute_name": name, "value_type": type_of(value), "value": value})
        for name, value in message.items()
    ]


def encode_addressed(body: Message | EncodedMessage | AddressedMessage) -> bytes:
    """The body of a MSG, with its destinations if it has any.

    Raises:
        ValueError: an attribute or a destination is outside the model.
    """
    if isinstance(body, AddressedMessage):
        return encode_destinations(body.destinations) + encode_addressed(body.message)
    return body.encoded if isinstance(body, EncodedMessage) else encode_message(body)


def decode_addressed(body: bytes) -> Message | AddressedMessage:
    """Reads the body of a MSG.

    Raises:
        DecodeError: the body breaks a rule of the format.
    """
    destinations, rest = split_destinations(body)
    message = decode_message(rest)
    return message if destinations is None else AddressedMessage(destinations, message)


def undecoded(body: bytes) -> EncodedMessage | AddressedMessage:
    """The body of a MSG of which only the destinations are read.

    Raises:
        DecodeError: the destinations break a rule of the format.
    """
    destinations, rest = split_destinations(body)
    message = EncodedMessage(rest)
    return message if destinations is None else AddressedMessage(destinations, message)


def describe_addressed(
    body: Message | EncodedMessage | AddressedMessage,
) -> list[tuple[Tlv, dict[str, Any]]]:
    """The TLVs of the body of a MSG by the field names of the format."""
    addresses = describe_destinations(body.destinations) if isinstance(body, AddressedMessage) else []
    return addresses + describe_message(message_of(body))


def message_of(body: Message | EncodedMessage | AddressedMessage) -> Message:
    """The message; an `EncodedMessage` is decoded once.

    Raises:
        DecodeError: the body breaks a rule of the format.
    """
    if isinstance(body, AddressedMessage):
        body = body.message
    if isinstance(body, Message):
        return body
    if body.decoded is None:
        body.decoded = decode_message(body.encoded)
    return body.decoded
