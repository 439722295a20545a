"""The memory that the parts of the attention-limited service at one router share."""

from __future__ import annotations

from router.predicates.model import Message
from router.protocol.attention.boxes import Boxes
from router.protocol.attention.cache import Cache, Cached, PublicationId
from router.protocol.attention.events import Index, IndexChanged
from router.protocol.attention.fan_out import FAN_OUTS
from router.protocol.attention.options import AttentionOptions
from router.protocol.attention.recent import Recent
from router.protocol.attention.strategies import STRATEGIES
from router.protocol.attention.table import Entry, SubscriptionTable
from router.protocol.attention.timers import Timers
from router.protocol.attention.transitions import Transition
from router.protocol.attention.turns import Turns
from router.protocol.context import Context
from router.protocol.events import Action

#: Frames, and publications that were delivered, that a router remembers at least.
_REMEMBERED = 4096


class State:
    """The memory of one router.

    Attributes:
        delivered: publications that were delivered here. One that was evicted since is no new one, even if a
            frame calls it pending, which an overtaken frame may.
        settled: nothing more is to be started unasked.
    """

    def __init__(self, context: Context) -> None:
        options = context.options.service_options
        assert isinstance(options, AttentionOptions)
        self.context = context
        self.options = options
        self.fan_out = FAN_OUTS[options.fan_out]
        self.strategy = STRATEGIES[options.strategy](options.beta_s, options.count_in_transit)
        self.cache = Cache(options)
        self.boxes = Boxes()
        self.table = SubscriptionTable()
        self.timers = Timers()
        self.turns = Turns(context)
        remembered = max(_REMEMBERED, 4 * options.cache_publications)
        self.delivered: Recent[PublicationId] = Recent(remembered)
        self.settled = False

    @property
    def compared(self) -> int:
        """The constraints that were compared so far, with the cache and of the table."""
        return self.cache.compared + self.table.compared

    def keeps(self, weight: int, before: Entry | None, interface: int | None = None) -> bool:
        """Whether the router may keep a subscription of this weight.

        A neighbour may fill as much of the table as it leaves free (the dynamic threshold of Choudhury and
        Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches", 1998): a single one half
        of it, two of them a third each, so that there is room for the next.

        Args:
            before: the entry that it replaces; None: it is a further one.
            interface: the SUB came in on it; None: it is an application's.
        """
        options, table = self.options, self.table
        old = 0 if before is None else before.weight
        free = options.subscriptions - len(self.boxes) - len(table) + (before is not None)
        free_weight = options.subscriptions_weight - self.boxes.weight - table.weight + old
        if weight > self.context.options.turn_weight or free < 1 or free_weight < weight:
            return False
        if interface is None:
            return True
        same = before is not None and before.interface == interface
        own = table.of_interface[interface] - same
        own_weight = table.weight_of_interface[interface] - (old if same else 0)
        return own < free and own_weight + weight <= free_weight

    # Changes of the indexes.

    def enter(
        self,
        id_: PublicationId,
        message: Message,
        uploaded_at: float,
        row: Transition,
        now: float,
        flushed: bool = False,
    ) -> tuple[Cached, list[Action]]:
        """Adds a publication to the index of a row, which has one; `evict` is due afterwards."""
        assert row.after is not None
        cached = Cached(id_, message, uploaded_at, now, flushed)
        self.cache.add(cached, row.after, row.dispatched)
        return cached, self._changed(cached, None, row.after, row.name, now)

    def move(self, cached: Cached, row: Transition, now: float) -> list[Action]:
        """Moves a cached publication to the index of a row, and counts a use."""
        assert row.after is not None
        before = cached.index
        self.cache.used(cached, now)
        if before is row.after and cached.dispatched == row.dispatched:
            return []
        self.cache.move(cached, row.after, row.dispatched)
        return [] if before is row.after else self._changed(cached, before, row.after, row.name, now)

    def left(self, cached: Cached, cause: str, now: float) -> list[Action]:
        """A publication was removed from the cache."""
        return self._changed(cached, cached.index, None, cause, now)

    def _changed(
        self, cached: Cached, before: Index | None, after: Index | None, cause: str, now: float
    ) -> list[Action]:
        if not self.options.record_caches:
            return []
        return [IndexChanged(*cached.id, before, after, cause, now)]
