"""Bodies that are one number: the one field of the one TLV that a frame must have (SR, HELLO, COMMIT, ACK,
RECEIPT, OVERLOAD)."""

from __future__ import annotations

from router.wire.format import DecodeReason, FrameType
from router.wire.header import EXPECTED_TYPES, DecodeError
from router.wire.layouts import FRAME_FORMATS, TLV_FORMATS, struct_of
from router.wire.tlv import encode_tlv, skip_unknown, tlvs, wrong_size


class NumberCodec:
    """Encodes and decodes the number.

    Attributes:
        tlv: the type of the TLV.
        field: the name of its field.
    """

    def __init__(self, frame_type: FrameType) -> None:
        self._frame_type = frame_type
        ((self.tlv, _),) = FRAME_FORMATS[frame_type].tlvs
        (field,) = TLV_FORMATS[self.tlv].fields
        self.field = field.name
        self._struct = struct_of([field])

    def encode(self, number: int) -> bytes:
        """The body.

        Raises:
            struct.error: the number does not fit.
        """
        return encode_tlv(self.tlv, self._struct.pack(number))

    def decode(self, body: bytes) -> int:
        """The number in a body.

        Raises:
            DecodeError: the body breaks a rule of the format.
        """
        found: int | None = None
        for number, start, end in tlvs(body):
            if number != self.tlv:
                skip_unknown(number, self._frame_type)
            elif end - start != self._struct.size:
                raise wrong_size(self.tlv, end - start, self._struct.size)
            elif found is not None:
                raise DecodeError(DecodeReason.BAD_TLV, f"{self.tlv.name} twice in {self._frame_type.name}")
            else:
                found = self._struct.unpack_from(body, start)[0]
        if found is None:
            raise DecodeError(DecodeReason.BAD_TLV, f"{self._frame_type.name} without {self.tlv.name}")
        return found


def frame_type_of(number: int) -> FrameType:
    """The frame type that an ACKNOWLEDGED names.

    Raises:
        DecodeError: there is no such type (reason `bad_value`).
    """
    try:
        return FrameType(number)
    except ValueError:
        raise DecodeError(
            DecodeReason.BAD_VALUE,
            f"acknowledged frame type {number}; expected {EXPECTED_TYPES}",
        ) from None
