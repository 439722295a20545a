"""Predicates with covering and simplification: `[protocol] covering = "full"`."""

from __future__ import annotations

from router.content.base import Content
from router.predicates.covering.pool import POOL


class Plain(Content):
    """Filters that others cover are dropped, filters that can be merged are merged (section 3.5.6)."""

    pool = POOL
