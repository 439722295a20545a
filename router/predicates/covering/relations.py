"""What the pool of filters has found out about one filter and the others."""

from __future__ import annotations

from router.predicates.covering.normal import Attribute, NormalFilter
from router.predicates.covering.thresholds import Bits

_SETS = ("above", "below", "changed", "compared", "doubtful", "helped", "helpful", "high", "low", "tried")


class Relations:
    """What is known of one filter and others of the pool. All are sets of numbers.

    Attributes:
        bit: the filter alone.
        helpful: a superset of what can cover the filter, alone or with others.
        above: of these, as far as they were `compared`, those that do so alone; and the filter.
        partial: attribute -> those that do but for some values of that attribute.
        low, high: those that allow the lowest (highest) corner of the filter, seen as a box; if it is one
            (`plain`), some member of a set that covers it is in each.
        helped: the filters for which this one is in `helpful`.
        below: of these, as far as they were `tried`, those that this one covers.
        doubtful: those that it covers but for some values of one attribute.
        relatives: attribute -> those that differ from this one in the intervals of that attribute only, and
            have values there that are its own, or beside them.
        changed: all that may change when this filter joins them: `helped` and `relatives`.
    """

    __slots__ = (
        *("above", "below", "bit", "changed", "compared", "doubtful", "helped", "helpful", "high"),
        *("low", "partial", "plain", "relatives", "tried"),
    )

    def __init__(self, filter_: NormalFilter) -> None:
        self.bit: Bits = 0
        self.changed: Bits = 0
        self.helpful: Bits = 0
        self.compared: Bits = 0
        self.above: Bits = 0
        self.partial: dict[str, Bits] = {}
        self.plain = all(values.is_plain for values in filter_.attributes.values())
        self.low: Bits = 0
        self.high: Bits = 0
        self.helped: Bits = 0
        self.tried: Bits = 0
        self.below: Bits = 0
        self.doubtful: Bits = 0
        self.relatives: dict[Attribute, Bits] = dict.fromkeys((name for name, _ in filter_.items()), 0)

    def keep_only(self, live: Bits) -> None:
        """Forgets all other filters."""
        for name in _SETS:
            setattr(self, name, getattr(self, name) & live)
        self.partial = {name: bits & live for name, bits in self.partial.items() if bits & live}
        self.relatives = {name: bits & live for name, bits in self.relatives.items()}
