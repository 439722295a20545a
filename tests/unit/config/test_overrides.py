"""Values that the command line sets over those of the file."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from testbed.cli.arguments import overrides
from testbed.experiments.config.load import ExperimentError, load_experiment
from testbed.experiments.config.topology import parse_topology_argument, parse_value, shipped
from testbed.support.errors import InputError
from tests.support.cases import cases_beside
from topos import Topology
from topos.generators import grid, tree, waxman
from topos.loaders import load

_CASES = cases_beside(__file__)

_TEXT = Path(__file__).with_name("waxman.toml").read_text()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "e.toml"
    file.write_text(_TEXT, encoding="utf-8")
    return file


@pytest.mark.parametrize(("text", "value"), _CASES["values"])
def test_values_are_toml_and_bare_words_strings(text: str, value: object) -> None:
    parsed = parse_value(text)
    assert parsed == value
    assert type(parsed) is type(value)


def test_the_same_generator_keeps_the_other_parameters(path: Path) -> None:
    assert load_experiment(path, {"topology.nodes": "12"}).topology == waxman(12, 2, beta=0.5)
    same = parse_topology_argument("waxman,12")
    assert load_experiment(path, same).topology == waxman(12, 2, beta=0.5)


def test_paths_of_the_command_line_are_relative_to_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    sets = ["workload.schema=s.toml", "topology.file=../t.json", "time_scale=2"]
    given = overrides(Namespace(topology=None, overrides=sets))
    assert given == {
        "workload.schema": f'"{tmp_path}/here/s.toml"',
        "topology.file": f'"{tmp_path}/t.json"',
        "time_scale": "2",
    }
    found = overrides(Namespace(topology='a "b"/5.toml', overrides=[]))
    assert found == {"topology.file": rf'"{tmp_path}/here/a \"b\"/5.toml"'}
    # It may be the name of a shipped topology.
    assert overrides(Namespace(topology=None, overrides=["topology.file=geant"])) == {
        "topology.file": "geant"
    }


def test_problems_say_that_an_override_is_to_blame(path: Path) -> None:
    with pytest.raises(ExperimentError, match=r"\[topology\] nodes \(given as an override\): missing"):
        load_experiment(path, parse_topology_argument("ring"))
    with pytest.raises(ExperimentError) as caught:
        load_experiment(path, {"time_scale": "fast", "workload.senders_percent": "101"})
    assert caught.value.problems == (
        f'{path}: time_scale (given as an override): "fast" is not valid; expected a number from 1e-06'
        ' to 86400 or "auto"',
        f"{path}: [workload] senders_percent (given as an override): 101 is not valid;"
        " expected a number from 0 to 100",
    )


@pytest.mark.parametrize(("key", "message"), _CASES["wrong_keys"])
def test_keys_that_cannot_be_set(path: Path, key: str, message: str) -> None:
    with pytest.raises(ExperimentError) as caught:
        load_experiment(path, {key: "1"})
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("argument", "topology"),
    [
        ("waxman,20,5,beta=0.3", waxman(20, 5, beta=0.3)),
        ("waxman,20,cost=unit,seed=5,beta=0.2", waxman(20, 5, cost="unit")),
        ("dfn", load(str(shipped("topologies")["dfn"]))),
        ("grid, 3, 4", grid(3, 4)),
        ("tree,fanout=3,depth=2", tree(2, 3)),
    ],
)
def test_topology_argument(path: Path, argument: str, topology: Topology) -> None:
    assert load_experiment(path, parse_topology_argument(argument)).topology == topology


@pytest.mark.parametrize(("argument", "message"), _CASES["wrong_topologies"])
def test_topology_arguments_that_are_wrong(argument: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_topology_argument(argument)
    assert message in str(caught.value)
