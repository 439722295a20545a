"""The rebuilt algorithms find what a scan finds."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from tests.bench.peers import HIGHEST, LOWEST, PEERS, Boxes, Ints, Longs, Peer
from tests.bench.peers.brute import Brute
from tests.bench.peers.htree import HTree
from tests.bench.peers.workloads import Workload, draw

#: Small tables, each of another shape: dense messages, sparse messages, equalities, domains of few values,
#: intervals about as wide as a leaf of TAMA.
SHAPES = {
    "dense": Workload(500, 60, 6, (0, 3), (6, 6), 1_000, 0.5),
    "sparse": Workload(500, 60, 40, (1, 4), (3, 12), 5_000_000, 0.3, 0.2, 1.0),
    "equal": Workload(500, 60, 8, (1, 3), (2, 8), 9, 0.4, 0.6),
    "alike": Workload(500, 60, 30, (1, 5), (6, 10), 48, 0.12, 0.3, likeness=5),
    "narrow": Workload(500, 60, 8, (1, 3), (4, 8), 1 << 40, 1e-5, likeness=5),
}
Point = tuple[Ints, Longs]


def _boxes(shape: Workload) -> tuple[Boxes, list[Point]]:
    """Boxes of a shape, some of them without a lower or upper bound, and points at the bounds of others."""
    boxes, points = draw(shape, spare=20)
    source = np.random.default_rng(7)
    boxes.low[source.random(len(boxes.low)) < 0.1] = LOWEST
    boxes.high[source.random(len(boxes.high)) < 0.1] = HIGHEST
    at_bounds = []
    for number in source.choice(shape.filters, 60).tolist():
        slot, low, high = boxes.rows(number)
        for keys in (low, high, np.maximum(low, LOWEST + 1) - 1, np.minimum(high, HIGHEST - 1) + 1):
            at_bounds.append((slot, keys))
            at_bounds += [(slot, np.where(np.arange(len(slot)) == at, keys, high)) for at in range(len(slot))]
            at_bounds += [(slot[:-1], high[:-1])]
    ends = [
        (np.arange(shape.slots, dtype=np.int32), np.full(shape.slots, end)) for end in (LOWEST, 0, HIGHEST)
    ]
    return boxes, [*points, *((slot.copy(), keys.copy()) for slot, keys in at_bounds), *ends]


def _check(peer: Peer, brute: Peer, points: list[Point]) -> int:
    matched = 0
    for slots, keys in points:
        found, expected = sorted(peer.match(slots, keys).tolist()), sorted(brute.match(slots, keys).tolist())
        assert found == expected if peer.exact else set(found) >= set(expected)
        assert len(found) == len(set(found))
        matched += len(expected)
    return matched


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", sorted(PEERS.keys() - {"brute"}))
def test_a_peer_finds_what_a_scan_finds(name: str, shape: str) -> None:
    (boxes, points), (others, _) = _boxes(SHAPES[shape]), _boxes(SHAPES[shape])
    pair = peer, brute = PEERS[name](boxes), Brute(others)
    assert _check(peer, brute, points) > 1_000
    assert peer.nbytes > 0
    source = random.Random(1)
    free, living = list(range(500, 520)), list(range(500))
    more, _ = draw(replace(SHAPES[shape], seed=2))
    for _ in range(300):
        if source.random() < 0.5:
            free.append(living.pop(source.randrange(len(living))))
            for each in pair:
                each.delete(free[-1])
        elif free:
            living.append(free.pop(source.randrange(len(free))))
            slot, low, high = more.rows(source.randrange(500))
            # Some are beyond the domain that the index was built for.
            shift = source.choice((0, 0, -SHAPES[shape].domain, SHAPES[shape].domain))
            points += [(slot, high + shift), (slot, low + shift - 1)]
            for each in pair:
                each.insert(living[-1], slot, low + shift, high + shift)
    _check(peer, brute, points)


def test_h_tree_refuses_a_table_of_too_many_copies() -> None:
    boxes, _ = draw(Workload(10, 1, 2, (2, 2), (2, 2), width=0.9))
    with pytest.raises(MemoryError, match="entries"):
        type("Small", (HTree,), {"most": 9})(boxes)
