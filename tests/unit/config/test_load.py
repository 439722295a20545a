"""Experiment files: the loaded experiments, and the errors of malformed files."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from captures.rundir import RunLayout
from captures.rundir.inputs import write_topology
from router.options import options_of
from router.protocol.options import CONTENTS, SCHEMES
from testbed.experiments.config import (
    SECTIONS,
    BroadcastOptions,
    Experiment,
    OracleOptions,
    ProtocolOptions,
    RoutingOptions,
    WorkloadOptions,
)
from testbed.experiments.config.load import ExperimentError, find_experiment, load_experiment
from testbed.experiments.config.schema import dump_experiment
from testbed.experiments.config.topology import shipped
from testbed.experiments.events import SendMessage, SetPredicate
from testbed.experiments.events.network import LinkDown, LinkFlap, LinkUp, NodeDown, NodeUp
from testbed.support.errors import InputError
from tests.support.cases import cases_beside
from topos.generators import ring, waxman

_SMALL = 'duration_s = 100\n[topology]\ngenerator = "ring"\nnodes = 4\n'
_FILES = Path(__file__).with_name("files")
_FULL = (_FILES / "full.toml").read_text()
_PAIR = (_FILES / "pair.toml").read_text()
_PROBLEMS = cases_beside(__file__)


def _write(folder: Path, text: str) -> Path:
    (folder / "pair.toml").write_text(_PAIR, encoding="utf-8")
    path = folder / "experiment.toml"
    path.write_text(text, encoding="utf-8")
    return path


def _problems(path: Path, overrides: dict[str, str] | None = None) -> list[str]:
    """The lines of the error, without the name of the file."""
    with pytest.raises(ExperimentError) as caught:
        load_experiment(path, overrides)
    assert str(caught.value) == "\n".join(caught.value.problems)
    for problem in caught.value.problems:
        assert problem.startswith(f"{path}: ")
    return [problem.removeprefix(f"{path}: ") for problem in caught.value.problems]


def test_defaults(tmp_path: Path) -> None:
    assert load_experiment(_write(tmp_path, _SMALL)) == Experiment(
        name="experiment", seed=1, duration_s=100.0, time_scale=1.0, topology=ring(4), workload=None
    )


def test_every_section(tmp_path: Path) -> None:
    experiment = load_experiment(_write(tmp_path, _FULL))
    assert (experiment.name, experiment.seed) == ("full", 9)
    assert (experiment.duration_s, experiment.time_scale) == (600.0, 20.0)
    assert experiment.broadcast == BroadcastOptions("spt")
    assert experiment.protocol == ProtocolOptions(False, 30.0, 16)
    assert experiment.routing == RoutingOptions("pif-strict")
    assert experiment.workload == WorkloadOptions(senders_percent=50.0, filters_max=2)
    assert experiment.oracle == OracleOptions(2.0)
    assert experiment.events == (
        SetPredicate(10.0, 0, 'dest = "ORD" and price < 400'),
        SendMessage(20.0, 1, 'dest = "ORD" price = 300'),
        LinkDown(600.0, (1, 0)),
    )
    first, second = experiment.topology.links
    # Numbers are floats where the model has floats.
    assert {
        type(each) for each in (experiment.duration_s, experiment.events[0].at_s, second.bandwidth_mbps)
    } == {float}
    assert (first.bandwidth_mbps, first.loss_percent, first.delay_ms) == (10.0, 1.0, None)
    assert (second.bandwidth_mbps, second.loss_percent, second.delay_ms) == (100.0, 1.0, None)


def test_random_topologies_take_the_seed_of_the_experiment(tmp_path: Path) -> None:
    path = _write(tmp_path, 'seed = 4\nduration_s = 1\n[topology]\ngenerator = "waxman"\nnodes = 12\n')
    assert load_experiment(path).topology == waxman(12, 4)
    assert load_experiment(path, {"topology.seed": "5"}).topology == waxman(12, 5)


def test_links_can_be_declared_in_the_experiment(tmp_path: Path) -> None:
    text = "duration_s = 1\n[[topology.link]]\nu = 0\nv = 1\ncost = 7\n"
    topology = load_experiment(_write(tmp_path, text)).topology
    assert [(link.u, link.v, link.cost) for link in topology.links] == [(0, 1, 7)]


def test_workload_false_is_none(tmp_path: Path) -> None:
    path = _write(tmp_path, _FULL)
    assert load_experiment(path, {"workload": "false"}).workload is None
    assert load_experiment(_write(tmp_path, f"{_SMALL}[workload]\n")).workload == WorkloadOptions()


@pytest.mark.parametrize("options", [each for each in SECTIONS.values() if each])
def test_every_field_of_a_section_is_an_option(options: type) -> None:
    # The options of a service are those of its own class.
    names = [field.name for field in fields(options) if field.name != "of_kind"]
    assert [option.key for option in options_of(options)] == names


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [(old, new, section + rest) for section, cases in _PROBLEMS.items() for old, new, rest in cases],
)
def test_problems_name_file_section_and_key(tmp_path: Path, old: str, new: str, problem: str) -> None:
    assert old in _FULL
    problems = _problems(_write(tmp_path, _FULL.replace(old, new, 1)))
    assert len(problems) == 1 or "unknown section" in problem
    assert problems[0].startswith(problem)
    assert len(problems[0]) > len("[events 1] message: ")


def test_the_name_of_an_experiment_has_the_printable_characters_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "pair.toml").write_text(_PAIR)
    path = tmp_path / "a\n\x1b[31mb\udcff.toml"
    path.write_text(_FULL.replace('name = "full"', ""))
    assert load_experiment(path).name == "a??[31mb?"


def test_all_problems_are_reported_together(tmp_path: Path) -> None:
    text = "time_scal = 60\n[topology]\ngenerator = 'ring'\nnodes = 2\n[protocol]\nhop_limit = 0\n"
    assert _problems(_write(tmp_path, text)) == [
        "unknown key 'time_scal'; did you mean 'time_scale'?",
        "duration_s: missing; expected a number above 0, at most 1e+09",
        "[topology] nodes: 2 is not valid; expected an integer from 3 to 100000",
        "[protocol] hop_limit: 0 is not valid; expected an integer from 1 to 255",
    ]


def test_events_must_be_tables(tmp_path: Path) -> None:
    text = f"events = [1]\n{_SMALL}"
    assert _problems(_write(tmp_path, text)) == [
        "[events]: is not a list of tables; expected sections [[events]]"
    ]


def test_errors_of_topology_files_name_that_file(tmp_path: Path) -> None:
    path = _write(tmp_path, _FULL)
    (tmp_path / "pair.toml").write_text("[[link]]\nu = 0\nv = 0\n", encoding="utf-8")
    (problem,) = _problems(path)
    where = f"[topology] file: {tmp_path / 'pair.toml'}: line 1"
    assert problem == f"{where}: 0-0: joins a node to itself; expected two different nodes"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert _problems(tmp_path / "none.toml") == ["cannot be read: No such file or directory"]
    path = tmp_path / "latin.toml"
    path.write_bytes(b'name = "caf\xe9"')
    (problem,) = _problems(path)
    assert problem.startswith("is not UTF-8 text: ")


# Experiments as run folders have them.


def _round_trip(folder: Path, experiment: Experiment) -> Experiment:
    run = RunLayout(folder)
    write_topology(run, experiment.topology)
    copy = run.experiment
    copy.write_text(dump_experiment(experiment, run.topology.name), encoding="utf-8")
    return load_experiment(copy)


@pytest.mark.parametrize("name", sorted(shipped()))
def test_shipped_experiments_survive_the_run_folder(tmp_path: Path, name: str) -> None:
    experiment = load_experiment(shipped()[name])
    assert experiment.name == name
    assert _round_trip(tmp_path, experiment) == experiment


_positive = st.floats(1e-3, 1e9)
_links = st.sampled_from([(0, 1), (1, 0), (2, 3)])
_messages = st.sampled_from(['a = "\\"é\\""', "a = 1 b = true", "a = 1.5"])
_events = (
    st.builds(LinkUp, st.floats(0, 10), _links)
    | st.builds(LinkFlap, st.floats(0, 5), _links, st.floats(1e-3, 5))
    | st.builds(NodeDown, st.floats(0, 10), st.integers(0, 3))
    | st.builds(NodeUp, st.floats(0, 10), st.integers(0, 3))
    | st.builds(SendMessage, st.floats(0, 10), st.integers(0, 3), _messages)
)
_experiments = st.builds(
    Experiment,
    name=st.text(
        st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/").filter(str.isprintable),
        min_size=1,
        max_size=100,
    ).filter(lambda name: not name.startswith((".", "-"))),
    seed=st.integers(0, 2**70),
    duration_s=st.floats(10, 1e9),
    time_scale=st.floats(1e-6, 86_400),
    topology=st.just(ring(4)),
    routing=st.builds(RoutingOptions, st.sampled_from(tuple(SCHEMES))),
    protocol=st.builds(
        ProtocolOptions,
        st.booleans(),
        st.none() | _positive,
        st.integers(1, 255),
        covering=st.sampled_from(tuple(CONTENTS)),
    ),
    workload=st.none(),
    events=st.lists(_events, max_size=4).map(lambda es: tuple(sorted(es, key=lambda e: e.at_s))),
    oracle=st.builds(OracleOptions, st.floats(0, 10)),
)


@given(_experiments)
def test_any_experiment_survives_the_run_folder(
    tmp_path_factory: pytest.TempPathFactory, experiment: Experiment
) -> None:
    assert _round_trip(tmp_path_factory.mktemp("run"), experiment) == experiment


def test_default_is_the_setting_of_the_paper() -> None:
    experiment = load_experiment(shipped()["default"])
    assert (len(experiment.topology.nodes), len(experiment.topology.links)) == (20, 40)
    assert (experiment.duration_s, experiment.time_scale, experiment.fastest) == (1800, "auto", 60)
    # Percentages of senders and receivers, messages per minute, receivers that change, and how often.
    assert [*vars(experiment.workload).values()][1:6] == [20, 75, 3, 50, 1200]


def test_find_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_experiment("default") == shipped()["default"]
    (tmp_path / "mine.toml").write_text("", encoding="utf-8")
    assert find_experiment("mine.toml") == Path("mine.toml")
    with pytest.raises(InputError, match="defualt: no such file; unknown experiment 'defualt'; did you mea"):
        find_experiment("defualt")
    with pytest.raises(InputError, match=r"^other\.toml: no such file$"):
        find_experiment("other.toml")
