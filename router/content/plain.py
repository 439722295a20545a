"""Predicates with covering and simplification: `[protocol] covering = "full"`."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from router.content.base import Content
from router.predicates.covering.pool import POOL
from router.predicates.model import Predicate
from router.wire.predicate import encode_filter


class Plain(Content):
    """Filters that others cover are dropped, filters that can be merged are merged (section 3.5.6)."""

    pool = POOL

    def widening(self, predicate: Predicate, filters: int) -> Generator[None, None, Predicate]:
        """See `Content`."""
        from router.predicates.covering.oversimplify import oversimplified

        return Predicate(tuple((yield from oversimplified(predicate.filters, filters))))

    def encode_ahead(self, numbers: Iterable[int]) -> None:
        """See `Content`."""
        for filter_ in self.pool.filters(numbers):
            encode_filter(filter_)
