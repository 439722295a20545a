"""The pool of filters that are kept as declared: removing filters in steps, and large predicates."""

from __future__ import annotations

import random

import pytest

from router.content.verbatim import VerbatimPool
from router.predicates.covering import numbering
from router.predicates.covering.builder import PredicateBuilder
from router.predicates.model import Constraint, Filter, Message, Operator, Predicate, Type
from router.predicates.printer import format_predicate


def _points(numbers: list[int]) -> Predicate:
    return Predicate(
        tuple(Filter((Constraint("x", Type.INTEGER, Operator.EQ, number),)) for number in numbers)
    )


def test_filters_come_and_go_while_others_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbering, "SWEEP_AT", 64)
    rng, pool = random.Random(4), VerbatimPool()
    held: list[tuple[PredicateBuilder, Predicate]] = []
    sweeps = steps = 0
    for _ in range(600):
        predicate = _points(rng.sample(range(400), 12))
        was = bool(pool._leaving)
        held.append((PredicateBuilder(predicate, pool=pool), predicate))
        sweeps += was and not pool._leaving
        steps += was
        if len(held) > 5:
            held.pop(rng.randrange(5))
        for builder, expected in held:
            texts = sorted(format_predicate(Predicate((filter_,))) for filter_ in expected)
            assert [format_predicate(Predicate((each,))) for each in builder.predicate] == texts
            x = rng.randrange(400)
            wanted = any(filter_.constraints[0].value == x for filter_ in expected)
            assert builder.matches(Message({"x": x})) == wanted
    # Each took several steps.
    assert sweeps >= 5
    assert steps >= 2 * sweeps
    pool.sweep()
    assert len(pool) == len({filter_ for _, predicate in held for filter_ in predicate})
