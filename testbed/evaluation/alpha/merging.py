"""Alpha with everything that routers do to a disjunction: covered filters are removed, others are merged."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from router.predicates.covering.builder import PredicateBuilder
from router.predicates.covering.pool import FilterPool
from router.predicates.model import Predicate
from router.wire.predicate import encode_predicate
from testbed.evaluation.alpha.conjunctions import Conjunctions


@dataclass(frozen=True)
class Merged:
    """A disjunction as a router holds it.

    Attributes:
        constraints, bytes: of the disjunction, over those of all conjunctions, each simplified alone.
        undecided: searches for several filters that cover another together which were cut off; the filter
            was kept.
    """

    constraints: float
    bytes: float
    undecided: int


def merged(conjunctions: Conjunctions) -> Merged:
    """Returns alpha of the conjunctions in a `PredicateBuilder`, which takes their order into account."""
    pool = FilterPool(pairs=sys.maxsize)
    filters = conjunctions.filters()
    union = PredicateBuilder(Predicate(tuple(filters)), pool=pool).predicate
    alone = [PredicateBuilder(Predicate((each,)), pool=pool).predicate for each in filters]
    return Merged(
        sum(map(len, union)) / sum(len(each) for predicate in alone for each in predicate),
        len(encode_predicate(union)) / sum(len(encode_predicate(each)) for each in alone),
        pool.undecided,
    )
