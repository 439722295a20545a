"""Generator of synthetic forwarding tables and messages for measurements of matching, as files.

Source: Carzaniga's slides on content-based forwarding, "Workload Parameters" (those of the SIGCOMM 2003
paper; docs/explanation/matching.md), with integers uniform over 100 values, as in the authors' simulator. The
slides leave the rest open; it was chosen as follows. The type of a value does not depend on its name; the
names in a message, and in a filter, are distinct; a prefix, suffix or substring is a whole word; the numbers
of filters of two interfaces differ by at most one.

The words of the dictionary consist of syllables, have four letters or more, and are about as long as English
words. It depends on its size alone, and a smaller dictionary is a prefix of a larger one, so tables and
messages that are generated separately share their words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from math import inf
from random import Random
from typing import TextIO

import numpy as np
import numpy.typing as npt

from router.matching.columns import ConstraintColumns, number_value
from router.options import check, setting
from router.predicates import INTEGER_MAX, STRING_ONLY, SYMBOLS, Message, Operator, Type, Value
from router.predicates.lexer import KEYWORDS
from testbed.experiments.siena_ff import driver_name, driver_value
from testbed.support.errors import InputError, reading

INTEGER_OPERATORS: Mapping[Operator, float] = {Operator.EQ: 60, Operator.LT: 20, Operator.GT: 20}
STRING_OPERATORS: Mapping[Operator, float] = {
    Operator.EQ: 35,
    Operator.PREFIX: 15,
    Operator.SUFFIX: 15,
    Operator.SUBSTRING: 15,
    Operator.LT: 10,
    Operator.GT: 10,
}


@dataclass(frozen=True)
class MatchingWorkload:
    """Parameters of a table and of messages to it; the same parameters give the same table and messages.

    Attributes:
        filter_constraints: fewest and most constraints of a filter (uniform).
        message_attributes: fewest and most attributes of a message (uniform).
        integer_operators, string_operators: weights; any scale.

    Raises:
        InputError: a parameter is out of range, or they contradict each other.
    """

    constraints: int = setting(
        100_000, "Constraints of the whole table, the last filter cut where they end.", low=1, high=5_000_000
    )
    interfaces: int = setting(100, "Interfaces, numbered from 1.", low=1, high=1_000_000)
    messages: int = setting(1_000, "Number of messages.", low=0, high=1_000_000_000)
    seed: int = setting(1, "Seed; it does not change the dictionary.", low=0)
    filter_constraints: tuple[int, int] = (1, 6)
    message_attributes: tuple[int, int] = (5, 10)
    words: int = setting(1_000, "Size of the dictionary of names and strings.", low=1, high=1_000_000)
    zipf: float = setting(
        1.0, "Exponent of Zipf's law, of names and string values; 0 is uniform.", low=0, high=3
    )
    strings_percent: float = setting(
        50.0, "Percentage of values that are strings; the others are integers.", low=0, high=100
    )
    integers: int = setting(100, "Integers are 0 to N - 1 (uniform).", low=1, high=INTEGER_MAX)
    integer_operators: Mapping[Operator, float] = field(default_factory=lambda: INTEGER_OPERATORS)
    string_operators: Mapping[Operator, float] = field(default_factory=lambda: STRING_OPERATORS)

    def __post_init__(self) -> None:
        with reading():
            check(self)
        for name, least in (("filter_constraints", 1), ("message_attributes", 0)):
            fewest, most = getattr(self, name)
            if not least <= fewest <= most:
                raise InputError(f"{name}: {fewest}-{most}; expected {least} or more, in ascending order")
            if most > self.words:
                raise InputError(f"{name}: {most} different names, but the dictionary has {self.words} words")
        for name in ("integer_operators", "string_operators"):
            weights = getattr(self, name).values()
            if not 0 < sum(weights) < inf or min(weights) < 0:
                raise InputError(f"{name}: expected finite weights of 0 or more, at least one of them more")
        if wrong := STRING_ONLY & self.integer_operators.keys():
            raise InputError(f"integer_operators: {min(wrong).name.lower()} is for strings only")


_ONSETS = ("b c d f g h j k l m n p r s t v w z " * 2 + "br ch cl cr dr fl gr pl pr sh sl st th tr").split()
_VOWELS = [*"aeiouaeiou", "ai", "ea", "ou"]
_CODAS = ["", "", "", "l", "m", "n", "r", "s", "t", "ck", "nd", "rt"]
#: Words of one to five syllables, by weight.
_SYLLABLES = (1, 2, 3, 4, 5)
_WEIGHTS = (4, 36, 40, 16, 4)
_SHORTEST = 4


@cache
def dictionary(size: int) -> tuple[str, ...]:
    """`size` different words, the most frequent first; all are attribute names that need no quotes."""
    random = Random("dictionary of matching workloads")
    words: dict[str, None] = {}
    while len(words) < size:
        count = random.choices(_SYLLABLES, _WEIGHTS)[0]
        parts = (random.choice(_ONSETS) + random.choice(_VOWELS) for _ in range(count))
        word = "".join(parts) + random.choice(_CODAS)
        if len(word) >= _SHORTEST and word not in KEYWORDS:
            words[word] = None
    return tuple(words)


def zipf(size: int, exponent: float) -> npt.NDArray[np.float64]:
    """Cumulative probabilities [size] of ranks from 0: the weight of rank r is (r + 1)^-exponent."""
    cumulative = np.cumsum(np.arange(1, size + 1, dtype=np.float64) ** -exponent)
    return np.asarray(cumulative / cumulative[-1])


#: Number of messages drawn at a time.
_BATCH = 10_000


def draw_table(workload: MatchingWorkload) -> ConstraintColumns:
    """Returns the table that `workload` describes; takes seconds, and 20 bytes a constraint.

    Raises:
        InputError: there are more interfaces than filters.
    """
    random = _random(workload, 0)
    start = _filter_starts(workload, random)
    filters = len(start) - 1
    if filters < workload.interfaces:
        raise InputError(
            f"interfaces: {workload.interfaces:,} interfaces, but {workload.constraints:,} constraints make"
            f" {filters:,} filters: expected one filter or more an interface"
        )
    interface = 1 + np.arange(filters, dtype=np.int64) * workload.interfaces // filters
    name = different_names(workload.words, workload.zipf, random, start)
    total = workload.constraints
    string = random.random(total) * 100 < workload.strings_percent
    operator = np.where(
        string,
        _draw_operators(random, workload.string_operators, total),
        _draw_operators(random, workload.integer_operators, total),
    )
    value = _draw_values(workload, random, string)
    value[operator == Operator.ANY] = 0
    words = [word.encode() for word in dictionary(workload.words)]
    return ConstraintColumns(
        interface=interface.astype(np.int32),
        start=start,
        name=name,
        type=np.where(string, np.uint8(Type.STRING), np.uint8(Type.INTEGER)),
        operator=operator,
        value=value,
        names=words,
        strings=words,
    )


def draw_messages(workload: MatchingWorkload) -> Iterator[Message]:
    random = _random(workload, 1)
    words = dictionary(workload.words)
    fewest, most = workload.message_attributes
    for first in range(0, workload.messages, _BATCH):
        sizes = _integers(random, fewest, most, min(_BATCH, workload.messages - first))
        start = np.concatenate(([0], np.cumsum(sizes)))
        ranks = different_names(workload.words, workload.zipf, random, start)
        names = [words[rank] for rank in ranks.tolist()]
        string = random.random(len(names)) * 100 < workload.strings_percent
        drawn = _draw_values(workload, random, string).tolist()
        values: list[Value] = [words[v] if s else v for v, s in zip(drawn, string.tolist(), strict=True)]
        bounds = start.tolist()
        for begin, end in pairwise(bounds):
            yield Message(dict(zip(names[begin:end], values[begin:end], strict=True)))


def _random(workload: MatchingWorkload, stream: int) -> np.random.Generator:
    """Returns one of two independent streams: messages do not change with the size of the table."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence((workload.seed, stream))))


def _integers(random: np.random.Generator, fewest: int, most: int, count: int) -> npt.NDArray[np.int64]:
    # By `random()`, whose stream NumPy keeps from version to version.
    return fewest + (random.random(count) * (most - fewest + 1)).astype(np.int64)


def _filter_starts(workload: MatchingWorkload, random: np.random.Generator) -> npt.NDArray[np.int64]:
    """Returns the first constraint of each filter [F + 1]; draws sizes until there are enough constraints."""
    fewest, most = workload.filter_constraints
    ends = np.zeros(1, np.int64)
    while ends[-1] < workload.constraints:
        missing = int(workload.constraints - ends[-1])
        sizes = _integers(random, fewest, most, max(16, 2 * missing // (fewest + most)))
        ends = np.concatenate((ends, ends[-1] + np.cumsum(sizes)))
    filters = int(np.searchsorted(ends, workload.constraints))
    ends = ends[: filters + 1]
    ends[-1] = workload.constraints
    return ends


def different_names(
    count: int, exponent: float, random: np.random.Generator, start: npt.NDArray[np.int64]
) -> npt.NDArray[np.int32]:
    """Returns a rank of `count` names for each place [start[-1]], distinct within each group.

    Draws the first places of all groups, then the second places, and so on; a rank that the group has already
    is drawn again.
    """
    cumulative = zipf(count, exponent)
    names = np.empty(int(start[-1]), np.int32)
    sizes = np.diff(start)
    for place in range(int(sizes.max(initial=0))):
        groups = start[:-1][sizes > place]
        while len(groups):
            drawn = np.searchsorted(cumulative, random.random(len(groups)), side="right")
            names[groups + place] = drawn
            again = np.zeros(len(groups), bool)
            for earlier in range(place):
                again |= names[groups + earlier] == drawn
            groups = groups[again]
    return names


def _draw_operators(
    random: np.random.Generator, weights: Mapping[Operator, float], count: int
) -> npt.NDArray[np.uint8]:
    cumulative = np.cumsum(np.fromiter(weights.values(), np.float64))
    operators = np.fromiter(weights, np.uint8)
    return operators[np.searchsorted(cumulative / cumulative[-1], random.random(count), side="right")]


def _draw_values(
    workload: MatchingWorkload, random: np.random.Generator, string: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """Ranks of words where `string`, integers elsewhere."""
    uniform = random.random(len(string))
    words = np.searchsorted(zipf(workload.words, workload.zipf), uniform, side="right")
    return np.where(string, words, (uniform * workload.integers).astype(np.int64))


#: Filters, or messages, that are written at a time: a few megabytes of text.
_WRITTEN = 20_000
#: Called with the number of filters and messages written so far.
Report = Callable[[int], None]


def write_driver(table: ConstraintColumns, messages: Iterable[Message], out: TextIO, report: Report) -> None:
    """Writes `ifconfig` statements, one filter a line; `consolidate`; `select` statements."""
    names = [driver_name(name.decode()) for name in table.names]
    values = [driver_value(value.decode()) for value in table.strings]
    operators = {int(o): f" {symbol} " for o, symbol in SYMBOLS.items()}
    types = {int(kind): kind.name.lower() for kind in Type}

    def constraint(name: int, kind: int, operator: int, value: int) -> str:
        if operator == Operator.ANY:
            return f"{names[name]} any {types[kind]}"
        if kind == Type.STRING:
            return names[name] + operators[operator] + values[value]
        return names[name] + operators[operator] + driver_value(number_value(kind, value))

    previous = None
    for first in range(0, len(table.interface), _WRITTEN):
        bounds = table.start[first : first + _WRITTEN + 1]
        part = slice(int(bounds[0]), int(bounds[-1]))
        columns = (table.name, table.type, table.operator, table.value)
        texts = list(map(constraint, *(column[part].tolist() for column in columns)))
        interfaces = table.interface[first : first + _WRITTEN].tolist()
        pieces = []
        for interface, (begin, end) in zip(interfaces, pairwise((bounds - bounds[0]).tolist()), strict=True):
            if interface != previous:
                pieces.append(f"ifconfig {interface} " if previous is None else f";\nifconfig {interface} ")
                previous = interface
            else:
                pieces.append("\n| ")
            pieces.append(", ".join(texts[begin:end]) or "*")
        out.write("".join(pieces))
        report(first + len(interfaces))
    out.write(";\nconsolidate;\n" if previous is not None else "consolidate;\n")

    for number, message in enumerate(messages, start=len(table.interface) + 1):
        attributes = " ".join(f"{driver_name(name)} = {driver_value(v)}" for name, v in message.items())
        out.write(f"select {attributes};\n")
        if number % _WRITTEN == 0:
            report(number)
