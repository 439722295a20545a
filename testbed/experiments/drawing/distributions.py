"""Messages and predicates from distributions in files, as the authors' workload generator reads them.

docs/how-to/workloads.md has the files. Source: the workload generator of CBCBSIM 1.0.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Generic, TypeVar

from router.predicates import STRING_ONLY, Constraint, Filter, Message, Operator, Predicate, Type, Value
from router.predicates.lexer import COMPARISONS
from testbed.experiments.drawing import Sizes
from testbed.support.errors import InputError

_T = TypeVar("_T")
_PREFIXES = {Type.INTEGER: "int", Type.STRING: "string", Type.DOUBLE: "double", Type.BOOLEAN: "bool"}
_READ: dict[Type, Callable[[str], Value]]
_READ = {Type.INTEGER: int, Type.STRING: str, Type.DOUBLE: float, Type.BOOLEAN: "1".__eq__}
_LETTERS = {prefix[0]: kind for kind, prefix in _PREFIXES.items()}


@dataclass(frozen=True)
class Weighted(Generic[_T]):
    """Values with weights above 0."""

    values: Sequence[_T]
    weights: Sequence[float]

    def draw(self, random: Random) -> _T:
        return random.choices(self.values, self.weights)[0]

    def draw_distinct(self, random: Random, count: int) -> list[_T]:
        """Draws `count` different values one after the other, or all of them if there are fewer."""
        values, weights = list(self.values), list(self.weights)
        drawn = []
        for _ in range(min(count, len(values))):
            totals = list(accumulate(weights))
            at = random.choices(range(len(values)), cum_weights=totals)[0]
            drawn.append(values.pop(at))
            del weights[at]
        return drawn


class Distributions:
    """Messages and predicates drawn from the distributions in a folder.

    Type, operator and value of an attribute or a constraint are drawn independently of its name. The names
    of a message differ from each other, and so do those of a filter.

    Raises:
        InputError: a file is missing or malformed.
    """

    def __init__(self, folder: Path) -> None:
        self._attributes = _read(folder / "attr_names.dist", _name)
        self._constraints = _read(folder / "constr_names.dist", _name)
        self._types = _read(folder / "types.dist", _type)
        self._operators: dict[Type, Weighted[Operator]] = {}
        self._values: dict[Type, Weighted[Value]] = {}
        for kind in self._types.values:
            prefix = _PREFIXES[kind]
            self._operators[kind] = _read(folder / f"{prefix}_operators.dist", partial(_operator, kind))
            self._values[kind] = _read(folder / f"{prefix}_values.dist", partial(_value, kind))

    def draw_message(self, random: Random, sizes: Sizes) -> Message:
        count = random.randint(sizes.attributes_min, sizes.attributes_max)
        names = self._attributes.draw_distinct(random, count)
        return Message({name: self._values[self._types.draw(random)].draw(random) for name in names})

    def draw_predicate(self, random: Random, sizes: Sizes) -> Predicate:
        count = random.randint(sizes.filters_min, sizes.filters_max)
        return Predicate(tuple(self._draw_filter(random, sizes) for _ in range(count)))

    def _draw_filter(self, random: Random, sizes: Sizes) -> Filter:
        count = random.randint(sizes.constraints_min, sizes.constraints_max)
        names = self._constraints.draw_distinct(random, count)
        return Filter(tuple(self._draw_constraint(random, name) for name in names))

    def _draw_constraint(self, random: Random, name: str) -> Constraint:
        kind = self._types.draw(random)
        operator = self._operators[kind].draw(random)
        return Constraint(name, kind, operator, self._values[kind].draw(random))


def _read(path: Path, convert: Callable[[str], _T]) -> Weighted[_T]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"{path}: cannot be read: {reason}") from error
    pairs = list(_lines(path, text, convert))
    if not pairs:
        raise InputError(f"{path}: no value has a weight above 0; expected lines WEIGHT VALUE")
    if math.isinf(sum(weight for weight, _ in pairs)):
        raise InputError(f"{path}: the sum of the weights is no finite number")
    return Weighted([value for _, value in pairs], [weight for weight, _ in pairs])


def _lines(path: Path, text: str, convert: Callable[[str], _T]) -> Iterator[tuple[float, _T]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        weight_text, _, value_text = line.strip().partition(" ")
        try:
            weight = float(weight_text)
            if not value_text.strip() or not 0 <= weight < math.inf:
                raise ValueError
            value = convert(value_text.strip())
        except ValueError as error:
            what = f": {error}" if str(error) else ""
            raise InputError(f"{path}: line {number}: {line!r}; expected WEIGHT VALUE{what}") from error
        if weight > 0:
            yield weight, value


def _name(text: str) -> str:
    # Raises ValueError: no message may have this name.
    Constraint(text, Type.INTEGER, Operator.ANY)
    return text


def _type(text: str) -> Type:
    if text not in _LETTERS:
        raise ValueError(f"a type is one of {', '.join(_LETTERS)}")
    return _LETTERS[text]


def _operator(kind: Type, text: str) -> Operator:
    operator = COMPARISONS.get(text)
    if operator is None or (operator in STRING_ONLY and kind is not Type.STRING):
        raise ValueError(f"not an operator of type {kind.name.lower()}")
    return operator


def _value(kind: Type, text: str) -> Value:
    if kind is Type.BOOLEAN and text not in ("0", "1"):
        raise ValueError("a boolean is 0 or 1")
    value = _READ[kind](text)
    # Raises ValueError: no message may have this value.
    Constraint("value", kind, Operator.EQ, value)
    return value
