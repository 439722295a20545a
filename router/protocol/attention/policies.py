"""Which publication of a cache is first: selection and replacement policies.

Attention paper, section 4.1.1. The names of the policies are the paper's. A policy orders the
publications of a cache; as a selection policy it says which is delivered first, as a replacement policy which
is evicted first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from router.registry import Registry


class Ranked(Protocol):
    """The facts about a cached publication by which policies order; see `Cached`."""

    uploaded_at: float
    used_at: float
    uses: int


#: Gives the place of a cached publication in the order of a policy: the least value is first.
Policy = Callable[[Ranked], float]

POLICIES: Registry[Policy] = Registry("policy")
POLICIES.register("lf", lambda cached: cached.uploaded_at, "The less fresh first: the oldest.")
POLICIES.register("mf", lambda cached: -cached.uploaded_at, "The most fresh first: the youngest.")
POLICIES.register("lru", lambda cached: cached.used_at, "The least recently used first.")
POLICIES.register("mru", lambda cached: -cached.used_at, "The most recently used first.")
POLICIES.register("mfu", lambda cached: -cached.uses, "The most frequently used first.")
