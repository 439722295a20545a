"""Bodies as sequences of TLVs (type, length, value): the rules that hold for every frame type.

A TLV of an unknown type is skipped; a known one in a frame that has no place for it makes the frame
undecodable (docs/reference/wire-format.md). Typed values of attributes and constraints.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from math import isfinite

from router.predicates import STRING_MAX_BYTES, Type, Value
from router.wire.format import FRAMES, DecodeReason, FrameType, Occurs, Tlv
from router.wire.header import SIZES, TLV_FORMATS, DecodeError, struct_of

TLV_HEADER = struct.Struct("!BI")
TLV_HEADER_LENGTH = TLV_HEADER.size
#: TLV types that no frame skips: those of this version, and 0.
NEVER_SKIPPED = (0, *(int(tlv) for tlv in Tlv))
_DESTINATIONS = (Tlv.DESTINATIONS, Tlv.DESTINATION_MAP)


def _size(tlv: Tlv) -> int | None:
    """The bytes of a TLV that holds numbers alone; None: it has no fixed size."""
    fields = TLV_FORMATS[tlv].fields
    return struct_of(fields).size if all(field.layout in SIZES for field in fields) else None


#: Frame type -> TLV type -> how often it occurs, and its fixed size.
_PLACES: dict[FrameType, dict[int, tuple[Occurs, int | None]]] = {
    row.type: {int(tlv): (occurs, _size(tlv)) for tlv, occurs in row.tlvs if tlv not in _DESTINATIONS}
    for row in FRAMES
}
#: Takes a TLV: its type, and start and end of its value. Raises DecodeError.
OtherTlv = Callable[[int, int, int], None]


def encode_tlv(tlv: Tlv, value: bytes) -> bytes:
    return TLV_HEADER.pack(tlv, len(value)) + value


def tlvs(body: bytes) -> Iterator[tuple[int, int, int]]:
    """The TLVs of a body: type, and start and end of the value.

    Raises:
        DecodeError: a TLV runs past the end of the body.
    """
    offset = 0
    end = len(body)
    while offset < end:
        start = offset + TLV_HEADER_LENGTH
        if start > end:
            raise overrun(offset, end)
        number, length = TLV_HEADER.unpack_from(body, offset)
        if start + length > end:
            raise overrun(offset, end)
        offset = start + length
        yield number, start, offset


def has_more_than(body: bytes, number: int) -> bool:
    """Whether a body has more TLVs than a number; it is read no further than this takes.

    Raises DecodeError: a TLV runs past the end of the body.
    """
    return any(place >= number for place, _ in enumerate(tlvs(body)))


def skip_unknown(number: int, frame_type: FrameType) -> None:
    """Checks that a TLV type for which a frame has no place may be skipped.

    Raises:
        DecodeError: the type is 0 or known.
    """
    if number == 0:
        raise DecodeError(DecodeReason.BAD_TLV, "TLV of type 0")
    if number in NEVER_SKIPPED:
        raise DecodeError(DecodeReason.BAD_TLV, f"{Tlv(number).name} has no place in {frame_type.name}")


def tlvs_of(frame_type: FrameType, body: bytes) -> Iterator[tuple[int, int, int]]:
    """The known TLVs of a body, held against the tables: places, how often they occur, fixed sizes.

    Destinations, which come first, are not in the body (`router.wire.message.split_destinations`).

    Raises:
        DecodeError: a TLV breaks one of these rules, or one is missing that must occur.
    """
    places = _PLACES[frame_type]
    seen = set()
    for number, start, end in tlvs(body):
        place = places.get(number)
        if place is None:
            skip_unknown(number, frame_type)
            continue
        occurs, size = place
        if occurs is not Occurs.ANY_NUMBER and number in seen:
            raise DecodeError(DecodeReason.BAD_TLV, f"{Tlv(number).name} twice in {frame_type.name}")
        seen.add(number)
        if size is not None and end - start != size:
            raise wrong_size(Tlv(number), end - start, size)
        yield number, start, end
    for number, (occurs, _) in places.items():
        if occurs is Occurs.ONCE and number not in seen:
            raise DecodeError(DecodeReason.BAD_TLV, f"{frame_type.name} without {Tlv(number).name}")


def overrun(offset: int, end: int) -> DecodeError:
    """The error of a TLV that begins at `offset` and does not end within the body."""
    return DecodeError(DecodeReason.BAD_TLV, f"TLV at byte {offset} runs past the body's end at {end}")


def wrong_size(tlv: Tlv, size: int, expected: int) -> DecodeError:
    """The error of a TLV whose value has `size` bytes."""
    return DecodeError(DecodeReason.BAD_TLV, f"{tlv.name} of {size} bytes; expected {expected}")


INTEGER = struct.Struct("!q")
DOUBLE = struct.Struct("!d")
TYPES: dict[int, Type] = {int(type_): type_ for type_ in Type}
_STRING, _INTEGER, _DOUBLE, _BOOLEAN = (int(type_) for type_ in Type)


def encode_value(value: Value) -> bytes:
    """The bytes of a value, without its type."""
    if isinstance(value, bool):
        return b"\1" if value else b"\0"
    if isinstance(value, int):
        return INTEGER.pack(value)
    if isinstance(value, float):
        return DOUBLE.pack(value)
    return value.encode()


def decode_value(name: str, number: int, body: bytes, start: int, end: int) -> Value:
    """The value in body[start:end] of the type that has `number`; `name` is for the text of errors.

    Raises:
        DecodeError: no such type, or the bytes are no value of it (reason `bad_value`).
    """
    if number == _STRING:
        if end - start > STRING_MAX_BYTES:
            raise DecodeError(
                DecodeReason.BAD_VALUE, f"{name!r}: string of {end - start} bytes; at most {STRING_MAX_BYTES}"
            )
        try:
            return body[start:end].decode()
        except UnicodeDecodeError as error:
            raise bad_utf8(DecodeReason.BAD_VALUE, repr(name), error) from None
    if number == _INTEGER:
        if end - start == 8:
            integer: int = INTEGER.unpack_from(body, start)[0]
            return integer
    elif number == _DOUBLE:
        if end - start == 8:
            double: float = DOUBLE.unpack_from(body, start)[0]
            if not isfinite(double):
                raise DecodeError(DecodeReason.BAD_VALUE, f"{name!r}: double {double} is not finite")
            return double
    elif number == _BOOLEAN:
        if end - start == 1 and body[start] <= 1:
            return body[start] == 1
    else:
        raise unknown_type(name, number)
    raise DecodeError(
        DecodeReason.BAD_VALUE, f"{name!r}: {body[start:end][:9].hex()!r} is no {TYPES[number].name.lower()}"
    )


def unknown_type(name: str, number: int) -> DecodeError:
    """The error of a value type that does not exist."""
    return DecodeError(DecodeReason.BAD_VALUE, f"{name!r}: value type {number}; expected 1 to {len(TYPES)}")


def bad_utf8(reason: DecodeReason, subject: str, error: UnicodeDecodeError) -> DecodeError:
    return DecodeError(reason, f"{subject}: not UTF-8 at byte {error.start}: {error.reason}")
