"""Frames to bytes and back: the struct codec of the forwarding path.

The format is `router.wire.format`, as a document docs/reference/wire-format.md; `router.wire.bodies` has the
bodies. On any bytes, decoding returns or raises `DecodeError`.

A sender calls `fragment`; a receiver hands each Ethernet frame to `router.wire.intake.FrameIntake`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from router.wire.bodies import BODIES
from router.wire.format import MAX_BODY_LENGTH, MESSAGES, VERSION, DecodeReason
from router.wire.frames import Body, EncodedPredicate, Flags, Frame, FrameType
from router.wire.header import HEADER, HEADER_LENGTH, DecodeError, Header

DEFAULT_MTU = 1500
#: A frame whole: a header, the body and the signature.
WholeFrame = tuple[bytes, bytes, bytes]
_U16_MAX = 65_535
#: Bytes of a predicate that is decoded as far as the bounds admit: a shorter one takes about a millisecond.
_LONG = 4_096
_DECODERS: dict[FrameType, Callable[[bytes], Body]] = {type_: each.decode for type_, each in BODIES.items()}
_SIGNED = int(Flags.SIGNED)
#: Looking a member up in a dictionary is several times cheaper than calling the enumeration.
_FLAGS = {number: Flags(number & ~_SIGNED) for number in range(256)}


def encode_body(frame: Frame) -> bytes:
    """The body of a frame as TLVs.

    Raises:
        ValueError: the body is not of the class that belongs to the frame's type, is outside the model, or
            is longer than `MAX_BODY_LENGTH`.
    """
    if frame.received is not None:
        return _checked(frame, frame.received)
    body_codec = BODIES[frame.type]
    if isinstance(frame.body, EncodedPredicate) and frame.body.frame_type is frame.type:
        return frame.body.encoded
    if not body_codec.takes(frame.body):
        raise ValueError(
            f"{frame.type.name} has a body of type {type(frame.body).__name__}; "
            f"expected {body_codec.type.__name__}"
        )
    try:
        body = body_codec.encode(frame.body)
    except struct.error as error:
        raise ValueError(f"{body_codec.type.__name__}: a number does not fit its field: {error}") from error
    return _checked(frame, body)


def _checked(frame: Frame, body: bytes) -> bytes:
    if len(body) > MAX_BODY_LENGTH:
        raise ValueError(f"{frame.type.name} with a body of {len(body)} bytes; at most {MAX_BODY_LENGTH}")
    return body


def fragment(frame: Frame, mtu: int = DEFAULT_MTU) -> list[bytes]:
    """A frame as Ethernet payloads of at most `mtu` bytes each, in the order of their index.

    Raises:
        ValueError: as `encode_body`; a header field does not fit; the MTU leaves no room for a
            body; the body needs more than 65,535 fragments.
    """
    overhead = HEADER_LENGTH + len(frame.signature)
    room = min(mtu - overhead, _U16_MAX)
    if room < 1:
        raise ValueError(f"mtu {mtu}; expected more than the {overhead} bytes of header and signature")
    body = encode_body(frame)
    total = len(body)
    count = max(-(-total // room), 1)
    if count > _U16_MAX:
        raise ValueError(f"body of {total} bytes needs {count} fragments at mtu {mtu}; at most {_U16_MAX}")
    chunks = [body[index * room : (index + 1) * room] for index in range(count)]
    return [
        _pack_header(frame, total, index, count, len(chunk)) + chunk + frame.signature
        for index, chunk in enumerate(chunks)
    ]


def whole_frame(frame: Frame) -> WholeFrame:
    """A frame whatever its length: the header of its last fragment, of the largest possible, and the rest.

    Raises ValueError as `encode_body`, or if a header field does not fit.
    """
    body = encode_body(frame)
    total = len(body)
    count = max(-(-total // _U16_MAX), 1)
    header = _pack_header(frame, total, count - 1, count, total - (count - 1) * _U16_MAX)
    return header, body, frame.signature


def _pack_header(frame: Frame, total: int, index: int, count: int, here: int) -> bytes:
    try:
        return HEADER.pack(
            VERSION,
            frame.type,
            frame.flags | _SIGNED if frame.signature else frame.flags,
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
    """The body in `body`, all bytes of it, as reassembly gave it.

    Raises:
        DecodeError: the body breaks a rule of the format.
    """
    _check_length(header, body)
    return _DECODERS[header.type](body)


def _check_length(header: Header, body: bytes) -> None:
    if len(body) != header.total_length:
        raise DecodeError(
            DecodeReason.BAD_LENGTH, f"body of {len(body)} bytes; the header says {header.total_length}"
        )


def read_frame(header: Header, body: bytes, signature: bytes = b"") -> Frame:
    """The frame that a header, its whole body and its signature make.

    Raises:
        DecodeError: the body breaks a rule of the format.
    """
    return _frame(header, decode_body(header, body), _kept(header, body, signature), signature)


def forwarded_frame(header: Header, body: bytes, signature: bytes = b"") -> Frame:
    """As `read_frame`, for a router, which sends on the body of a message or an RA as it was received.

    The attributes of a MSG are left undecoded, as an `EncodedMessage`, and so is a long predicate, as an
    `EncodedPredicate`: the router decodes as much of it as its bounds admit. So is a body that is too long,
    which the router refuses.

    Raises:
        DecodeError: the body of another frame, or the destinations of a MSG, break a rule of the format.
    """
    body_codec = BODIES[header.type]
    if body_codec.undecoded is not None:
        return _frame(header, body_codec.undecoded(body), None, signature)
    received = body if body_codec.sent_on else _kept(header, body, signature)
    in_parts = body_codec.filters is not None and len(body) > _LONG
    if in_parts or (body_codec.most is not None and len(body) > body_codec.most):
        _check_length(header, body)
        return _frame(header, EncodedPredicate(header.type, body), received, signature)
    return _frame(header, decode_body(header, body), received, signature)


def _kept(header: Header, body: bytes, signature: bytes) -> bytes | None:
    """The body as received, where its signature is made of it."""
    return body if signature and header.type not in MESSAGES else None


def _frame(header: Header, body: Body, received: bytes | None, signature: bytes) -> Frame:
    return Frame(
        header.type,
        header.issuer,
        header.seq,
        header.epoch,
        header.hop_limit,
        body,
        _FLAGS[header.flags],
        received,
        signature,
    )
