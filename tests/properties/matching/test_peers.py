"""The rebuilt algorithms find what a scan finds."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.bench.peers import PEERS
from tests.bench.peers.brute import Brute
from tests.bench.peers.equality import check, compare, hard_table
from tests.bench.peers.htree import HTree
from tests.bench.peers.workloads import WORKLOADS, Workload, draw

#: Small tables, each of another shape: dense messages, sparse messages, equalities, domains of few values,
#: intervals about as wide as a leaf of TAMA.
SHAPES = {
    "dense": Workload(500, 60, 6, (0, 3), (6, 6), 1_000, 0.5),
    "sparse": Workload(500, 60, 40, (1, 4), (3, 12), 5_000_000, 0.3, 0.2, 1.0),
    "equal": Workload(500, 60, 8, (1, 3), (2, 8), 9, 0.4, 0.6),
    "alike": Workload(500, 60, 30, (1, 5), (6, 10), 48, 0.12, 0.3, likeness=5),
    "narrow": Workload(500, 60, 8, (1, 3), (4, 8), 1 << 40, 1e-5, likeness=5),
    "tags": Workload(500, 60, 40, (1, 5), (8, 12), 1, zipf=1.0),
    "ticks": replace(WORKLOADS["ticks"], filters=500, messages=60),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", sorted(PEERS.keys() - {"brute"}))
def test_a_peer_finds_what_a_scan_finds(name: str, shape: str) -> None:
    (boxes, points), (others, _) = hard_table(SHAPES[shape], 20), hard_table(SHAPES[shape], 20)
    pair = peer, brute = PEERS[name](boxes), Brute(others)
    # A query of DuckDB takes milliseconds.
    step = 25 if name == "duckdb" else 1
    points = points[::step]
    assert compare(peer, brute, points) > 1_000 / step
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
    compare(peer, brute, points)


def test_h_tree_refuses_a_table_of_too_many_copies() -> None:
    boxes, _ = draw(Workload(10, 1, 2, (2, 2), (2, 2), width=0.9))
    with pytest.raises(MemoryError, match="entries"):
        type("Small", (HTree,), {"most": 9})(boxes)


def test_pairs_of_random_shapes_are_compared() -> None:
    _, pairs, matches = check("bitvectors", 5_000, 1)
    assert pairs >= 5_000
    assert matches > 0
