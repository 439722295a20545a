"""Random messages and predicates, drawn from the distributions of
`testbed.experiments.drawing.vocabulary`."""

from __future__ import annotations

from itertools import accumulate
from random import Random
from typing import Protocol

from router.predicates.model import Constraint, Filter, Message, Operator, Predicate, Type, Value
from testbed.experiments.drawing.vocabulary import (
    DOUBLE_TOP,
    INTEGER_TOP,
    OPERATORS,
    STRINGS,
    SUBJECTS,
    Subject,
)

_DEMAND = list(accumulate(subject.demand for subject in SUBJECTS))
_SUPPLY = list(accumulate(subject.supply for subject in SUBJECTS))
_ALL_NAMES = [(name, kind) for subject in SUBJECTS for name, kind in subject.attributes.items()]
#: A prefix, suffix or substring constraint takes this many characters of a string value.
_FRAGMENT = 2


class Sizes(Protocol):
    """The sizes of messages and predicates, such as `testbed.experiments.config.model.WorkloadOptions`."""

    @property
    def filters_min(self) -> int: ...
    @property
    def filters_max(self) -> int: ...
    @property
    def constraints_min(self) -> int: ...
    @property
    def constraints_max(self) -> int: ...
    @property
    def attributes_min(self) -> int: ...
    @property
    def attributes_max(self) -> int: ...


class Contents(Protocol):
    """Draws messages and predicates: this module, or
    `testbed.experiments.drawing.distributions.Distributions`."""

    def draw_message(self, random: Random, sizes: Sizes) -> Message: ...
    def draw_predicate(self, random: Random, sizes: Sizes) -> Predicate: ...


def draw_message(random: Random, sizes: Sizes) -> Message:
    """Draws a message on one subject, of `attributes_min` to `attributes_max` attributes (uniform)."""
    subject = random.choices(SUBJECTS, cum_weights=_SUPPLY)[0]
    names = _draw_names(random, subject, random.randint(sizes.attributes_min, sizes.attributes_max))
    return Message({name: _draw_value(random, kind) for name, kind in names})


def draw_predicate(random: Random, sizes: Sizes) -> Predicate:
    """Draws a predicate of `filters_min` to `filters_max` filters (uniform), each on one subject."""
    count = random.randint(sizes.filters_min, sizes.filters_max)
    return Predicate(tuple(_draw_filter(random, sizes) for _ in range(count)))


def _draw_filter(random: Random, sizes: Sizes) -> Filter:
    subject = random.choices(SUBJECTS, cum_weights=_DEMAND)[0]
    names = _draw_names(random, subject, random.randint(sizes.constraints_min, sizes.constraints_max))
    return Filter(tuple(draw_constraint(random, name, kind) for name, kind in names))


def _draw_names(random: Random, subject: Subject, count: int) -> list[tuple[str, Type]]:
    """Draws `count` distinct names with their types: of the subject first, then of other subjects."""
    own = list(subject.attributes.items())
    if count <= len(own):
        return random.sample(own, count)
    others = [pair for pair in _ALL_NAMES if pair[0] not in subject.attributes]
    return own + random.sample(others, min(count - len(own), len(others)))


def _draw_value(random: Random, kind: Type) -> Value:
    match kind:
        case Type.STRING:
            return random.choice(STRINGS)
        case Type.INTEGER:
            return random.randint(0, INTEGER_TOP)
        case Type.DOUBLE:
            return random.randint(0, int(DOUBLE_TOP * 4)) / 4
        case Type.BOOLEAN:
            return random.random() < 0.5


def draw_constraint(random: Random, name: str, kind: Type) -> Constraint:
    """Draws operator and value of a constraint on an attribute."""
    operators, weights = zip(*OPERATORS[kind], strict=True)
    operator = random.choices(operators, weights)[0]
    if operator is Operator.ANY:
        return Constraint(name, kind, operator)
    value = _draw_value(random, kind)
    if isinstance(value, str):
        start = random.randint(0, len(value) - _FRAGMENT)
        match operator:
            case Operator.PREFIX:
                value = value[:_FRAGMENT]
            case Operator.SUFFIX:
                value = value[-_FRAGMENT:]
            case Operator.SUBSTRING:
                value = value[start : start + _FRAGMENT]
    return Constraint(name, kind, operator, value)
