"""Encoded predicates and messages: `[privacy] mode = "bloom"`.

Routers compare sets of bits and hold no key. The encoding, the ciphers and exact matching are in the client
library (`router.privacy`). Source: slides, part IV.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, ClassVar, TypeVar, cast

from router.content import Content
from router.matching.engines import Matcher
from router.predicates import Filter, Message, Predicate
from router.predicates.encoded import (
    ENCODED_EVERYTHING,
    ENCODED_NOTHING,
    BloomFilter,
    BloomMessage,
    BloomPredicate,
)
from router.predicates.encoded.algebra import weight_of, widen, widened
from router.predicates.encoded.pool import BloomPool
from router.wire import private
from router.wire.bodies import filters_in
from router.wire.frames import AddressedMessage, EncodedPredicate, FrameType
from router.wire.header import DecodeError

_T = TypeVar("_T")

#: Greatest share of the bits of a message that may be set: one with all bits set goes to every receiver.
WEIGHT_MAX = 0.9


class Bloom(Content):
    """Filters and messages are sets of bits; a message matches the filters that are subsets."""

    pool = BloomPool()
    nothing: Predicate = ENCODED_NOTHING
    everything: Predicate = ENCODED_EVERYTHING
    predicate_bodies: ClassVar[tuple[type, ...]] = (BloomPredicate,)
    cuts_filters: ClassVar[bool] = False
    message_bodies: ClassVar[tuple[type, ...]] = (BloomMessage,)
    message_frame: ClassVar[FrameType] = FrameType.XMSG
    advertisement_frame: ClassVar[FrameType] = FrameType.XRA
    reply_frame: ClassVar[FrameType] = FrameType.XUR
    compiled: ClassVar[bool] = False

    @classmethod
    def matcher(cls, spec: str) -> Matcher | None:  # noqa: ARG003
        """None: the pool answers for messages; `spec` is about attributes."""
        return None

    def predicate(self, filters: Iterable[Filter]) -> Predicate:
        return BloomPredicate(cast(Iterable[BloomFilter], filters))

    def widened(self, predicate: Predicate, filters: int) -> Predicate:
        """A predicate of at most so many filters that covers `predicate`: common bits of filters."""
        return widened(_encoded(predicate), filters)

    def weight_of(self, filter_: Filter) -> int:
        return weight_of(cast(BloomFilter, filter_))

    def within(
        self,
        body: Predicate | EncodedPredicate,
        filter_weight: int,  # noqa: ARG002 - each filter has the weight of its suite
        weight: int,
        filters: int,
    ) -> tuple[Predicate, int, bool]:
        given = filters_in(body) if isinstance(body, EncodedPredicate) else _encoded(body).encoded
        read, total, was_widened = widen(given, weight, filters)
        if isinstance(body, Predicate) and not was_widened:
            return body, total, False
        return BloomPredicate(read), total, was_widened

    def message_body(self, message: Message) -> Message:
        return message

    def selects(self, predicate: Predicate, message: Message) -> bool:
        assert isinstance(message, BloomMessage)
        return _encoded(predicate).matches(message)

    def refusal(self, body: object) -> str | None:
        """A message of too many bits: it would reach receivers that it is not for."""
        message = body.message if isinstance(body, AddressedMessage) else body
        assert isinstance(message, BloomMessage)
        most = int(WEIGHT_MAX * message.suite.bits)
        if message.weight <= most:
            return None
        return f"{message.weight} of {message.suite.bits} bits are set; at most {most}"

    def requested_predicate(self, request: Mapping[str, Any]) -> Predicate:
        return _decoded(request, "predicate", partial(private.decode_predicate, FrameType.XRA))

    def requested_message(self, request: Mapping[str, Any]) -> Message:
        return _decoded(request, "message", private.decode_message)

    @staticmethod
    def delivery(message: Message) -> Mapping[str, Any]:
        assert isinstance(message, BloomMessage)
        return {"encoded": private.encode_message(message).hex()}


def _encoded(predicate: Predicate) -> BloomPredicate:
    assert isinstance(predicate, BloomPredicate)
    return predicate


def _decoded(request: Mapping[str, Any], what: str, decode: Callable[[bytes], _T]) -> _T:
    text = request.get("encoded")
    if not isinstance(text, str):
        raise ValueError(  # noqa: TRY004
            f"expected a {what} in 'encoded': the routers of this network read no plain {what}; "
            "connect with its key"
        )
    try:
        octets = bytes.fromhex(text)
    except ValueError as error:
        raise ValueError(f"encoded: expected hexadecimal digits: {error}") from error
    try:
        return decode(octets)
    except DecodeError as error:
        raise ValueError(f"encoded: {error}") from error
