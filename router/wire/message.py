"""The body of a MSG: ATTRIBUTE TLVs, perhaps behind its destinations.

A router that sends a message on names other destinations to each neighbour, so they are kept apart from the
attributes: they are the first TLV of the body, which is cut off, and the rest is sent on as received.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from router.predicates import Message, Type
from router.wire.format import MAX_DESTINATIONS, DecodeReason, FrameType, Tlv
from router.wire.frames import AddressedMessage, EncodedMessage
from router.wire.header import TLV_FORMATS, DecodeError, struct_of
from router.wire.tlv import (
    INTEGER,
    TLV_HEADER,
    TLV_HEADER_LENGTH,
    OtherTlv,
    bad_utf8,
    decode_value,
    encode_tlv,
    overrun,
    skip_unknown,
    wrong_size,
)

_M = TypeVar("_M")
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
        if isinstance(value, str):
            data = value.encode()
            add(_NAMED.pack(_ATTRIBUTE, size + 2 + len(data), size) + raw + _STRING_MARK + data)
        elif isinstance(value, bool):
            add(_NAMED.pack(_ATTRIBUTE, size + 3, size) + raw + (_TRUE if value else _FALSE))
        elif isinstance(value, int):
            add(_NAMED.pack(_ATTRIBUTE, size + 10, size) + raw + _TYPED_INTEGER.pack(_INTEGER, value))
        else:
            add(_NAMED.pack(_ATTRIBUTE, size + 10, size) + raw + _TYPED_DOUBLE.pack(_DOUBLE, value))
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


def encode_message_body(body: Message | EncodedMessage) -> bytes:
    """The attributes of a MSG, as they came if they are encoded.

    Raises:
        ValueError: an attribute is outside the model.
    """
    return body.encoded if isinstance(body, EncodedMessage) else encode_message(body)


def encode_addressed(encode: Callable[[Any], bytes], body: object) -> bytes:
    """The body of a message, with its destinations if it has any.

    Args:
        encode: encodes the message.

    Raises:
        ValueError: a destination is outside the model; what `encode` raises.
    """
    if isinstance(body, AddressedMessage):
        return encode_destinations(body.destinations) + encode(body.message)
    return encode(body)


def decode_addressed(decode: Callable[[bytes], _M], body: bytes) -> _M | AddressedMessage:
    """Reads the body of a message.

    Args:
        decode: reads what is behind the destinations.

    Raises:
        DecodeError: the destinations break a rule of the format; what `decode` raises.
    """
    destinations, rest = split_destinations(body)
    message = decode(rest)
    return message if destinations is None else AddressedMessage(destinations, message)  # type: ignore[arg-type]


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


_FIRST = struct_of(TLV_FORMATS[Tlv.DESTINATION_MAP].fields)
_NODE = np.dtype(">u4")
_ONE = struct.Struct(">I")
_LIST, _MAP = int(Tlv.DESTINATIONS), int(Tlv.DESTINATION_MAP)
_NODE_MAX = 2**32 - 1


def encode_destinations(destinations: tuple[int, ...]) -> bytes:
    """The shorter of the two TLVs; a list, if both are as long.

    Raises:
        ValueError: no destination, too many, a number that is no node, or an order that does not ascend.
    """
    if len(destinations) == 1 and 0 <= destinations[0] <= _NODE_MAX:
        # Most PUBs have one, and an array costs more than all else.
        return encode_tlv(Tlv.DESTINATIONS, _ONE.pack(destinations[0]))
    first, last = (destinations[0], destinations[-1]) if destinations else (0, -1)
    ascending = all(a < b for a, b in pairwise(destinations))
    if not 0 <= first <= last <= _NODE_MAX or not ascending or len(destinations) > MAX_DESTINATIONS:
        raise ValueError(
            f"destinations {destinations}; expected 1 to {MAX_DESTINATIONS} nodes, each greater than the last"
        )
    bits = last - first + 1
    if _as_list(destinations):
        return encode_tlv(Tlv.DESTINATIONS, np.array(destinations, dtype=_NODE).tobytes())
    marked = np.zeros(bits, dtype=np.bool_)
    marked[np.array(destinations, dtype=np.int64) - first] = True
    return encode_tlv(Tlv.DESTINATION_MAP, _FIRST.pack(first) + np.packbits(marked).tobytes())


def _as_list(destinations: tuple[int, ...]) -> bool:
    bits = destinations[-1] - destinations[0] + 1
    return bits > MAX_DESTINATIONS or _NODE.itemsize * len(destinations) <= _FIRST.size + -(-bits // 8)


def split_destinations(body: bytes) -> tuple[tuple[int, ...] | None, bytes]:
    """The destinations of a message's body in ascending order (None: it has no such TLV), and its other TLVs.

    Raises:
        DecodeError: the TLV breaks a rule of the format.
    """
    if not body or body[0] not in (_LIST, _MAP):
        return None, body
    if len(body) < TLV_HEADER_LENGTH:
        raise overrun(0, len(body))
    number, length = TLV_HEADER.unpack_from(body)
    end = TLV_HEADER_LENGTH + length
    if end > len(body):
        raise overrun(0, len(body))
    value = body[TLV_HEADER_LENGTH:end]
    return (_listed(value) if number == _LIST else _mapped(value)), body[end:]


def _listed(value: bytes) -> tuple[int, ...]:
    size = _NODE.itemsize
    if len(value) % size:
        raise wrong_size(Tlv.DESTINATIONS, len(value), len(value) // size * size)
    _check_count(len(value) // size)
    nodes: npt.NDArray[np.int64] = np.frombuffer(value, dtype=_NODE).astype(np.int64)
    steps = np.diff(nodes)
    # The first wrong pair decides on the reason, as it does for a reader that takes one after the other.
    wrong = np.flatnonzero(steps <= 0)
    if wrong.size and steps[wrong[0]] == 0:
        raise DecodeError(DecodeReason.DUPLICATE_ENTRY, f"destination {nodes[wrong[0]]} twice in a message")
    if wrong.size:
        raise DecodeError(DecodeReason.BAD_VALUE, f"destination {nodes[wrong[0] + 1]} out of order")
    return tuple(nodes.tolist())


def _mapped(value: bytes) -> tuple[int, ...]:
    if len(value) < _FIRST.size:
        raise wrong_size(Tlv.DESTINATION_MAP, len(value), _FIRST.size)
    octets = np.frombuffer(value, dtype=np.uint8, offset=_FIRST.size)
    if octets.size * 8 > MAX_DESTINATIONS:
        raise DecodeError(DecodeReason.BAD_VALUE, f"{octets.size * 8} bits; at most {MAX_DESTINATIONS}")
    nodes = np.flatnonzero(np.unpackbits(octets)) + _FIRST.unpack_from(value)[0]
    _check_count(nodes.size)
    if nodes[-1] > _NODE_MAX:
        raise DecodeError(DecodeReason.BAD_VALUE, f"destination {nodes[-1]} does not fit in 32 bits")
    return tuple(nodes.tolist())


def _check_count(count: int) -> None:
    if not 1 <= count <= MAX_DESTINATIONS:
        raise DecodeError(DecodeReason.BAD_VALUE, f"{count} destinations; expected 1 to {MAX_DESTINATIONS}")
