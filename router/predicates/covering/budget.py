"""Bounds on the work that predicates of other routers cause, and the widening of what exceeds them.

The unit of all bounds is the *weight* of a filter: one, plus one for each constraint, plus one for each 160
bytes of its names and strings. Decoding, normalising and interning a filter takes time that grows with its
weight. All bounds are counts, not times, so a replay of the same events gives the same predicates.

A predicate within its bound is unchanged. Beyond the bound it is widened: it then matches more messages, and
every message that the original matches. Nobody loses a message by it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace

from router.predicates.covering.merging import merge
from router.predicates.covering.normal import Attribute, NormalFilter, normalise
from router.predicates.model import EVERYTHING, Constraint, Filter, Predicate

#: Bytes of names and strings that count as one constraint.
_BYTES = 160
#: The greatest bound on the weight of a filter (`[protocol] filter_weight`). The texts of a filter of more
#: constraints are not read: it exceeds every bound without them.
FILTER_WEIGHT_MAX = 5_000
#: Different sets of attributes for which the widened part of a predicate has a filter of its own.
_SIGNATURES = 64
#: Senders whose allowances are kept whether they are full or not.
_FEW_SENDERS = 16


@dataclass(frozen=True, slots=True)
class PredicateLimits:
    """Bounds on the predicates of RAs and URs.

    Attributes:
        filter_weight: weight of one filter; the last constraints of a heavier one are left out.
        predicate_weight: weight of one predicate; the filters beyond it are merged (`chunks`).
        predicate_filters: filters of one predicate, likewise: the memory of a table grows with their square.
        turn_weight: weight of the filters that are added to tables in one turn of the router.
        turn_pairs: pairs of filters that are compared in one turn (`FilterPool.bounded`).
        burst: weight that one neighbour, or one issuer, may send at once; see `Allowance`.
        rate: weight a second that one neighbour, or one issuer, may send for long.
        waiting: predicates of one neighbour that may wait to be read.
        table_filters: filters of a routing table, over all interfaces; a table that has as many takes further
            predicates as matching everything.

    Raises:
        ValueError: a bound is less than 1, or `turn_weight` is less than 2.
    """

    filter_weight: int = 512
    predicate_weight: int = 100_000
    predicate_filters: int = 10_000
    turn_weight: int = 128
    turn_pairs: int = 2_000
    burst: int = 200_000
    rate: int = 5_000
    waiting: int = 1_000
    table_filters: int = 50_000

    def __post_init__(self) -> None:
        for name in (each.name for each in fields(self)):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: {getattr(self, name)} is less than 1")
        if self.turn_weight < 2:
            raise ValueError(f"turn_weight: {self.turn_weight} is less than 2")

    def unbounded(self) -> PredicateLimits:
        """Returns the limits without those that lead to widening."""
        most = sys.maxsize
        return replace(self, filter_weight=most, predicate_weight=most, predicate_filters=most)


#: Predicates of 10,000 filters of up to nine constraints are exact.
DEFAULT_LIMITS = PredicateLimits()


class Allowance:
    """A token bucket: the weight that a neighbour, or an issuer, may send.

    Args:
        limits: `burst` is the size of the bucket, `rate` the units that it gains in a second.
        now: the time, in seconds.
    """

    __slots__ = ("_at", "_left", "_limits")

    def __init__(self, limits: PredicateLimits, now: float) -> None:
        self._limits = limits
        self._left = float(limits.burst)
        self._at = now

    def left(self, now: float) -> int:
        """Returns the weight that may be sent at this time."""
        if now > self._at:
            left = self._left + (now - self._at) * self._limits.rate
            self._left = min(left, float(self._limits.burst))
            self._at = now
        return int(self._left)

    def use(self, weight: int) -> None:
        """Takes this weight, or all that is left."""
        self._left = max(0.0, self._left - weight)


def weight_of(filter_: Filter) -> int:
    """Returns the weight of a filter; texts do not count in a filter of more than 5,000 constraints."""
    if len(filter_) > FILTER_WEIGHT_MAX:
        return 1 + len(filter_)
    length = sum(
        len(constraint.name) + (len(constraint.value) if isinstance(constraint.value, str) else 0)
        for constraint in filter_
    )
    return 1 + len(filter_) + length // _BYTES


def total_weight(predicate: Predicate) -> int:
    """Returns the weight of all filters of a predicate; computed once for each object."""
    weight = predicate.weight
    if weight < 0:
        weight = sum(map(weight_of, predicate))
        object.__setattr__(predicate, "weight", weight)
    return weight


class Allowances:
    """The allowances of many senders, by number.

    A full bucket is like one that was never used, so it need not be kept: memory grows with the senders of
    the last seconds, not with all of them.
    """

    def __init__(self, limits: PredicateLimits) -> None:
        self._limits = limits
        self._buckets: dict[int, Allowance] = {}
        self._sweep_at = _FEW_SENDERS

    def __len__(self) -> int:
        return len(self._buckets)

    def of(self, sender: int, now: float) -> Allowance:
        """Returns the allowance of a sender, which is full if it was not used lately."""
        bucket = self._buckets.get(sender)
        if bucket is None:
            if len(self._buckets) >= self._sweep_at:
                self._sweep(now)
            bucket = self._buckets[sender] = Allowance(self._limits, now)
        return bucket

    def keep_only(self, senders: Callable[[int], object]) -> None:
        """Forgets the senders for which `senders` returns nothing true."""
        self._buckets = {sender: each for sender, each in self._buckets.items() if senders(sender)}

    def _sweep(self, now: float) -> None:
        burst = self._limits.burst
        self._buckets = {
            sender: bucket for sender, bucket in self._buckets.items() if bucket.left(now) < burst
        }
        self._sweep_at = max(_FEW_SENDERS, 2 * len(self._buckets))


@dataclass(slots=True)
class Chunk:
    """A part of a predicate whose weight is at most that of a turn, unless it is a single filter.

    Attributes:
        predicate: its filters; it may be empty.
        weight: of the filters that were read for it.
        widened: whether filters read so far were widened.
        last: whether it is the last chunk of the predicate.
    """

    predicate: Predicate
    weight: int
    widened: bool
    last: bool = False


def chunks(filters: Iterable[Filter], limits: PredicateLimits, allowed: int) -> Iterator[Chunk]:
    """Divides a predicate into chunks, whose disjunction covers it.

    The disjunction is equivalent to the predicate if no filter is heavier than `filter_weight`, all of them
    together are not heavier than `allowed`, and they are not more than `predicate_filters`. Otherwise the
    leading constraints of a heavy filter are kept, and the filters beyond the bounds are merged into
    one filter for each set of attributes, or into one in all if there are many such sets. Each step of
    the iterator reads filters of the weight of a turn.

    Args:
        filters: of the predicate.
        allowed: at most `predicate_weight` counts.

    Raises:
        Exception: what reading the filters raises, at the filter that is due.
    """
    allowed = min(allowed, limits.predicate_weight)
    total, kept, weight, widened = 0, 0, 0, False
    waiting: list[Filter] = []
    rest = _Hulls()
    for original in filters:
        own = weight_of(original)
        filter_ = original
        if own > limits.filter_weight:
            filter_, widened = _shortened(original, limits.filter_weight), True
            # The excess is read, which takes less time than to add it to tables.
            own = limits.filter_weight
        if weight and weight + own > limits.turn_weight:
            yield Chunk(Predicate(tuple(waiting)), weight, widened)
            waiting, weight = [], 0
        total += own
        weight += own
        if total <= allowed and kept < limits.predicate_filters:
            kept += 1
            waiting.append(filter_)
        else:
            widened = True
            rest.add(filter_)
    waiting += rest.filters()
    yield Chunk(Predicate(tuple(waiting)), weight, widened, last=True)


def widen_to(predicate: Predicate, limits: PredicateLimits, allowed: int | None = None) -> Predicate:
    """Returns the disjunction of all chunks of a predicate; the predicate itself if none was widened."""
    parts = list(chunks(predicate, limits, limits.predicate_weight if allowed is None else allowed))
    if not parts[-1].widened:
        return predicate
    return Predicate(tuple(filter_ for part in parts for filter_ in part.predicate))


def _shortened(filter_: Filter, limit: int) -> Filter:
    """The leading constraints of a filter, up to a weight."""
    kept: list[Constraint] = []
    length = 0
    for constraint in filter_:
        length += len(constraint.name) + (len(constraint.value) if isinstance(constraint.value, str) else 0)
        if 2 + len(kept) + length // _BYTES > limit:
            break
        kept.append(constraint)
    return Filter(tuple(kept))


class _Hulls:
    """Filters merged into one for each set of attributes, in one step for each."""

    def __init__(self) -> None:
        self._merged: dict[frozenset[Attribute], NormalFilter] = {}
        self._everything = False

    def add(self, filter_: Filter) -> None:
        """Adds a filter."""
        normal = None if self._everything else normalise(filter_)
        if normal is None:
            return
        known = self._merged.get(normal.signature)
        if known is not None:
            self._merged[normal.signature] = merge(known, normal, exclusions=False)
        elif len(self._merged) < _SIGNATURES:
            self._merged[normal.signature] = normal
        else:
            self._everything = True

    def filters(self) -> tuple[Filter, ...]:
        """Returns the merged filters."""
        if self._everything:
            return EVERYTHING.filters
        return tuple(normal.filter for normal in self._merged.values())
