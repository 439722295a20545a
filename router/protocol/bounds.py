"""The bounds on what other routers send, and on what applications declare, applied in one place.

Keys of [protocol] state the bounds on predicates (`router.protocol.options`), this module all others.

A frame meets the bounds as it comes in, before any algebra: the core behind them handles each frame whole, in
the turn in which it comes in. A body that the default bounds admit takes at most 150 ms, in tables of up to
20,000 filters (docs/adr/0033).

A predicate that exceeds a bound is widened and counted (`router.predicates.covering.widening`). All bounds
are counts, and the clock is that of the events, so a replay of the events gives the same answers.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from router.content import Content
from router.predicates import Predicate
from router.predicates.covering.widening import MERGED_MAX
from router.protocol.options import RouterOptions
from router.wire.frames import EncodedPredicate, Frame
from router.wire.tlv import has_more_than

T = TypeVar("T", bound=Hashable)

# --- Predicates -------------------------------------------------------------------------------------------

#: Bytes of the body of an RA or UR that is read.
PREDICATE_BYTES = 4 * 1024 * 1024
#: Bytes of a malformed body that count as one constraint.
_CONSTRAINT_BYTES = 16
#: Senders whose allowances are kept whether they are full or not.
_FEW_SENDERS = 16


class Allowances:
    """Token buckets by number of a sender: the weight that a neighbour, or an issuer, may send.

    A full bucket is like a bucket that was never used, so it need not be kept: memory grows with the senders
    of the last seconds, not with all of them.

    Args:
        burst: the size of a bucket.
        rate: the units that a bucket gains in a second.
    """

    __slots__ = ("_burst", "_full_at", "_rate", "_sweep_at")

    def __init__(self, burst: int, rate: int) -> None:
        self._burst, self._rate = burst, rate
        #: Sender -> when its bucket is full again (seconds).
        self._full_at: dict[int, float] = {}
        self._sweep_at = _FEW_SENDERS

    def __len__(self) -> int:
        return len(self._full_at)

    def left(self, sender: int, now: float) -> int:
        """Returns the weight that a sender may send at this time."""
        full_at = self._full_at.get(sender, now)
        if full_at <= now:
            return self._burst
        # A difference of times is not exact.
        return max(0, int(self._burst - (full_at - now) * self._rate + 0.001))

    def charge(self, sender: int, weight: int, now: float) -> None:
        """Takes a weight from the bucket of a sender; a bucket holds no debt."""
        if len(self._full_at) >= self._sweep_at:
            self._full_at = {each: full_at for each, full_at in self._full_at.items() if full_at > now}
            self._sweep_at = max(_FEW_SENDERS, 2 * len(self._full_at))
        full_at = self._full_at.get(sender, now)
        since = full_at if full_at > now else now
        self._full_at[sender] = min(since + weight / self._rate, now + self._burst / self._rate)

    def keep_only(self, senders: Callable[[int], object]) -> None:
        """Forgets the senders for which `senders` returns nothing true."""
        self._full_at = {sender: each for sender, each in self._full_at.items() if senders(sender)}


class Bounds:
    """Applies the bounds to the predicates of RAs and URs.

    Attributes:
        neighbours, issuers: what each may still send.
    """

    __slots__ = ("_content", "_options", "issuers", "neighbours")

    def __init__(self, options: RouterOptions, content: Content) -> None:
        self._options = options
        self._content = content
        self.neighbours = Allowances(options.predicate_burst, options.predicate_rate)
        self.issuers = Allowances(options.predicate_burst, options.predicate_rate)

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
        content, options, body = self._content, self._options, frame.body
        assert isinstance(body, (Predicate, EncodedPredicate))
        if not content.widens:
            return content.read(body), False
        charges_issuer = frame.type is content.advertisement_frame
        left = min(options.predicate_weight, self.neighbours.left(sender, now))
        if charges_issuer:
            left = min(left, self.issuers.left(frame.issuer, now))
        encoded = body.encoded if isinstance(body, EncodedPredicate) else None
        # What a malformed body is charged: all of it may have been read.
        weight = 1 if encoded is None else 1 + len(encoded) // _CONSTRAINT_BYTES
        try:
            if full or not left or (encoded is not None and _is_vast(encoded, options.predicate_filters)):
                predicate, weight, widened = content.everything, left, True
            else:
                predicate, weight, widened = content.within(
                    body, options.filter_weight, left, options.predicate_filters
                )
                # An RA without filters counts too: the number of RAs in a second is bounded.
                weight = weight or 1
        finally:
            self.neighbours.charge(sender, weight, now)
            if charges_issuer:
                self.issuers.charge(frame.issuer, weight, now)
        return predicate, widened


def _is_vast(encoded: bytes, filters: int) -> bool:
    """Whether a body is not even read, since it has too many bytes, or more filters than are merged.

    Raises DecodeError: the body breaks a rule of the format.
    """
    return len(encoded) > PREDICATE_BYTES or has_more_than(encoded, filters + MERGED_MAX)


# --- What is remembered -----------------------------------------------------------------------------------


class Recent(Generic[T]):
    """A set that forgets its oldest members, and knows in what order they were added.

    Args:
        capacity: at most so many members.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._members: OrderedDict[T, int] = OrderedDict()
        #: Additions so far.
        self.added = 0

    def __contains__(self, member: T) -> bool:
        return member in self._members

    def add(self, member: T) -> bool:
        """Adds a member; returns False if it is a member already."""
        if member in self._members:
            return False
        self.added += 1
        self._members[member] = self.added
        if len(self._members) > self._capacity:
            self._members.popitem(last=False)
        return True

    def discard(self, member: T) -> None:
        """Forgets a member, if it is one."""
        self._members.pop(member, None)

    def number(self, member: T) -> int | None:
        """Returns the number of the addition of a member, from 1 on; None: it is no member."""
        return self._members.get(member)
