"""Bodies of the attention-limited service: SUB, PUB, OVERLOAD and FLUSH (docs/explanation/attention.md)."""

from __future__ import annotations

from router.predicates import Filter, Predicate
from router.wire.format import DecodeReason, FrameType, PublicationFlags, SubscriptionFlags, Tlv
from router.wire.frames import Publication, Subscription
from router.wire.header import TLV_FORMATS, DecodeError, struct_of
from router.wire.message import decode_message, encode_destinations, encode_message, split_destinations
from router.wire.predicate import decode_filter, encode_predicate
from router.wire.tlv import TLV_HEADER_LENGTH, encode_tlv, skip_unknown, tlvs_of, wrong_size

_SUBSCRIPTION = struct_of(TLV_FORMATS[Tlv.SUBSCRIPTION].fields)
_PUBLICATION = struct_of(TLV_FORMATS[Tlv.PUBLICATION].fields)
_OFFERED = struct_of(TLV_FORMATS[Tlv.OFFERED].fields)
#: Publications that routers name in a SUB.
MAX_OFFERED = 512
#: Bytes of the body of a SUB, and of a PUB or FLUSH, that a router reads, which it does in one turn.
MAX_SUB_BYTES = 16 * 1024
MAX_PUBLICATION_BYTES = 48 * 1024
#: Bytes of the predicate of a SUB, which has room for as many publications as routers name.
MAX_SUB_PREDICATE_BYTES = (
    MAX_SUB_BYTES
    - (TLV_HEADER_LENGTH + _SUBSCRIPTION.size)
    - MAX_OFFERED * (TLV_HEADER_LENGTH + _OFFERED.size)
)
_SUBSCRIPTION_FLAGS = sum(SubscriptionFlags)
_PUBLICATION_FLAGS = sum(PublicationFlags)


def encode_subscription(body: Subscription) -> bytes:
    """The body of a SUB.

    Raises:
        struct.error: a number does not fit.
    """
    numbers = (
        body.round,
        body.nonce,
        body.remaining,
        body.lifetime_left_us,
        body.freshness_us,
        int(body.flags),
    )
    parts = [encode_tlv(Tlv.SUBSCRIPTION, _SUBSCRIPTION.pack(*numbers))]
    parts += [encode_tlv(Tlv.OFFERED, _OFFERED.pack(*each)) for each in body.offered]
    return b"".join(parts) + encode_predicate(body.predicate)


def decode_subscription(body: bytes) -> Subscription:
    """Reads the body of a SUB.

    Raises:
        DecodeError: the body breaks a rule of the format.
    """
    head: tuple[int, ...] = ()
    offered: list[tuple[int, int]] = []
    filters: list[Filter] = []
    for number, start, end in tlvs_of(FrameType.SUB, body):
        if number == Tlv.FILTER:
            filters.append(Filter(decode_filter(body, start, end)))
        elif number == Tlv.OFFERED:
            offered.append(_OFFERED.unpack_from(body, start))
        else:
            head = _SUBSCRIPTION.unpack_from(body, start)
    round_, nonce, remaining, lifetime_left_us, freshness_us, flags = head
    known = SubscriptionFlags(flags & _SUBSCRIPTION_FLAGS)
    predicate = Predicate(tuple(filters))
    return Subscription(
        round_, nonce, remaining, lifetime_left_us, freshness_us, predicate, known, tuple(offered)
    )


def encode_publication(frame_type: FrameType, body: Publication) -> bytes:
    """The body of a PUB, which names homes, or of a FLUSH.

    Raises:
        ValueError: an attribute or a home is outside the model.
        struct.error: a number does not fit.
    """
    homes = encode_destinations(body.homes) if frame_type is FrameType.PUB else b""
    head = _PUBLICATION.pack(body.source, body.seq, body.age_us, int(body.flags))
    return homes + encode_tlv(Tlv.PUBLICATION, head) + encode_message(body.message)


def decode_publication(frame_type: FrameType, body: bytes) -> Publication:
    """Reads the body of a PUB or FLUSH.

    Raises:
        DecodeError: the body breaks a rule of the format.
    """
    homes: tuple[int, ...] = ()
    if frame_type is FrameType.PUB:
        found, body = split_destinations(body)
        if found is None:
            raise DecodeError(DecodeReason.BAD_TLV, "PUB without destinations in its first TLV")
        homes = found
    head: list[tuple[int, ...]] = []

    def other(number: int, start: int, end: int) -> None:
        if number != Tlv.PUBLICATION:
            skip_unknown(number, frame_type)
        elif head:
            raise DecodeError(DecodeReason.BAD_TLV, f"PUBLICATION twice in {frame_type.name}")
        elif end - start != _PUBLICATION.size:
            raise wrong_size(Tlv.PUBLICATION, end - start, _PUBLICATION.size)
        else:
            head.append(_PUBLICATION.unpack_from(body, start))

    message = decode_message(body, other)
    if not head:
        raise DecodeError(DecodeReason.BAD_TLV, f"{frame_type.name} without PUBLICATION")
    source, seq, age_us, flags = head[0]
    return Publication(source, seq, age_us, message, PublicationFlags(flags & _PUBLICATION_FLAGS), homes)
