"""Building a topology: interface numbers, and refused input."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from router.options import option
from testbed.experiments.config.load import load_experiment
from testbed.experiments.config.topology import parse_topology_argument
from topos import LinkSpec, Node, Topology, TopologyError
from topos.build import build
from topos.generators import GENERATORS, register, ring


def _nodes(count: int) -> list[Node]:
    return [Node(i) for i in range(count)]


def test_ports_count_up_at_each_node_in_the_order_of_the_links() -> None:
    topology = build("t", _nodes(4), [LinkSpec(2, 0), LinkSpec(0, 1), LinkSpec(3, 0), LinkSpec(1, 2)])
    assert [(k.index, k.u, k.u_port, k.v, k.v_port) for k in topology.links] == [
        (0, 2, 1, 0, 1),
        (1, 0, 2, 1, 1),
        (2, 3, 1, 0, 3),
        (3, 1, 2, 2, 2),
    ]
    assert topology.neighbours(0) == {1: 2, 2: 1, 3: 3}


@pytest.mark.parametrize(
    ("nodes", "links", "message"),
    [
        ([], [], "no nodes; expected at least one"),
        ([Node(0), Node(0)], [], "node 0 is declared twice"),
        (_nodes(2), [LinkSpec(0, 2)], "link 0: 0-2: there is no node 2; expected 0 to 1"),
        (_nodes(2), [LinkSpec(0, 1, 0)], "link 0: 0-1: cost: 0 is not valid; expected an integer, 1 or more"),
        (
            _nodes(3),
            [LinkSpec(0, 1, 2**63 - 1), LinkSpec(1, 2, 2**63 - 1)],
            "link 0: 0-1: with cost 9223372036854775807 the costs of all links add up to "
            "9223372036854775807 or more; expected at most 4611686018427387903",
        ),
        (
            _nodes(14),
            [LinkSpec(0, 1)],
            "not connected: 12 nodes have no path to node 0: 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ...",
        ),
    ],
)
def test_what_is_not_a_topology_is_refused(nodes: list[Node], links: list[LinkSpec], message: str) -> None:
    with pytest.raises(TopologyError) as caught:
        build("t", nodes, links)
    assert message in str(caught.value)


# The registry of generators: every parameter is an option, and a generator is one function and one line.


@pytest.mark.parametrize("name", GENERATORS)
def test_the_least_sizes_make_a_topology(name: str) -> None:
    generator = GENERATORS[name]
    assert list(generator.parameters) == list(inspect.signature(generator.make).parameters)
    topology = generator.generate({each.key: each.low for each in generator.options if each.required})
    assert topology.nodes


def double_ring(n: int) -> Topology:
    """A ring of twice as many nodes."""
    return ring(2 * n)


@pytest.fixture
def doubled() -> Iterator[None]:
    add = register(n=option("Half of the nodes.", key="nodes", low=2))
    add(double_ring)
    yield
    GENERATORS.unregister("double_ring")


@pytest.mark.usefixtures("doubled")
def test_a_generator_is_one_function_and_one_registration(tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    path.write_text('duration_s = 1\n[topology]\ngenerator = "ring"\nnodes = 3\n')
    overrides = parse_topology_argument("double_ring,4")
    assert load_experiment(path, overrides).topology == ring(8)
    with pytest.raises(ValueError, match=r"1 is not valid; expected an integer, 2 or more"):
        load_experiment(path, parse_topology_argument("double_ring,1"))
