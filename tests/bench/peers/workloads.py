"""Tables of boxes and messages by the parameters that the papers and their generators publish.

P1 to P4 have the parameters of the generators of the authors of REIN and H-Tree, with every message on all
slots; P5 has the means of the BE-Tree paper, and is called BE-like because its generator was not available.
"tags" has the sizes of TagMatch's generator (gen2), with popularities of ours: a tag is a slot of one key.
"ticks" is the testbed's process of stock ticks, with 320 different filters. S1 and S2 are ours. Values are
uniform; the lower end of a range is uniform, so that a message satisfies an interval of width w with
probability w.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from random import Random
from typing import Any

import numpy as np

from router.predicates import Operator
from router.predicates.parser import parse_predicate
from testbed.experiments.siena_ff.generate import different_names
from testbed.experiments.workload import ticks
from tests.bench.peers import HIGHEST, Boxes, Ints, Longs


@dataclass(frozen=True)
class Workload:
    """Parameters of boxes and points; the same parameters give the same boxes and points.

    Attributes:
        constraints, attributes: fewest and most intervals of a filter, and attributes of a message (uniform).
        domain: keys are 0 to domain - 1.
        width: of a range, as a share of the domain.
        equal: the share of the intervals that are equalities.
        zipf: exponent of Zipf's law of the slots of filters, and of messages that lack some; 0: uniform.
        likeness: 0: filters and messages are independent; otherwise filters are drawn around so many points,
            and each message is a copy of a point with one value drawn a second time.
        ticks: draw filters and messages from the process of stock ticks, and ignore what is named above.
    """

    filters: int
    messages: int
    slots: int
    constraints: tuple[int, int]
    attributes: tuple[int, int]
    domain: int = 1_000_000
    width: float = 0.5
    equal: float = 0.0
    zipf: float = 0.0
    likeness: int = 0
    ticks: bool = False
    seed: int = 1

    @property
    def expected(self) -> float | None:
        """The mean number of matches where it is N w^k."""
        fewest, most = self.constraints
        full = fewest == most and self.attributes[0] == self.slots and not self.equal and not self.likeness
        return self.filters * self.width**most if full else None


#: The attributes of a tick by slot.
_TICK = ("symbol", "sector", "price", "change", "volume")
_P1 = Workload(1_000_000, 10_000, 20, (10, 10), (20, 20))
#: Name -> the workload at the number of filters that the paper has, or else a number of ours.
WORKLOADS: Mapping[str, Workload] = {
    "P1": _P1,
    "P2": replace(_P1, messages=3_000, zipf=1.0),
    "P2-zipf1.5": replace(_P1, messages=3_000, zipf=1.5),
    "P3": replace(_P1, filters=20_000, messages=200),
    "P3-w0.1": replace(_P1, filters=20_000, messages=200, width=0.1),
    "P4": Workload(100_000, 400, 1_000, (4, 4), (1_000, 1_000), zipf=3.0),
    "P5": Workload(100_000, 2_000, 400, (4, 10), (10, 20), 48, 0.12, 0.3, likeness=50),
    "tags": Workload(100_000, 2_000, 10_000, (1, 10), (8, 12), 1, zipf=1.0),
    "ticks": Workload(100_000, 2_000, 5, (1, 2), (5, 5), 100, ticks=True),
    "S1": Workload(1_000_000, 2_000, 10_000, (3, 7), (15, 30), 1_000, 0.1, 0.5, 1.0),
    **{
        f"S2-k{k}-w{width}": replace(_P1, filters=100_000, messages=2_000, constraints=(k, k), width=width)
        for k, width in [*((10, width) for width in (0.1, 0.3, 0.5, 0.7, 0.9)), (1, 0.5), (5, 0.5), (20, 0.5)]
    },
    "S2-d100": replace(_P1, filters=100_000, messages=2_000, slots=100),
}


@dataclass(frozen=True)
class Points:
    """Messages: the attributes of message i are start[i] to start[i + 1] - 1."""

    start: Longs
    slot: Ints
    key: Longs

    def __len__(self) -> int:
        return len(self.start) - 1

    def __iter__(self) -> Iterator[tuple[Ints, Longs]]:
        for begin, end in zip(self.start[:-1].tolist(), self.start[1:].tolist(), strict=True):
            yield self.slot[begin:end], self.key[begin:end]


def draw(workload: Workload, spare: int = 0) -> tuple[Boxes, Points]:
    """Draws filters and messages; `spare` as for `Boxes`."""
    if workload.ticks:
        return _ticks(workload, spare)
    random = np.random.Generator(np.random.PCG64(workload.seed))
    models = _points(workload, random, workload.likeness or workload.messages)
    start = _starts(random, workload.constraints, workload.filters)
    width = max(1, round(workload.width * workload.domain))
    equal = random.random(int(start[-1])) < workload.equal
    size = np.where(equal, 1, width)
    if workload.likeness:
        slot, inside = _around(models, random, start)
        low = np.clip(inside - _below(random, size), 0, workload.domain - size)
    else:
        slot = different_names(workload.slots, workload.zipf, random, start)
        low = _below(random, workload.domain - size + 1)
    order = np.lexsort((slot, np.repeat(np.arange(workload.filters), np.diff(start))))
    boxes = Boxes(workload.slots, start, slot[order], low[order], low[order] + size[order] - 1, spare)
    return boxes, _copies(workload, models, random) if workload.likeness else models


def _ticks(workload: Workload, spare: int) -> tuple[Boxes, Points]:
    random = Random(workload.seed)
    symbols = random.choices(range(len(ticks.SHARES)), ticks.SHARES, k=workload.filters)
    filters = [_intervals(ticks.filter_of(symbol, random)) for symbol in symbols]
    slot, low, high = np.array([interval for each in filters for interval in each]).T.copy()
    start = np.cumsum([0, *map(len, filters)])
    messages = [message for _, message in islice(ticks.ticks(random), workload.messages)]
    key = np.array([_key(message[name]) for message in messages for name in _TICK])
    points = Points(np.arange(0, len(key) + 1, 5), np.tile(np.arange(5, dtype=np.int32), len(messages)), key)
    return Boxes(workload.slots, start, slot.astype(np.int32), low, high, spare), points


@cache
def _intervals(text: str) -> list[tuple[int, int, int]]:
    """Slot and bounds of each constraint of a filter, which are = and >."""
    (filter_,) = parse_predicate(text).filters
    return [
        (_TICK.index(each.name), _key(each.value) + more, HIGHEST if more else _key(each.value))
        for each in filter_.constraints
        for more in [each.operator is Operator.GT]
    ]


def _key(value: Any) -> int:
    """The number of a symbol or sector, the hundredths of a double, or the integer."""
    return int(value[1:]) if isinstance(value, str) else round(value * 100 if type(value) is float else value)


def _below(random: np.random.Generator, bounds: Longs) -> Longs:
    """A number from 0 to bound - 1 for each bound."""
    # By `random()`, whose stream NumPy keeps from version to version.
    return (random.random(len(bounds)) * bounds).astype(np.int64)


def _starts(random: np.random.Generator, sizes: tuple[int, int], count: int) -> Longs:
    fewest, most = sizes
    ends = np.cumsum(fewest + _below(random, np.full(count, most - fewest + 1)))
    return np.concatenate([np.zeros(1, np.int64), ends])


def _points(workload: Workload, random: np.random.Generator, count: int) -> Points:
    start = _starts(random, workload.attributes, count)
    if workload.attributes[0] == workload.slots:
        slot = np.tile(np.arange(workload.slots, dtype=np.int32), count)
    else:
        slot = different_names(workload.slots, workload.zipf, random, start)
    return Points(start, slot, _below(random, np.full(len(slot), workload.domain)))


def _around(models: Points, random: np.random.Generator, start: Longs) -> tuple[Ints, Longs]:
    """Slots and keys of attributes of a message for each filter, drawn from `models`."""
    chosen = _below(random, np.full(len(start) - 1, len(models)))
    pairs = list(models)
    picks = [
        (pairs[model], random.permutation(len(pairs[model][0]))[:size])
        for model, size in zip(chosen.tolist(), np.diff(start).tolist(), strict=True)
    ]
    return (
        np.concatenate([slots[pick] for (slots, _), pick in picks]),
        np.concatenate([keys[pick] for (_, keys), pick in picks]),
    )


def _copies(workload: Workload, models: Points, random: np.random.Generator) -> Points:
    chosen = _below(random, np.full(workload.messages, len(models)))
    sizes = np.diff(models.start)[chosen]
    start = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    at = np.arange(start[-1]) - np.repeat(start[:-1] - models.start[chosen], sizes)
    key = models.key[at]
    key[start[:-1] + _below(random, sizes)] = _below(random, np.full(len(sizes), workload.domain))
    return Points(start, models.slot[at], key)
