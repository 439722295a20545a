"""Frames to bytes and back: the struct codec of the forwarding path.

The format is docs/wire-format.md. `router.wire.layers` describes the same bytes for Scapy; shared
vectors and property tests hold the two equal. On any bytes, decoding returns or raises `DecodeError`.

A sender calls `fragment`; a receiver hands each Ethernet payload to
`router.wire.fragments.Reassembler` and what comes back to `read_frame`.
"""

from __future__ import annotations

import struct

from router.predicates.model import Message, Predicate
from router.wire import tlv
from router.wire.frames import (
    VERSION,
    Ack,
    Body,
    BroadcastTable,
    Commit,
    EncodedMessage,
    Flags,
    Frame,
    FrameType,
    Hello,
    SenderRequest,
)
from router.wire.header import (
    HEADER,
    HEADER_LENGTH,
    MAX_BODY_LENGTH,
    TYPE_NAMES,
    DecodeError,
    DecodeReason,
    Header,
    decode_header,
)

__all__ = [
    "HEADER",
    "HEADER_LENGTH",
    "MAX_BODY_LENGTH",
    "TYPE_NAMES",
    "DecodeError",
    "DecodeReason",
    "Header",
    "decode",
    "decode_body",
    "decode_header",
    "encode",
    "encode_body",
    "forwarded_frame",
    "fragment",
    "read_frame",
]

DEFAULT_MTU = 1500
_U16_MAX = 65_535
_BODY_TYPES: dict[FrameType, type] = {
    FrameType.MSG: Message,
    FrameType.RA: Predicate,
    FrameType.SR: SenderRequest,
    FrameType.UR: Predicate,
    FrameType.HELLO: Hello,
    FrameType.TABLE: BroadcastTable,
    FrameType.COMMIT: Commit,
    FrameType.ACK: Ack,
}
#: Looking a member up in a dictionary is several times cheaper than calling the enumeration.
_FLAGS = {number: Flags(number) for number in range(256)}
_FRAME_TYPES = {int(kind): kind for kind in FrameType}


def encode_body(frame: Frame) -> bytes:
    """The body of a frame as TLVs.

    Raises:
        ValueError: the body is not of the kind that the frame's type has, is outside the model, or
            is longer than `MAX_BODY_LENGTH`.
    """
    expected = _BODY_TYPES[frame.type]
    if frame.type is FrameType.MSG and isinstance(frame.body, EncodedMessage):
        return frame.body.encoded
    if not isinstance(frame.body, expected):
        raise ValueError(  # noqa: TRY004 - callers guard against ValueError, whatever is wrong with a frame
            f"{frame.type.name} has a body of type {type(frame.body).__name__}; expected {expected.__name__}"
        )
    body = tlv.encode_body(frame.body)
    if len(body) > MAX_BODY_LENGTH:
        raise ValueError(f"{frame.type.name} with a body of {len(body)} bytes; at most {MAX_BODY_LENGTH}")
    return body


def encode(frame: Frame) -> bytes:
    """A frame as one Ethernet payload, whatever the MTU.

    Raises:
        ValueError: as `encode_body`; a header field does not fit; the body exceeds 65,535 bytes.
    """
    body = encode_body(frame)
    if len(body) > _U16_MAX:
        raise ValueError(f"body of {len(body)} bytes does not fit in one frame; at most {_U16_MAX}")
    return _pack_header(frame, len(body), 0, 1, len(body)) + body


def fragment(frame: Frame, mtu: int = DEFAULT_MTU) -> list[bytes]:
    """A frame as Ethernet payloads of at most `mtu` bytes each, in the order of their index.

    Raises:
        ValueError: as `encode_body`; a header field does not fit; the MTU leaves no room for a
            body; the body needs more than 65,535 fragments.
    """
    room = min(mtu - HEADER_LENGTH, _U16_MAX)
    if room < 1:
        raise ValueError(f"mtu {mtu}; expected more than the {HEADER_LENGTH} bytes of the header")
    body = encode_body(frame)
    total = len(body)
    if total <= room:
        return [_pack_header(frame, total, 0, 1, total) + body]
    count = -(-total // room)
    if count > _U16_MAX:
        raise ValueError(f"body of {total} bytes needs {count} fragments at mtu {mtu}; at most {_U16_MAX}")
    chunks = (body[start : start + room] for start in range(0, total, room))
    return [
        _pack_header(frame, total, index, count, len(chunk)) + chunk for index, chunk in enumerate(chunks)
    ]


def _pack_header(frame: Frame, total: int, index: int, count: int, here: int) -> bytes:
    try:
        return HEADER.pack(
            VERSION,
            frame.type,
            frame.flags,
            frame.hop_limit,
            frame.issuer,
            frame.seq,
            frame.epoch,
            total,
            index,
            count,
            here,
            0,
        )
    except struct.error as error:
        raise ValueError(
            f"{frame.type.name} issuer={frame.issuer} seq={frame.seq} epoch={frame.epoch} "
            f"hop_limit={frame.hop_limit} flags={int(frame.flags)}: a field does not fit: {error}"
        ) from error


def decode_body(header: Header, body: bytes) -> Body:
    """Read a whole body, as reassembly gave it.

    Raises:
        DecodeError: the body breaks a rule of the format.
    """
    kind = header.type
    if len(body) != header.total_length:
        raise DecodeError(
            DecodeReason.BAD_LENGTH, f"body of {len(body)} bytes; the header says {header.total_length}"
        )
    if kind is FrameType.MSG:
        return tlv.decode_message(body)
    if kind is FrameType.RA or kind is FrameType.UR:
        return tlv.decode_predicate(kind, body)
    if kind is FrameType.SR:
        return SenderRequest(tlv.decode_single(kind, tlv.Tlv.TIMEOUT, body))
    if kind is FrameType.HELLO:
        return Hello(tlv.decode_single(kind, tlv.Tlv.INCARNATION, body))
    if kind is FrameType.TABLE:
        return tlv.decode_table(body)
    if kind is FrameType.COMMIT:
        return Commit(tlv.decode_single(kind, tlv.Tlv.OLDEST_EPOCH, body))
    number = tlv.decode_single(kind, tlv.Tlv.ACKNOWLEDGED, body)
    acknowledged = _FRAME_TYPES.get(number)
    if acknowledged is None:
        raise DecodeError(DecodeReason.BAD_VALUE, f"acknowledged frame type {number}; expected 1 to 8")
    return Ack(acknowledged)


def read_frame(header: Header, body: bytes) -> Frame:
    """The frame that a header and its whole body make.

    Raises:
        DecodeError: the body breaks a rule of the format.
    """
    return _frame(header, decode_body(header, body))


def forwarded_frame(header: Header, body: bytes) -> Frame:
    """As `read_frame`, for a router: the body of a MSG stays as it is, an `EncodedMessage`.

    Raises:
        DecodeError: the body of another frame breaks a rule of the format.
    """
    return _frame(header, EncodedMessage(body) if header.type is FrameType.MSG else decode_body(header, body))


def _frame(header: Header, body: Body) -> Frame:
    return Frame(
        header.type,
        header.issuer,
        header.seq,
        header.epoch,
        header.hop_limit,
        body,
        _FLAGS[header.flags],
    )


def decode(payload: bytes) -> Frame:
    """Read an Ethernet payload that holds a whole frame.

    Raises:
        DecodeError: it breaks a rule of the format, or is a fragment (reason `bad_fragment`).
    """
    header = decode_header(payload)
    if header.fragment_count != 1:
        raise DecodeError(
            DecodeReason.BAD_FRAGMENT,
            f"fragment {header.fragment_index} of {header.fragment_count} where a whole frame was expected",
        )
    return read_frame(header, payload[HEADER_LENGTH : HEADER_LENGTH + header.payload_length])
