"""The registry of generators: every parameter is an option, and a generator is one function and one line."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from router.options import option
from testbed.experiments.config.load import load_experiment
from testbed.experiments.config.topology import parse_topology_argument
from topos import Topology
from topos.generators import GENERATORS, register, ring


@pytest.mark.parametrize("name", GENERATORS)
def test_every_parameter_is_an_option_with_a_sentence(name: str) -> None:
    generator = GENERATORS[name]
    parameters = inspect.signature(generator.make).parameters
    assert list(generator.parameters) == list(parameters)
    for each, declared in generator.parameters.items():
        assert declared.doc.endswith(".")
        assert declared.required == (parameters[each].default is inspect.Parameter.empty)


@pytest.mark.parametrize("name", GENERATORS)
def test_the_least_sizes_make_a_topology(name: str) -> None:
    generator = GENERATORS[name]
    topology = generator.generate({each.key: each.low for each in generator.options if each.required})
    assert topology.nodes


def double_ring(n: int) -> Topology:
    """A ring of twice as many nodes."""
    return ring(2 * n)


@pytest.fixture
def doubled() -> Iterator[None]:
    add = register("A ring of twice as many nodes.", n=option("Half of the nodes.", key="nodes", low=2))
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
