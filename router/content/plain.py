"""Predicates with covering and simplification: `[protocol] covering = "full"`."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from router.content.base import Content
from router.predicates.covering.normal import normalise
from router.predicates.covering.pool import POOL
from router.predicates.model import Filter
from router.wire.predicate import encode_filter


class Plain(Content):
    """Filters that others cover are dropped, filters that can be merged are merged (section 3.5.6)."""

    pool = POOL

    def prepare(self, filters: Collection[Filter]) -> Iterator[None]:
        """See `Content`."""
        normals = [normal for normal in map(normalise, filters) if normal is not None]
        for normal in normals:
            _ = normal.families
        yield
        for normal in normals:
            _ = normal.key
            encode_filter(normal.filter)
        yield

    def cost_of(self, filter_: Filter) -> int:
        """See `Content`."""
        normal = normalise(filter_)
        return 1 if normal is None else normal.weight
