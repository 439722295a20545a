"""The vocabulary of messages and predicates, and the frequency of each word.

Attribute names belong to subjects: a message has one subject and a filter refers to one subject. An attribute
name belongs to one subject and has one type, so that a constraint and an attribute of equal names can
match. `demand` is the frequency of a subject in filters, `supply` its frequency in messages; subjects
with high supply and low demand give the messages that no predicate selects.

The weights are tuned to the matching distribution of the protocol paper (section 4.1, figure 10).
"""

from __future__ import annotations

from dataclasses import dataclass

from router.predicates.model import Operator, Type

_S, _I, _D, _B = Type.STRING, Type.INTEGER, Type.DOUBLE, Type.BOOLEAN


@dataclass(frozen=True)
class Subject:
    """A group of attribute names, with the type of each, and its share of filters and of messages."""

    name: str
    demand: float
    supply: float
    attributes: dict[str, Type]


def _subject(name: str, demand: float, supply: float, attributes: str) -> Subject:
    """`attributes`: names separated by blanks, each with the first letter of its type after a colon."""
    letters = {"s": _S, "i": _I, "d": _D, "b": _B}
    pairs = (word.split(":") for word in attributes.split())
    return Subject(name, demand, supply, {word: letters[letter] for word, letter in pairs})


#: Names are unique over all subjects (tested).
SUBJECTS: tuple[Subject, ...] = (
    _subject(
        "flight",
        28,
        24,
        "origin:s destination:s airline:s fare:d seats:i stops:i refundable:b gate:s boarding:i upgrade:d",
    ),
    _subject(
        "market",
        28,
        24,
        "symbol:s exchange:s price:d volume:i change:d yield:d halted:b broker:s lots:i sector:s",
    ),
    _subject(
        "weather",
        28,
        24,
        "station:s sky:s temperature:d pressure:d humidity:i wind:d gusts:i alert:b outlook:s rainfall:i",
    ),
    _subject(
        "news",
        1,
        3,
        "headline:s author:s section:s region:s words:i readers:i urgent:b score:d agency:s share:d",
    ),
    _subject(
        "sport",
        1,
        3,
        "team:s league:s venue:s round:i goals:i attendance:i indoor:b odds:d referee:s rating:d",
    ),
    _subject(
        "traffic",
        1,
        3,
        "road:s junction:s direction:s lanes:i vehicles:i speed:d closed:b delay:d cause:s detour:i",
    ),
    _subject(
        "energy",
        1,
        3,
        "plant:s fuel:s grid:s turbines:i output:d load:d tariff:d renewable:b meter:i operator:s",
    ),
    _subject(
        "freight",
        1,
        3,
        "carrier:s port:s vessel:s containers:i tonnage:i draught:d berth:i customs:b cargo:s freight:d",
    ),
    _subject(
        "tremor",
        1,
        3,
        "fault:s network:s epicentre:s magnitude:d depth:d sensors:i felt:b aftershocks:i model:s error:d",
    ),
    _subject(
        "library",
        1,
        3,
        "title:s publisher:s language:s pages:i copies:i shelf:s loaned:b price_new:d edition:i genre:s",
    ),
    _subject(
        "concert",
        1,
        3,
        "artist:s hall:s instrument:s rows:i tickets:i length:d sold_out:b conductor:s encore:b cheapest:d",
    ),
    _subject(
        "harvest",
        1,
        3,
        "crop:s farm:s soil:s hectares:i workers:i moisture:d organic:b buyer:s bushels:i acidity:d",
    ),
)

#: String values: two syllables, so that several values share prefixes, suffixes and substrings.
_FIRST = "al bel cor dan el far gar hol in jor kal lam mor nor or pel"
_SECOND = "ba den fin gate ham land mere ton"
STRINGS: tuple[str, ...] = tuple(first + second for second in _SECOND.split() for first in _FIRST.split())

#: Integers are drawn from 0..INTEGER_TOP, doubles from quarters in 0..DOUBLE_TOP.
INTEGER_TOP = 99
DOUBLE_TOP = 100.0

#: Operator weights by type: every operator that applies to the type occurs.
OPERATORS: dict[Type, tuple[tuple[Operator, float], ...]] = {
    Type.STRING: (
        (Operator.EQ, 4),
        (Operator.NE, 1),
        (Operator.LT, 1),
        (Operator.GT, 1),
        (Operator.LE, 1),
        (Operator.GE, 1),
        (Operator.PREFIX, 3),
        (Operator.SUFFIX, 3),
        (Operator.SUBSTRING, 3),
        (Operator.ANY, 1),
    ),
    Type.INTEGER: (
        (Operator.EQ, 2),
        (Operator.NE, 1),
        (Operator.LT, 3),
        (Operator.GT, 3),
        (Operator.LE, 3),
        (Operator.GE, 3),
        (Operator.ANY, 1),
    ),
    Type.DOUBLE: (
        (Operator.EQ, 1),
        (Operator.NE, 1),
        (Operator.LT, 4),
        (Operator.GT, 4),
        (Operator.LE, 2),
        (Operator.GE, 2),
        (Operator.ANY, 1),
    ),
    Type.BOOLEAN: (
        (Operator.EQ, 6),
        (Operator.NE, 2),
        (Operator.LT, 1),
        (Operator.GT, 1),
        (Operator.LE, 1),
        (Operator.GE, 1),
        (Operator.ANY, 1),
    ),
}
