"""The bounds on what other routers send, and on what applications declare: all of them, in one place.

A frame meets the bounds as it comes in, before any algebra: the core behind them handles each frame whole, in
the turn in which it comes in. A body that the default bounds admit takes at most 150 ms (docs/adr/0033).

A predicate that exceeds a bound is widened and counted (`router.predicates.covering.budget`): it matches more
messages, so no receiver is lost. It goes on widened, since the RA filter of this router relies on what the
routers beyond have; with a signature it goes on as it came in, and the RA filter leaves it out. All bounds
are counts, and the clock is that of the events, so a replay of the events gives the same answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

from router.content.base import MOST_ATTRIBUTES, Content
from router.predicates.covering.budget import MERGED_MAX
from router.predicates.model import Predicate
from router.predicates.parser import Most
from router.wire.frames import AddressedMessage, EncodedMessage, EncodedPredicate, Frame
from router.wire.header import DecodeError
from router.wire.tlv import TLV_HEADER_LENGTH, has_more_than

# --- Predicates -------------------------------------------------------------------------------------------

#: Bytes of the body of an RA or UR that is read.
PREDICATE_BYTES = 4 * 1024 * 1024
#: Bytes of a malformed body that count as one constraint.
_CONSTRAINT_BYTES = 16
#: Senders whose allowances are kept whether they are full or not.
_FEW_SENDERS = 16


@dataclass(frozen=True, slots=True)
class PredicateLimits:
    """Bounds on the predicates of RAs and URs; the first three also bind applications, which are refused.

    Attributes:
        filter_weight: weight of one filter; the last constraints of a heavier filter are left out.
        predicate_weight: weight of one predicate; the filters beyond it are merged.
        predicate_filters: filters of one predicate, likewise: the memory of a table grows with their square.
        burst: weight that one neighbour, or one issuer, may send at once; see `Allowance`.
        rate: weight a second that one neighbour, or one issuer, may send for long.
        table_filters: filters of a routing table, over all interfaces; a table that has as many takes further
            predicates as matching everything.

    Raises:
        ValueError: a bound is less than 1.
    """

    filter_weight: int = 512
    predicate_weight: int = 4_000
    predicate_filters: int = 1_000
    burst: int = 440_000
    rate: int = 10_000
    table_filters: int = 50_000

    def __post_init__(self) -> None:
        for name in (each.name for each in fields(self)):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: {getattr(self, name)} is less than 1")

    @property
    def of_texts(self) -> Most:
        """The bounds on the text of a predicate that an application declares."""
        return Most(self.predicate_filters, self.filter_weight, self.predicate_weight)


#: Predicates of 1,000 filters of up to three equalities, orders and prefixes each are exact.
DEFAULT_LIMITS = PredicateLimits()


class Allowances:
    """Token buckets by number of a sender: the weight that a neighbour, or an issuer, may send.

    A full bucket is like one that was never used, so it need not be kept: memory grows with the senders of
    the last seconds, not with all of them.

    Args:
        limits: `burst` is the size of a bucket, `rate` the units that it gains in a second.
    """

    def __init__(self, limits: PredicateLimits) -> None:
        self._burst, self._rate = float(limits.burst), limits.rate
        #: Sender -> what its bucket held, and when (seconds).
        self._buckets: dict[int, tuple[float, float]] = {}
        self._sweep_at = _FEW_SENDERS

    def __len__(self) -> int:
        return len(self._buckets)

    def left(self, sender: int, now: float) -> float:
        """Returns the weight that a sender may send at this time."""
        bucket = self._buckets.get(sender)
        if bucket is None:
            return self._burst
        left, at = bucket
        return min(left + (now - at) * self._rate, self._burst) if now > at else left

    def use(self, sender: int, left: float, now: float) -> None:
        """Leaves a sender less than it had."""
        if len(self._buckets) >= self._sweep_at:
            self._buckets = {
                each: bucket for each, bucket in self._buckets.items() if self.left(each, now) < self._burst
            }
            self._sweep_at = max(_FEW_SENDERS, 2 * len(self._buckets))
        self._buckets[sender] = max(left, 0.0), now

    def keep_only(self, senders: Callable[[int], object]) -> None:
        """Forgets the senders for which `senders` returns nothing true."""
        self._buckets = {sender: each for sender, each in self._buckets.items() if senders(sender)}


class Bounds:
    """Applies the bounds to the predicates of RAs and URs.

    Attributes:
        neighbours, issuers: what each may still send.
    """

    def __init__(self, limits: PredicateLimits, content: Content) -> None:
        self._limits = limits
        self._content = content
        self.neighbours = Allowances(limits)
        self.issuers = Allowances(limits)

    def within(self, sender: int, frame: Frame, full: bool, now: float) -> tuple[Predicate, bool]:
        """The predicate of an RA or UR, and whether it was widened; charges who sent it, malformed or not.

        An RA charges its issuer and the neighbour. A UR charges the neighbour alone, which made it: the
        issuer of the SR wrote none of it.

        Args:
            sender: the neighbour.
            full: whether the tables have `table_filters`.

        Raises:
            DecodeError: the body breaks a rule of the format.
        """
        content, limits, body = self._content, self._limits, frame.body
        assert isinstance(body, Predicate | EncodedPredicate)
        if not content.widens:
            return content.read(body), False
        charges_issuer = frame.type is content.advertisement_frame
        of_neighbour = of_issuer = self.neighbours.left(sender, now)
        if charges_issuer:
            of_issuer = self.issuers.left(frame.issuer, now)
        left = min(limits.predicate_weight, int(of_neighbour), int(of_issuer))
        # What a malformed body is charged: all of it may have been read.
        weight = 1 + len(body.encoded) // _CONSTRAINT_BYTES if isinstance(body, EncodedPredicate) else 1
        try:
            if full or not left or _is_vast(body, limits.predicate_filters + MERGED_MAX):
                predicate, weight, widened = content.everything, left, True
            else:
                predicate, weight, widened = content.within(
                    body, limits.filter_weight, left, limits.predicate_filters
                )
                # An RA without filters counts too: the number of RAs in a second is bounded.
                weight = max(weight, 1)
        finally:
            self.neighbours.use(sender, of_neighbour - weight, now)
            if charges_issuer:
                self.issuers.use(frame.issuer, of_issuer - weight, now)
        return predicate, widened


def _is_vast(body: Predicate | EncodedPredicate, filters: int) -> bool:
    """Whether a predicate is not even read, since it has too many bytes or filters.

    Raises DecodeError: its body breaks a rule of the format.
    """
    if isinstance(body, Predicate):
        return len(body) > filters
    return len(body.encoded) > PREDICATE_BYTES or has_more_than(body.encoded, filters)


# --- Messages ---------------------------------------------------------------------------------------------

#: Bytes of the body of a message. Applications cannot send larger ones: a request has at most 1 MiB
#: (docs/application-socket.md).
MOST_BYTES = 1024 * 1024
#: Bytes of an attribute: TLV header, length of the name, name, type, value. Most for a name and a value.
_LEAST, _LONGEST = TLV_HEADER_LENGTH + 3, TLV_HEADER_LENGTH + 2 + 255 + 65_535
_NUMBER = 8


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
