"""Generator of synthetic forwarding tables and messages (`testbed.experiments.siena_ff.parameters`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from router.matching.common.columns import ConstraintColumns
from router.predicates.model import Message, Operator, Type, Value
from testbed.experiments.siena_ff.parameters import MatchingWorkload, dictionary, zipf
from testbed.support.errors import InputError

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
    name = _different_names(workload, random, start)
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
    """Yields the messages that `workload` describes."""
    random = _random(workload, 1)
    words = dictionary(workload.words)
    fewest, most = workload.message_attributes
    for first in range(0, workload.messages, _BATCH):
        sizes = _integers(random, fewest, most, min(_BATCH, workload.messages - first))
        start = np.concatenate(([0], np.cumsum(sizes)))
        names = [words[rank] for rank in _different_names(workload, random, start).tolist()]
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


def _different_names(
    workload: MatchingWorkload, random: np.random.Generator, start: npt.NDArray[np.int64]
) -> npt.NDArray[np.int32]:
    """Returns a rank of the dictionary for each place [start[-1]], distinct within each group.

    Draws the first places of all groups, then the second places, and so on; a rank that the group has already
    is drawn again.
    """
    cumulative = zipf(workload.words, workload.zipf)
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
