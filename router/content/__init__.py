"""The interface between the protocol core and the content of messages and predicates, and its plain forms.

The protocol core moves predicates between frames and tables. It asks whether a predicate is empty, whether it
covers another, for their union, for a predicate within two others, and which predicates a message matches.
`Content` answers. The routing schemes and pull routing are written against it, so that another form of
predicates (compared literally, encoded) replaces the plain one without a change in them.

Sets of filters are kept as sets of numbers (`Bits`), which a pool gives to filters: an operation on two large
predicates is then an operation on two integers.

`Verbatim` (`[protocol] covering = "none"`) keeps predicates exactly as declared. A predicate is a set of
filters. It covers another when it contains each of its filters, letter by letter; nothing is simplified. A
routing table then holds exactly the filters that were declared beyond each interface, as the formulas for the
memory of routing schemes assume.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from router.matching.engines import Matcher, factory
from router.predicates import EVERYTHING, NOTHING, Filter, Message, Predicate, matches, matches_filter
from router.predicates.covering.algebra import PredicateBuilder
from router.predicates.covering.bitset import Bits, bits_of
from router.predicates.covering.numbering import FilterAlgebra, NumberedFilters
from router.predicates.covering.pool import POOL
from router.predicates.covering.widening import oversimplify, total_weight, weight_of, widen
from router.predicates.parser import Most, parse_message, parse_predicate
from router.predicates.printer import format_predicate
from router.wire.bodies import filters_in
from router.wire.frames import AddressedMessage, EncodedMessage, EncodedPredicate, Frame, FrameType
from router.wire.header import DecodeError
from router.wire.message import encode_message, message_of
from router.wire.predicate import with_classes
from router.wire.tlv import TLV_HEADER_LENGTH, has_more_than

#: Attributes of a message that a router reads, from a text or from the wire.
MOST_ATTRIBUTES = 1_000
#: Bytes of the body of a message. Applications cannot send larger ones: a request has at most 1 MiB
#: (docs/reference/application-socket.md).
MOST_BYTES = 1024 * 1024
#: Bytes of an attribute: TLV header, length of the name, name, type, value. Most for a name and a value.
_LEAST, _LONGEST = TLV_HEADER_LENGTH + 3, TLV_HEADER_LENGTH + 2 + 255 + 65_535
_NUMBER = 8
_TOO_LARGE = f"the message has more than {MOST_ATTRIBUTES} attributes or {MOST_BYTES} bytes"
#: Characters of a value of a request that an error repeats.
_SHOWN = 100


def shown(value: object) -> str:
    """A value of a request, for an error; of a list or an object the type, since either may be deep."""
    if isinstance(value, list | dict):
        return type(value).__name__
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def is_too_large(body: object) -> bool:
    """Whether a message has too many attributes or bytes; a body that breaks a rule of the format has not."""
    if isinstance(body, AddressedMessage):
        body = body.message
    if isinstance(body, EncodedMessage):
        size = len(body.encoded)
        return size > MOST_BYTES or (size > _LEAST * MOST_ATTRIBUTES and _has_many(body.encoded))
    if not isinstance(body, Mapping) or len(body) * _LONGEST <= MOST_BYTES:
        return False
    return len(body) > MOST_ATTRIBUTES or sum(map(_size, body, body.values())) > MOST_BYTES


def _has_many(body: bytes) -> bool:
    """Whether a body has too many TLVs, the most of which are attributes."""
    try:
        return has_more_than(body, MOST_ATTRIBUTES)
    except DecodeError:
        return False


def _size(name: str, value: object) -> int:
    return _LEAST + len(name.encode()) + (len(value.encode()) if isinstance(value, str) else _NUMBER)


class Content:
    """Messages and predicates of one form.

    The base class is for predicates of `router.predicates`; a form with other classes of predicates and
    messages overrides the types of bodies and frames, `message_of` and `selects`.

    Attributes:
        pool: the filters of this form, and their algebra.
        most: bounds on the text of a predicate in a request of an application; None: it may have any size.
        nothing, everything: the predicates that no message and every message matches.
        predicate_bodies, message_bodies: the classes of the bodies of RAs and URs, and of messages.
        message_frame, advertisement_frame, reply_frame: the types of the frames that carry them.
    """

    pool: FilterAlgebra
    nothing: Predicate = NOTHING
    everything: Predicate = EVERYTHING
    predicate_bodies: ClassVar[tuple[type, ...]] = (Predicate,)
    message_bodies: ClassVar[tuple[type, ...]] = (Message, EncodedMessage)
    message_frame: ClassVar[FrameType] = FrameType.MSG
    advertisement_frame: ClassVar[FrameType] = FrameType.RA
    reply_frame: ClassVar[FrameType] = FrameType.UR
    #: Whether compiled code may read messages: they come in frames of type MSG as ATTRIBUTE TLVs, and match
    #: as the classes of `router.predicates` do.
    compiled: ClassVar[bool] = True
    #: Whether `widened` exists: over-simplification contradicts a content that keeps filters as they are.
    widens: ClassVar[bool] = True
    #: Whether a filter that is too heavy is cut: a set of bits has the weight of its suite.
    cuts_filters: ClassVar[bool] = True

    def __init__(self, most: Most | None = None) -> None:
        self.most = most

    @classmethod
    def matcher(cls, spec: str) -> Matcher | None:
        """An empty matching engine for a router; None: the pool answers for messages.

        Args:
            spec: the name of the engine that the router is to have (`router.matching.engines`).

        Raises:
            ValueError: there is no engine of that name.
        """
        return factory(spec)

    def predicate(self, filters: Iterable[Filter]) -> Predicate:
        """The disjunction of filters of this form."""
        return Predicate(tuple(filters))

    def builder(self, predicate: Predicate = NOTHING) -> PredicateBuilder:
        """A predicate that grows."""
        return PredicateBuilder(predicate, pool=self.pool)

    def weight_of(self, filter_: Filter) -> int:
        """The weight of one filter."""
        return weight_of(filter_)

    def widened(self, predicate: Predicate, filters: int) -> Predicate:
        """A predicate of at most so many filters that covers `predicate` (section 3.5.6)."""
        return oversimplify(predicate, filters)

    def read(self, body: Predicate | EncodedPredicate) -> Predicate:
        """The predicate that a body holds.

        Raises DecodeError: it breaks a rule of the format.
        """
        if isinstance(body, Predicate):
            return body
        return with_classes(self.predicate(filters_in(body)), body.frame_type, body.encoded)

    def within(
        self, body: Predicate | EncodedPredicate, filter_weight: int, weight: int, filters: int
    ) -> tuple[Predicate, int, bool]:
        """A predicate that covers that of a body, within bounds; its weight; whether it was widened.

        See `router.predicates.covering.widening.widen`. A predicate that was widened has no classes of nodes:
        filters of several of them may be merged.

        Raises DecodeError: the body breaks a rule of the format, at a filter that was read.
        """
        if isinstance(body, Predicate) and len(body.filters) <= filters:
            # Most predicates; the weight of each is computed once, however many routers it comes to.
            total = total_weight(body)
            if total <= filter_weight and total <= weight:
                return body, total, False
        # A filter with more constraints than its weight may be is shortened, so that more need not be read.
        given = filters_in(body, filter_weight) if isinstance(body, EncodedPredicate) else body
        read, total, widened = widen(given, filter_weight, weight, filters)
        if isinstance(body, EncodedPredicate):
            whole = self.predicate(read)
            return whole if widened else with_classes(whole, body.frame_type, body.encoded), total, widened
        return self.predicate(read) if widened else body, total, widened

    def message_of(self, body: Message | EncodedMessage) -> Message:
        """The message that a body holds.

        Raises DecodeError: it breaks a rule of the format.
        """
        return message_of(body)

    def message_body(self, message: Message) -> Message | EncodedMessage:
        """The body of a frame of type `message_frame`, which is encoded once however often it is sent."""
        return EncodedMessage(encode_message(message), message)

    def message_in(self, frame: Frame) -> Message | EncodedMessage:
        """The body of a frame of type `message_frame`, of one of the classes `message_bodies`."""
        return frame.body  # type: ignore[return-value]  # the table of frames has checked the class

    def predicate_in(self, frame: Frame) -> Predicate:
        """The body of an advertisement or reply, of one of the classes `predicate_bodies`."""
        return frame.body  # type: ignore[return-value]  # the table of frames has checked the class

    def selects(self, predicate: Predicate, message: Message) -> bool:
        """Whether an application that declared `predicate` gets the message."""
        return matches(predicate, message)

    def refusal(self, body: object) -> str | None:
        """The reason for which routers do not pass on the message of a body; None: they do."""
        return _TOO_LARGE if is_too_large(body) else None

    # The socket of applications.

    def requested_predicate(self, request: Mapping[str, Any]) -> Predicate:
        """The predicate in a request of an application.

        Raises:
            ValueError: the request has none, or a malformed one, or one that exceeds a bound.
        """
        text = request.get("predicate")
        if not isinstance(text, str):
            raise ValueError(f"predicate: expected a text, got {shown(text)}")  # noqa: TRY004
        return parse_predicate(text, self.most)

    def requested_message(self, request: Mapping[str, Any]) -> Message:
        """The message in a request of an application.

        Raises:
            ValueError: the request has none, or a malformed one.
        """
        text, attributes = request.get("message"), request.get("attributes")
        if (text is None) == (attributes is None):
            raise ValueError("expected either 'message' or 'attributes'")
        if isinstance(text, str):
            return parse_message(text, MOST_ATTRIBUTES)
        if isinstance(attributes, dict):
            if len(attributes) > MOST_ATTRIBUTES:
                raise ValueError(f"attributes: {len(attributes)} of them; at most {MOST_ATTRIBUTES}")
            try:
                return Message(attributes)
            except TypeError as error:
                raise ValueError(f"attributes: {error}") from error
        if text is not None:
            raise ValueError(f"message: expected a text, got {shown(text)}")
        raise ValueError(f"attributes: expected an object, got {shown(attributes)}")

    @staticmethod
    def delivery(message: Message) -> Mapping[str, Any]:
        """The fields of a delivery that hold the message."""
        return {"attributes": message}


class Plain(Content):
    """Filters that others cover are dropped, filters that can be merged are merged (section 3.5.6)."""

    pool = POOL


class VerbatimPool(NumberedFilters):
    """Filters under numbers, in the order of their texts; see `FilterAlgebra`."""

    def _key(self, filter_: Filter) -> bytes:
        return format_predicate(Predicate((filter_,))).encode()

    def _matching(self, message: Message) -> Bits:
        return bits_of(
            [number for number, filter_ in self._filters.items() if matches_filter(filter_, message)]
        )

    def add(self, members: Bits, numbers: Iterable[int]) -> Bits:
        return members | bits_of(tuple(numbers))

    def unite(self, members: Bits, others: Bits) -> Bits:
        return members | others

    def covers(self, members: Bits, number: int) -> bool:
        return bool(members >> number & 1)


class Verbatim(Content):
    """Filters are kept as they were declared."""

    pool = VerbatimPool()
    widens: ClassVar[bool] = False
