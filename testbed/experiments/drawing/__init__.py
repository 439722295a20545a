"""Random messages and predicates, drawn from a vocabulary in which each word has a frequency.

Attribute names belong to subjects: a message has one subject and a filter refers to one subject. An attribute
name belongs to one subject and has one type, so that a constraint and an attribute of equal names can
match. `demand` is the frequency of a subject in filters, `supply` its frequency in messages; subjects
with high supply and low demand give the messages that no predicate selects.

The weights are tuned to the matching distribution of the protocol paper (section 4.1, figure 10).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Protocol

from router.predicates import Constraint, Filter, Message, Operator, Predicate, Type, Value
from router.predicates.lexer import COMPARISONS

#: Letters of types.
_TYPES = {"s": Type.STRING, "i": Type.INTEGER, "d": Type.DOUBLE, "b": Type.BOOLEAN}


@dataclass(frozen=True)
class Subject:
    """A group of attribute names, with the type of each, and its share of filters and of messages."""

    name: str
    demand: float
    supply: float
    attributes: dict[str, Type]


#: A subject a line: its name, and its attributes, each with the letter of its type. Names of attributes are
#: unique over all subjects (tested).
_SUBJECTS = """\
flight origin:s destination:s airline:s fare:d seats:i stops:i refundable:b gate:s boarding:i upgrade:d
market symbol:s exchange:s price:d volume:i change:d yield:d halted:b broker:s lots:i sector:s
weather station:s sky:s temperature:d pressure:d humidity:i wind:d gusts:i alert:b outlook:s rainfall:i
news headline:s author:s section:s region:s words:i readers:i urgent:b score:d agency:s share:d
sport team:s league:s venue:s round:i goals:i attendance:i indoor:b odds:d referee:s rating:d
traffic road:s junction:s direction:s lanes:i vehicles:i speed:d closed:b delay:d cause:s detour:i
energy plant:s fuel:s grid:s turbines:i output:d load:d tariff:d renewable:b meter:i operator:s
freight carrier:s port:s vessel:s containers:i tonnage:i draught:d berth:i customs:b cargo:s freight:d
tremor fault:s network:s epicentre:s magnitude:d depth:d sensors:i felt:b aftershocks:i model:s error:d
library title:s publisher:s language:s pages:i copies:i shelf:s loaned:b price_new:d edition:i genre:s
concert artist:s hall:s instrument:s rows:i tickets:i length:d sold_out:b conductor:s encore:b cheapest:d
harvest crop:s farm:s soil:s hectares:i workers:i moisture:d organic:b buyer:s bushels:i acidity:d
"""


def _subjects() -> Iterator[Subject]:
    for number, line in enumerate(_SUBJECTS.splitlines()):
        name, *words = line.split()
        pairs = (word.split(":") for word in words)
        # The first three are popular.
        demand, supply = (28, 24) if number < 3 else (1, 3)
        yield Subject(name, demand, supply, {word: _TYPES[letter] for word, letter in pairs})


SUBJECTS: tuple[Subject, ...] = tuple(_subjects())

#: String values: two syllables, so that several values share prefixes, suffixes and substrings.
_FIRST = "al bel cor dan el far gar hol in jor kal lam mor nor or pel"
_SECOND = "ba den fin gate ham land mere ton"
STRINGS: tuple[str, ...] = tuple(first + second for second in _SECOND.split() for first in _FIRST.split())

#: Integers are drawn from 0..INTEGER_TOP, doubles from quarters in 0..DOUBLE_TOP.
INTEGER_TOP = 99
DOUBLE_TOP = 100.0

_SYMBOLS = {**COMPARISONS, "any": Operator.ANY}
#: Operator weights by type: every operator that applies to the type occurs.
OPERATORS: dict[Type, tuple[tuple[Operator, float], ...]] = {
    kind: tuple((_SYMBOLS[symbol], weight) for symbol, weight in weights.items())
    for kind, weights in {
        Type.STRING: {"=": 4, "!=": 1, "<": 1, ">": 1, "<=": 1, ">=": 1, "=*": 3, "*=": 3, "**": 3, "any": 1},
        Type.INTEGER: {"=": 2, "!=": 1, "<": 3, ">": 3, "<=": 3, ">=": 3, "any": 1},
        Type.DOUBLE: {"=": 1, "!=": 1, "<": 4, ">": 4, "<=": 2, ">=": 2, "any": 1},
        Type.BOOLEAN: {"=": 6, "!=": 2, "<": 1, ">": 1, "<=": 1, ">=": 1, "any": 1},
    }.items()
}

_DEMAND = list(accumulate(subject.demand for subject in SUBJECTS))
_SUPPLY = list(accumulate(subject.supply for subject in SUBJECTS))
_ALL_NAMES = [(name, kind) for subject in SUBJECTS for name, kind in subject.attributes.items()]
#: A prefix, suffix or substring constraint takes this many characters of a string value.
_FRAGMENT = 2


class Sizes(Protocol):
    """The sizes of messages and predicates, such as `testbed.experiments.config.WorkloadOptions`."""

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
