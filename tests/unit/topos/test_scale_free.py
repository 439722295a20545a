"""Generators of graphs whose degrees follow a power law."""

from __future__ import annotations

import hashlib
import math
from collections import Counter

import pytest

from topos import Topology, TopologyError
from topos.loaders import to_json
from topos.scale_free import barabasi_albert, power_law


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


def test_the_graphs_are_the_same_everywhere() -> None:
    """Recorded once; another Python or platform must draw the same."""
    digests = [
        hashlib.sha256(to_json(make(60, seed=7)).encode()).hexdigest()[:16]
        for make in (barabasi_albert, power_law)
    ]
    assert digests == ["9aa856c61b48c14a", "98f223bdd86264f2"]


def test_sizes_that_cannot_be_made_are_errors() -> None:
    with pytest.raises(TopologyError, match=r"exponent is 1.0; expected a number above 1"):
        power_law(10, exponent=1.0)
    with pytest.raises(TopologyError, match="5 nodes do not fit on distinct points of a 2 x 2 plane"):
        barabasi_albert(5, plane=2)
