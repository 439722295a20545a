"""The bodies of XMSG, XRA and XUR: sets of bits under a KEY, and sealed attributes."""

from __future__ import annotations

from collections.abc import Iterator

from router.predicates.encoded import ANY_SUITE, BloomFilter, BloomMessage, BloomPredicate, Suite
from router.wire.format import DecodeReason, FrameType, Tlv
from router.wire.header import TLV_FORMATS, DecodeError, struct_of
from router.wire.tlv import encode_tlv, tlvs_of, wrong_size

_KEY = struct_of(TLV_FORMATS[Tlv.KEY].fields)
#: Of a SEALED: the nonce.
_NONCE = struct_of(TLV_FORMATS[Tlv.SEALED].fields)
NONCE_LENGTH = _NONCE.size
_NO_KEY = (0, 0, 0, 0)


def _encode_key(suite: Suite) -> bytes:
    return encode_tlv(Tlv.KEY, _KEY.pack(suite.key_id, suite.bits, suite.hashes, suite.encoding))


def _decode_key(body: bytes, start: int) -> Suite:
    numbers = _KEY.unpack_from(body, start)
    if numbers == _NO_KEY:
        return ANY_SUITE
    try:
        return Suite(*numbers)
    except ValueError as error:
        raise DecodeError(DecodeReason.BAD_VALUE, f"KEY: {error}") from None


def _decode_bits(suite: Suite | None, body: bytes, start: int, end: int) -> int:
    if suite is None:
        raise DecodeError(DecodeReason.BAD_TLV, "BLOOM without a KEY before it")
    if end - start != suite.octets:
        raise wrong_size(Tlv.BLOOM, end - start, suite.octets)
    return int.from_bytes(body[start:end], "little")


# --- Predicates -------------------------------------------------------------------------------------------


def encode_predicate(predicate: BloomPredicate) -> bytes:
    """A BLOOM for each filter in the predicate's order, and a KEY wherever the suite is another."""
    suite: Suite | None = None
    parts = []
    for filter_ in predicate.encoded:
        if filter_.suite != suite:
            suite = filter_.suite
            parts.append(_encode_key(suite))
        parts.append(encode_tlv(Tlv.BLOOM, filter_.suite.row(filter_.bits)))
    return b"".join(parts)


def decode_predicate(frame_type: FrameType, body: bytes) -> BloomPredicate:
    """Reads the body of an XRA or XUR.

    Raises:
        DecodeError: the body breaks a rule of the format.
    """
    return BloomPredicate(filters_of(frame_type, body))


def filters_of(frame_type: FrameType, body: bytes) -> Iterator[BloomFilter]:
    """Reads the filters of an XRA or XUR one by one.

    Raises:
        DecodeError: the body breaks a rule of the format at the filter that is due.
    """
    suite: Suite | None = None
    for number, start, end in tlvs_of(frame_type, body):
        if number == Tlv.KEY:
            suite = _decode_key(body, start)
        else:
            bits = _decode_bits(suite, body, start, end)
            assert suite is not None
            yield BloomFilter(suite, bits)


# --- Messages ---------------------------------------------------------------------------------------------


def encode_message(message: BloomMessage) -> bytes:
    """KEY, BLOOM and SEALED.

    Raises:
        ValueError: the sealed content is shorter than a nonce.
    """
    if len(message.sealed) < NONCE_LENGTH:
        raise ValueError(f"sealed content of {len(message.sealed)} bytes; expected a nonce of {NONCE_LENGTH}")
    parts = encode_tlv(Tlv.BLOOM, message.suite.row(message.bits)), encode_tlv(Tlv.SEALED, message.sealed)
    return b"".join((_encode_key(message.suite), *parts))


def decode_message(body: bytes) -> BloomMessage:
    """Reads the body of an XMSG without destinations.

    Raises:
        DecodeError: the body breaks a rule of the format.
    """
    suite: Suite | None = None
    bits, sealed = 0, b""
    for number, start, end in tlvs_of(FrameType.XMSG, body):
        if number == Tlv.KEY:
            suite = _decode_key(body, start)
            if suite == ANY_SUITE:
                raise DecodeError(DecodeReason.BAD_VALUE, "KEY 0 in XMSG; expected at least 1")
        elif number == Tlv.BLOOM:
            bits = _decode_bits(suite, body, start, end)
        else:
            if end - start < NONCE_LENGTH:
                raise wrong_size(Tlv.SEALED, end - start, NONCE_LENGTH)
            sealed = body[start:end]
    assert suite is not None
    return BloomMessage(suite, bits, sealed)
