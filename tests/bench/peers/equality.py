"""Whether a peer finds what a scan finds, on random tables and messages at their bounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

import numpy as np

from tests.bench.peers import HIGHEST, LOWEST, PEERS, Boxes, Ints, Longs, Peer
from tests.bench.peers.brute import Brute
from tests.bench.peers.workloads import Workload, draw

Point = tuple[Ints, Longs]


def points_at_bounds(boxes: Boxes, filters: int) -> list[Point]:
    """Points at, above and below the bounds of so many filters, and without a slot."""
    points = []
    for number in np.random.default_rng(1).choice(np.flatnonzero(boxes.count >= 0), filters).tolist():
        slot, low, high = boxes.rows(number)
        for keys in (low, high, np.maximum(low, LOWEST + 1) - 1, np.minimum(high, HIGHEST - 1) + 1):
            points.append((slot, keys))
            points += [(slot, np.where(np.arange(len(slot)) == at, keys, high)) for at in range(len(slot))]
            points += [(slot[:-1], high[:-1])]
    return [(slot.copy(), keys.copy()) for slot, keys in points]


def hard_table(shape: Workload, spare: int = 0) -> tuple[Boxes, list[Point]]:
    """Boxes of a shape, some of them without a lower or upper bound, and points at the bounds of others."""
    boxes, points = draw(shape, spare)
    source = np.random.default_rng(shape.seed)
    boxes.low[source.random(len(boxes.low)) < 0.1] = LOWEST
    boxes.high[source.random(len(boxes.high)) < 0.1] = HIGHEST
    slots = np.arange(shape.slots, dtype=np.int32)
    ends = [(slots, np.full(shape.slots, end)) for end in (LOWEST, 0, HIGHEST)]
    return boxes, [*points, *points_at_bounds(boxes, 60), *ends]


def compare(peer: Peer, brute: Peer, points: Sequence[Point]) -> int:
    """Returns how many filters the points satisfy.

    Raises:
        AssertionError: the peer found something else, or if it is not exact, less.
    """
    matched = 0
    for slots, keys in points:
        found, expected = sorted(peer.match(slots, keys).tolist()), sorted(brute.match(slots, keys).tolist())
        assert found == expected if peer.exact else set(found) >= set(expected), (slots, keys)
        assert len(found) == len(set(found))
        matched += len(expected)
    return matched


def _shapes(seed: int) -> Iterator[Workload]:
    """Small shapes, each of another random kind."""
    random = Random(seed)
    while True:
        slots = random.randint(1, 60)
        constraints = sorted(random.choices(range(min(slots, 8) + 1), k=2))
        attributes = (
            sorted(random.choices(range(1, slots + 1), k=2)) if random.random() < 0.5 else [slots] * 2
        )
        domain, width = random.choice((2, 9, 100, 1_000_000, 2**40)), random.choice((0.05, 0.1, 0.5, 0.9))
        ranges = (constraints[0], constraints[1]), (attributes[0], attributes[1])
        shape = Workload(
            random.randint(1, 400), 200, slots, *ranges, domain, width, seed=random.getrandbits(32)
        )
        yield replace(shape, equal=random.choice((0.0, 0.3, 1.0)), zipf=random.choice((0.0, 1.0)))


def check(name: str, pairs: int, seed: int) -> tuple[int, int, int]:
    """Compares a peer with a scan on so many pairs of a table that it takes and a message, or some more.

    Returns:
        The numbers of tables, of pairs and of matches.

    Raises:
        AssertionError: the answers differ; the message has the shape.
    """
    tables = done = matches = 0
    for shape in _shapes(seed):
        (boxes, points), (others, _) = hard_table(shape), hard_table(shape)
        try:
            matches += compare(PEERS[name](boxes), Brute(others), points)
        except MemoryError:
            # H-Tree refuses a filter of too many copies.
            if name != "htree":
                raise
            continue
        except AssertionError as error:
            raise AssertionError(f"{name}: {shape}: {error}") from error
        tables, done = tables + 1, done + len(points)
        if done >= pairs:
            break
    return tables, done, matches
