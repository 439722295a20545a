"""Messages and predicates over declared attributes: values by popularity, predicates of a chosen selectivity.

A file of tables `[[attribute]]` in TOML, as docs/how-to/workloads.md describes.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any, Literal

from router.options import option, options_of, setting
from router.predicates import STRING_MAX_BYTES, Constraint, Filter, Message, Operator, Predicate, Type, Value
from testbed.experiments.drawing import Sizes
from testbed.experiments.drawing.distributions import Weighted
from testbed.support.errors import InputError, reading
from topos.loaders import values_of

_NUMBERS = (Type.INTEGER, Type.DOUBLE)
#: Values of all string attributes, listed or only numbered (v1, v2, ...): they are kept in memory.
_VALUES_MAX = 1_000_000
#: Numbers of files are doubles, which hold every integer up to this one.
_INTEGERS_MAX = 2**53


@dataclass(frozen=True)
class Attribute:
    """A declared attribute; its fields but `values` are the keys of its table.

    Attributes:
        values: of a string, the most popular first; the table has a list of them, or their number.
    """

    name: str = field(metadata=option("Name of the attribute."))
    type: Literal["string", "integer", "double", "boolean"] = field(metadata=option("Type of its values."))
    low: float = setting(0.0, "Least value of a number.")
    high: float = setting(1000.0, "Values of a number are below this one, uniform.")
    count: int | None = setting(None, "Number of values v1, v2, ... of a string.", low=1, high=_VALUES_MAX)
    zipf: float = setting(
        0.0,
        "Popularity of the i-th value of a string: i to the power -zipf, divided by the sum.",
        low=0,
        high=10,
    )
    present: float = setting(1.0, "Share of the messages that have it.", low=0, high=1)
    asked: float = setting(1.0, "Weight with which constraints name it.", low=0, high=1e9)
    values: tuple[str, ...] = ()

    @cached_property
    def kind(self) -> Type:
        return Type[self.type.upper()]

    @cached_property
    def _popularity(self) -> list[float]:
        return list(accumulate(rank**-self.zipf for rank in range(1, len(self.values) + 1)))

    def draw(self, random: Random) -> Value:
        match self.kind:
            case Type.STRING:
                return random.choices(self.values, cum_weights=self._popularity)[0]
            case Type.INTEGER:
                return random.randrange(int(self.low), int(self.high))
            case Type.DOUBLE:
                return random.uniform(self.low, self.high)
            case Type.BOOLEAN:
                return random.random() < 0.5

    def between(self, start: float, share: float) -> tuple[Constraint, ...]:
        """Returns constraints on a number: from a share of its range on, as much of the range as `share`."""
        span = self.high - self.low
        low, high = self.low + start * span, self.low + (start + share) * span
        ends: tuple[Value, Value] = (low, high)
        if self.kind is Type.INTEGER:
            ends = (round(low), round(high))
        return (
            Constraint(self.name, self.kind, Operator.GE, ends[0]),
            Constraint(self.name, self.kind, Operator.LT, ends[1]),
        )

    def constraints(self, random: Random) -> tuple[Constraint, ...]:
        """Draws constraints: a part of the range of a number, or a value of another type by popularity."""
        if self.kind in _NUMBERS:
            start, end = sorted((random.random(), random.random()))
            return self.between(start, end - start)
        return (Constraint(self.name, self.kind, Operator.EQ, self.draw(random)),)


class Schema:
    """Messages and predicates over the attributes of a file.

    Args:
        selectivity: the share of the messages that each predicate selects (0 to 1); None: whatever its
            constraints select. Only numbers that every message has are constrained then. A filter's share is
            the product of the shares of its constraints, and the filters of a predicate are disjoint in
            their first attribute, so that the share is exact for doubles, and for integers up to rounding.

    Raises:
        InputError: the file is missing or malformed, or has no number for a selectivity.
    """

    def __init__(self, path: Path, selectivity: float | None = None) -> None:
        self._attributes = _read(path)
        self._selectivity = selectivity
        fit = [each for each in self._attributes if each.asked > 0]
        if selectivity is not None:
            fit = [each for each in fit if each.kind in _NUMBERS and each.present == 1]
        if not fit:
            what = "a number with present = 1 and asked > 0" if selectivity is not None else "asked > 0"
            raise InputError(f"{path}: no attribute that predicates can constrain; expected one with {what}")
        self._asked = fit

    def draw_message(self, random: Random, sizes: Sizes) -> Message:  # noqa: ARG002 - the schema has the sizes
        """Draws a message: each attribute with the probability that it declares."""
        chosen = [each for each in self._attributes if each.present == 1 or random.random() < each.present]
        return Message({each.name: each.draw(random) for each in chosen})

    def draw_predicate(self, random: Random, sizes: Sizes) -> Predicate:
        count = random.randint(sizes.filters_min, sizes.filters_max)
        if self._selectivity is None:
            return Predicate(tuple(self._filter(random, sizes) for _ in range(count)))
        return Predicate(tuple(self._selective(random, sizes, count, self._selectivity)))

    def _names(self, random: Random, sizes: Sizes) -> list[Attribute]:
        """Draws distinct attributes, as many as a filter has constraints, by the weight `asked`."""
        count = random.randint(sizes.constraints_min, sizes.constraints_max)
        return Weighted(self._asked, [each.asked for each in self._asked]).draw_distinct(random, count)

    def _filter(self, random: Random, sizes: Sizes) -> Filter:
        chosen = self._names(random, sizes)
        return Filter(tuple(one for each in chosen for one in each.constraints(random)))

    def _selective(self, random: Random, sizes: Sizes, count: int, selectivity: float) -> Iterator[Filter]:
        """Draws filters that together select a share of the messages: each lies in a strip of its own."""
        chosen = self._names(random, sizes)
        share = selectivity ** (1 / len(chosen))
        for strip in range(count):
            start = (strip + random.random() * (1 - share)) / count
            parts = [*chosen[0].between(start, share / count)]
            for each in chosen[1:]:
                parts += each.between(random.random() * (1 - share), share)
            yield Filter(tuple(parts))


def _read(path: Path) -> list[Attribute]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    tables = document.get("attribute")
    if document.keys() != {"attribute"} or not isinstance(tables, list) or not tables:
        raise InputError(f"{path}: expected tables [[attribute]], and nothing else")
    found: dict[str, Attribute] = {}
    for number, table in enumerate(tables, 1):
        where = f"{path}: attribute {number}"
        if not isinstance(table, dict):
            raise InputError(f"{where}: expected a table")
        one = _attribute(where, table)
        if one.name in found:
            raise InputError(f"{where}: {one.name!r} is declared twice")
        found[one.name] = one
        if sum(len(each.values) for each in found.values()) > _VALUES_MAX:
            raise InputError(f"{where}: expected at most {_VALUES_MAX} values of all strings together")
    return list(found.values())


def _attribute(where: str, table: Mapping[str, Any]) -> Attribute:
    with reading():
        one = Attribute(**values_of(where, table, options_of(Attribute), ("values",)))
    if one.kind is Type.INTEGER:
        for key, value in (("low", one.low), ("high", one.high)):
            if not value.is_integer() or abs(value) > _INTEGERS_MAX:
                what = f"an integer from {-_INTEGERS_MAX} to {_INTEGERS_MAX}"
                raise InputError(f"{where}: {key}: {value:g} is not valid; expected {what}")
    if not 0 < one.high - one.low < math.inf:
        raise InputError(f"{where}: low is {one.low:g} and high {one.high:g}; expected low below high")
    try:
        Constraint(one.name, one.kind, Operator.ANY)
    except ValueError as error:
        raise InputError(f"{where}: name: {error}") from error
    return replace(one, values=_values(where, table, one.count)) if one.kind is Type.STRING else one


def _values(where: str, table: Mapping[str, Any], count: int | None) -> tuple[str, ...]:
    given = table.get("values")
    if (given is None) == (count is None):
        raise InputError(f"{where}: expected one of values and count, of a string")
    if given is None:
        return tuple(f"v{number}" for number in range(1, (count or 0) + 1))
    if not isinstance(given, list) or not given or not all(isinstance(each, str) for each in given):
        raise InputError(f"{where}: values: expected a list of strings")
    if any(len(each.encode()) > STRING_MAX_BYTES for each in given):
        raise InputError(f"{where}: values: expected strings of at most {STRING_MAX_BYTES} bytes")
    return tuple(given)
