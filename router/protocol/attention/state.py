"""The memory that the parts of the attention-limited service at one router share."""

from __future__ import annotations

from router.predicates.model import Message
from router.protocol.attention.boxes import Boxes
from router.protocol.attention.cache import Cache, Cached, PublicationId
from router.protocol.attention.events import Index, IndexChanged
from router.protocol.attention.options import AttentionOptions
from router.protocol.attention.recent import Recent
from router.protocol.attention.strategies import STRATEGIES
from router.protocol.attention.table import SubscriptionTable
from router.protocol.attention.timers import Timers
from router.protocol.attention.transitions import Transition
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
        self.strategy = STRATEGIES[options.strategy](options.beta_s, options.count_in_transit)
        self.cache = Cache(options)
        self.boxes = Boxes()
        self.table = SubscriptionTable()
        self.timers = Timers()
        remembered = max(_REMEMBERED, 4 * options.cache_publications)
        self.delivered: Recent[PublicationId] = Recent(remembered)
        self.settled = False

    def keeps(self, weight: int, before: int | None = None) -> bool:
        """Whether the router may keep a subscription of this weight.

        It searches the whole cache for one in the turn in which it comes.

        Args:
            before: weight of the entry that it replaces; None: it is a further one.
        """
        options, further = self.options, before is None
        whole = self.boxes.weight + self.table.weight + weight - (before or 0)
        return (
            weight <= self.context.options.turn_weight
            and len(self.boxes) + len(self.table) + further <= options.subscriptions
            and whole <= options.subscriptions_weight
        )

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
