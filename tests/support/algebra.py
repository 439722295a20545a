"""Covering and union of predicates whole, by the pool of the process."""

from __future__ import annotations

from router.predicates import Predicate
from router.predicates.covering.algebra import PredicateBuilder
from router.predicates.covering.pool import POOL


def covers(p: Predicate, q: Predicate) -> bool:
    """Whether every message that `q` matches is known to match `p`; True is always right."""
    return p is q or PredicateBuilder(members=POOL.simplified(p)).covers(q)


def disjoin(p: Predicate, q: Predicate) -> Predicate:
    """p ∨ q, simplified; `p` itself if it is simplified already and covers `q`."""
    union = PredicateBuilder(members=POOL.simplified(p))
    numbers = [number for number in POOL.numbers(q) if not POOL.covers(union.members, number)]
    union.members = POOL.add(union.members, numbers, jointly=False)
    return p if union.predicate == p else union.predicate
