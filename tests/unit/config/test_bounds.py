"""Experiments that would exhaust the memory, or whose text is unusual."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.experiments.config.load import load_experiment
from testbed.experiments.config.schema import ExperimentError
from tests.support.cases import cases_beside

_FILE = 'duration_s = 60\n[topology]\ngenerator = "ring"\nnodes = 5\n[workload]\nmessages_per_minute = 60\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "first.toml"
    path.write_text(_FILE)
    return path


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        *cases_beside(__file__)["out_of_bounds"],
        (
            "name",
            '"' + "☃" * 100 + '"',
            "expected a name of 1 to 100 printable characters (at most 200 bytes)",
        ),
        ("name", '"\udcff"', "expected a name of 1 to 100 printable characters"),
    ],
)
def test_values_out_of_bounds_are_refused_at_once(file: Path, key: str, value: str, problem: str) -> None:
    with pytest.raises(ExperimentError) as raised:
        load_experiment(file, {key: value})
    (said,) = raised.value.problems
    assert said.startswith(f"{file}: ")
    assert key.rpartition(".")[2] in said
    assert problem in said


def test_much_traffic_below_the_bound_is_taken(file: Path) -> None:
    load_experiment(file, {"workload.messages_per_minute": "9e6"})


def test_a_long_file_name_gives_a_name_that_fits(tmp_path: Path) -> None:
    path = tmp_path / ("☃" * 80 + ".toml")
    path.write_text(_FILE)
    assert load_experiment(path).name == "☃" * 66


def test_a_byte_order_mark_is_no_part_of_the_text(file: Path) -> None:
    links = "[[link]]\nu = 0\nv = 1\n"
    for name in ("first.toml", "pair.toml"):
        text = links if name == "pair.toml" else _FILE
        (file.parent / name).write_text(text, encoding="utf-8-sig")
    assert len(load_experiment(file, {"topology.file": "pair.toml"}).topology.nodes) == 2


def test_deep_nesting_is_refused(file: Path) -> None:
    nested = "[" * 100_000
    for name, text in (("deep.json", nested), ("deep.toml", f"link = {nested}")):
        (file.parent / name).write_text(text)
        with pytest.raises(ExperimentError, match=rf"{name}: is nested too deeply"):
            load_experiment(file, {"topology.file": name})
    file.write_text(f"seed = {nested}")
    with pytest.raises(ExperimentError, match="is nested too deeply"):
        load_experiment(file)


def test_a_declared_topology_does_not_grow_without_bound(file: Path) -> None:
    (file.parent / "large.toml").write_text("[[link]]\nu = 0\nv = 1\n[[link]]\nu = 1\nv = 99999999999999\n")
    with pytest.raises(ExperimentError, match="line 4: names node 99999999999999; expected nodes 0 to 99999"):
        load_experiment(file, {"topology.file": "large.toml"})
