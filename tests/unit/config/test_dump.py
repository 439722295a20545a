"""The copy of an experiment in its run folder, and the shipped experiments."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from captures.rundir import RunLayout
from captures.rundir.inputs import write_topology
from router.protocol.options import CONTENTS, SCHEMES
from testbed.experiments.config import Experiment, OracleOptions, ProtocolOptions, RoutingOptions
from testbed.experiments.config.load import find_experiment, list_experiments, load_experiment
from testbed.experiments.config.schema import dump_experiment
from testbed.experiments.events import SendMessage
from testbed.experiments.events.network import LinkFlap, LinkUp, NodeDown, NodeUp
from testbed.support.errors import InputError
from topos.generators import ring


def _round_trip(folder: Path, experiment: Experiment) -> Experiment:
    run = RunLayout(folder)
    write_topology(run, experiment.topology)
    copy = run.experiment
    copy.write_text(dump_experiment(experiment, run.topology.name), encoding="utf-8")
    return load_experiment(copy)


@pytest.mark.parametrize("name", sorted(list_experiments()))
def test_shipped_experiments_survive_the_run_folder(tmp_path: Path, name: str) -> None:
    experiment = load_experiment(list_experiments()[name])
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
@settings(deadline=None, max_examples=100)
def test_any_experiment_survives_the_run_folder(
    tmp_path_factory: pytest.TempPathFactory, experiment: Experiment
) -> None:
    assert _round_trip(tmp_path_factory.mktemp("run"), experiment) == experiment


def test_default_is_the_setting_of_the_paper() -> None:
    experiment = load_experiment(list_experiments()["default"])
    assert (len(experiment.topology.nodes), len(experiment.topology.links)) == (20, 40)
    assert (experiment.duration_s, experiment.time_scale, experiment.fastest) == (1800, "auto", 60)
    # Percentages of senders and receivers, messages per minute, receivers that change, and how often.
    assert [*vars(experiment.workload).values()][1:6] == [20, 75, 3, 50, 1200]


def test_find_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_experiment("default") == list_experiments()["default"]
    (tmp_path / "mine.toml").write_text("", encoding="utf-8")
    assert find_experiment("mine.toml") == Path("mine.toml")
    with pytest.raises(InputError, match="defualt: no such file; unknown experiment 'defualt'; did you mea"):
        find_experiment("defualt")
    with pytest.raises(InputError, match=r"^other\.toml: no such file$"):
        find_experiment("other.toml")
