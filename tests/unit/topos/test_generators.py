"""Generated topologies: shapes, reproducibility, and likeness to BRITE's Waxman graphs."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from typing import Any

import pytest

from tests.support.cases import cases_beside
from topos import Topology, TopologyError
from topos.generators import GENERATORS, barabasi_albert, power_law, waxman
from topos.loaders import to_json

_CASES = cases_beside(__file__)


def _pairs(topology: Topology) -> set[tuple[int, int]]:
    return {(min(link.u, link.v), max(link.u, link.v)) for link in topology.links}


@pytest.mark.parametrize(("name", "sizes", "nodes", "pairs"), _CASES["shapes"])
def test_regular_shapes(name: str, sizes: list[int], nodes: int, pairs: list[list[int]]) -> None:
    topology = GENERATORS[name].make(*sizes)
    assert len(topology.nodes) == nodes
    assert sorted(_pairs(topology)) == [(u, v) for u, v in pairs]
    assert all(link.cost == 1 for link in topology.links)
    assert len({(node.x, node.y) for node in topology.nodes}) == nodes


@pytest.mark.parametrize(("name", "values", "message"), _CASES["impossible"])
def test_impossible_sizes_are_refused(name: str, values: dict[str, Any], message: str) -> None:
    with pytest.raises(TopologyError) as caught:
        GENERATORS[name].make(**values)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("topology", "digest"),
    [
        (waxman(50, seed=7), "f487534fdbe8ad24"),
        (barabasi_albert(60, seed=7), "9aa856c61b48c14a"),
        (power_law(60, seed=7), "98f223bdd86264f2"),
    ],
    ids=["waxman", "barabasi_albert", "power_law"],
)
def test_a_random_graph_is_the_same_everywhere(topology: Topology, digest: str) -> None:
    """Recorded once; another Python or platform must draw the same."""
    assert hashlib.sha256(to_json(topology).encode()).hexdigest()[:16] == digest


def test_waxman_cost_is_the_rounded_distance_or_one() -> None:
    topology = waxman(30, 3)
    for link in topology.links:
        u, v = topology.nodes[link.u], topology.nodes[link.v]
        assert u.x is not None and u.y is not None and v.x is not None and v.y is not None
        assert abs(link.cost - math.hypot(u.x - v.x, u.y - v.y)) <= 0.5
    unit = waxman(30, 3, cost="unit")
    assert {link.cost for link in unit.links} == {1}
    assert _pairs(unit) == _pairs(topology)


def test_waxman_nodes_that_lie_together_have_a_positive_cost() -> None:
    assert min(link.cost for link in waxman(4, plane=2).links) == 1


@pytest.mark.parametrize(("nodes", "links"), [(50, 100), (100, 200), (200, 400)])
def test_waxman_is_like_brite(nodes: int, links: int) -> None:
    """BRITE 2.1, same parameters, 50 to 1600 nodes: 2n links of mean length 340 to 405; 30 to 35 % of
    the nodes have degree 2 (the least), 18 to 26 % degree 3; the greatest degree is 10 to 23."""
    topologies = [waxman(nodes, seed) for seed in range(1, 11)]
    assert {len(topology.links) for topology in topologies} == {links}
    costs = [link.cost for topology in topologies for link in topology.links]
    assert 330 <= sum(costs) / len(costs) <= 400
    share: Counter[int] = Counter()
    for topology in topologies:
        degrees = Counter(end for link in topology.links for end in (link.u, link.v))
        assert min(degrees.values()) == 2
        assert 7 <= max(degrees.values()) <= 30
        share.update(degrees.values())
    assert 0.26 <= share[2] / (10 * nodes) <= 0.38
    assert 0.18 <= share[3] / (10 * nodes) <= 0.32


def test_waxman_prefers_near_nodes() -> None:
    """A small beta makes links short; with a great one they are as long as random pairs (0.52 sides)."""

    def mean(beta: float) -> float:
        costs = [link.cost for seed in range(5) for link in waxman(100, seed, beta=beta).links]
        return sum(costs) / len(costs)

    assert mean(0.02) < 150 < 300 < mean(0.2) < 400 < mean(1.0)


def _degrees(topology: Topology) -> Counter[int]:
    return Counter(end for link in topology.links for end in (link.u, link.v))


@pytest.mark.parametrize(("n", "links"), [(1, 0), (2, 1), (3, 3), (4, 5), (200, 397)])
def test_preferential_attachment_brings_two_links_a_node(n: int, links: int) -> None:
    topology = barabasi_albert(n)
    assert len(topology.nodes) == n
    assert len(topology.links) == links


def test_old_nodes_of_preferential_attachment_have_most_links() -> None:
    """The degree of node i grows as m * sqrt(n / i) (Barabasi and Albert, 1999): 63 for i = 1 in 1,000."""
    degrees = [_degrees(barabasi_albert(1000, seed)) for seed in range(20)]
    mean = [sum(each[node] for each in degrees) / len(degrees) for node in range(1000)]
    for node in (10, 40, 160):
        around = mean[node - 5 : node + 6]
        assert sum(around) / len(around) == pytest.approx(2 * math.sqrt(1000 / node), rel=0.25)


def test_degrees_of_a_power_law_fall_as_its_exponent_says() -> None:
    count = Counter(_degrees(power_law(20_000, exponent=2.5, least_degree=2)).values())
    for k in (2, 3, 4):
        assert count[2 * k] / count[k] == pytest.approx(2**-2.5, rel=0.15)


def test_a_power_law_of_least_degree_1_is_connected() -> None:
    topology = power_law(300, least_degree=1)
    assert min(_degrees(topology).values()) == 1
