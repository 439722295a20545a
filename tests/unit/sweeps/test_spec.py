"""The file of a sweep: what it says, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from router.options import option, options_of
from router.protocol.options import SCHEMES
from testbed.evaluation.sweeps.spec import Plot, SpecError, _meaning, identity, load_spec
from testbed.experiments.config import ProtocolOptions, RoutingOptions
from testbed.experiments.config.load import find_experiment, load_experiment
from testbed.experiments.config.schema import ExperimentError
from testbed.support.errors import InputError
from tests.support.cases import cases_beside
from topos.generators import ring, waxman

_FILE = Path(__file__).with_name("sweep.toml").read_text()


def _written(folder: Path, text: str) -> Path:
    path = folder / "trial.toml"
    path.write_text(text)
    return path


def test_a_sweep_is_every_combination_with_every_seed(tmp_path: Path) -> None:
    spec = load_spec(_written(tmp_path, _FILE))
    assert spec.name == "trial"
    assert spec.plots == [
        Plot("false_positives / messages_received_by_routers", "protocol.sr_period_s", "topology")
    ]
    jobs = spec.jobs()
    assert [(*job.parameters.values(), job.seed) for job in jobs] == [
        (topology, period, seed)
        for topology in ("ring,4", "waxman,6")
        for period in (600, 900.5)
        for seed in (1, 2)
    ]
    assert [job.number for job in jobs] == list(range(8))
    assert len({job.identity for job in jobs}) == 8
    first, last = jobs[0].experiment, jobs[-1].experiment
    assert first.topology == ring(4)
    assert (first.duration_s, first.protocol.sr_period_s, first.seed) == (90, 600, 1)
    # A random topology takes the seed of the run.
    assert last.topology == waxman(6, seed=2)
    assert last.protocol.sr_period_s == 900.5


def test_the_identity_of_a_run_follows_what_determines_it(tmp_path: Path) -> None:
    def identities(text: str) -> set[str]:
        return {job.identity for job in load_spec(_written(tmp_path, text)).jobs()}

    before = identities(_FILE)
    assert identities(_FILE.replace("[[plot]]", "# a comment\n[[plot]]")) == before
    # More seeds leave the runs that have ended.
    assert identities(_FILE.replace("seeds = 2", "seeds = [2, 1, 7]")) > before
    assert identities(_FILE.replace("duration_s = 90", "duration_s = 91")).isdisjoint(before)


def test_the_scheme_of_a_package_counts_by_all_sources_of_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a sweep would keep the runs of a former state of the package."""
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "__init__.py").write_text("from theirs.rules import Scheme\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(SCHEMES.packaged, "flooding", "theirs")
    sweep = _written(tmp_path, '[set]\nrouting.scheme = "flooding"\n')
    found = set()
    for rule in ("1", "2"):
        (tmp_path / "theirs" / "rules.py").write_text(f"Scheme = {rule}\n")
        found |= {job.identity for job in load_spec(sweep).jobs()}
    assert len(found) == 2


def test_a_scheme_without_options_adds_nothing_to_the_identity() -> None:
    """Runs of earlier sweeps have none."""
    assert _meaning(RoutingOptions("flooding")) == {"scheme": "flooding"}


def test_the_identity_of_a_run_follows_the_meaning_of_its_experiment(tmp_path: Path) -> None:
    """Comments of the shipped files are generated: a changed one once made a figure repeat 22 of 36 runs."""
    base, sweep = tmp_path / "base.toml", _written(tmp_path, 'experiment = "base.toml"')

    def identity(text: str) -> str:
        base.write_text(text)
        (job,) = load_spec(sweep).jobs()
        return job.identity

    text = 'duration_s = 60\nrecord = true\n[topology]\ngenerator = "ring"\nnodes = 4\n[workload]\n'
    same = (
        text.replace("record = true\n", ""),
        text.replace("60", "60  # seconds"),
        'record = true\nduration_s = 60.0\n[workload]\n[topology]\nnodes = 4\ngenerator = "ring"\n',
        text + "senders_percent = 20\n[protocol]\nhop_limit = 64\n",
    )
    assert {identity(each) for each in (text, *same)} == {identity(text)}
    other = (
        text.replace("true", "false"),
        text.replace("4", "5"),
        text.replace("[workload]", ""),
        text + "[protocol]\nhop_limit = 63\n",
        text + '[[events]]\nat_s = 1\naction = "link_down"\nlink = [0, 1]\n',
        text + '[[events]]\nat_s = 1\naction = "link_up"\nlink = [0, 1]\n',
    )
    assert len({identity(each) for each in (text, *other)}) == 1 + len(other)
    # The ends of a link have no order.
    assert identity(other[-1].replace("[0, 1]", "[1, 0]")) == identity(other[-1])


@dataclass(frozen=True)
class _LaterOptions(ProtocolOptions):
    """[protocol] of later code."""

    later: bool = field(default=False, metadata=option("An option that other code has added."))


def test_an_option_that_other_code_has_added_makes_another_run_only_where_it_is_set() -> None:
    experiment = load_experiment(find_experiment("default"), {"protocol.hop_limit": "63"})
    options = {each.key: getattr(experiment.protocol, each.key) for each in options_of(ProtocolOptions)}
    later = [replace(experiment, protocol=_LaterOptions(**options, later=value)) for value in (False, True)]
    assert identity(later[0]) == identity(experiment) != identity(later[1])


def test_a_topology_file_lies_beside_the_sweep(tmp_path: Path) -> None:
    file = tmp_path / "net.toml"
    file.write_text("[[link]]\nu = 0\nv = 1\n")
    text = _FILE.replace('"ring,4", "waxman,6"', '"net.toml"')
    (first, *_) = load_spec(_written(tmp_path, text)).jobs()
    assert [link.cost for link in first.experiment.topology.links] == [1]


def test_files_that_the_experiment_names_are_part_of_the_identity(tmp_path: Path) -> None:
    folder = tmp_path / "experiments"
    folder.mkdir()
    net, keys, network = folder / "net.toml", folder / "members.keys", folder / "network.keys"
    signing = folder / "signing-keys" / "r0"
    signing.parent.mkdir()
    net.write_text("[[link]]\nu = 0\nv = 1\n")
    keys.write_text("1")
    network.write_text("1")
    signing.write_text("1")
    base = 'duration_s = 60\n[topology]\nfile = "net.toml"\n[privacy]\nmode = "bloom"\n'
    security = '[security]\nmode = "mac"\nkey_file = "network.keys"\nsigning_keys = "signing-keys"\n'
    (folder / "base.toml").write_text(base + 'key_file = "members.keys"\n' + security)
    sweep = _written(tmp_path, 'experiment = "experiments/base.toml"')
    seen = set()
    for file, text in (
        *((keys, "1"), (keys, "2"), (network, "2"), (signing, "2")),
        (net, "[[link]]\nu = 0\nv = 1\ncost = 3\n"),
    ):
        file.write_text(text)
        (job,) = load_spec(sweep).jobs()
        assert job.experiment.privacy.key_file == str(keys)
        seen.add(job.identity)
    assert len(seen) == 5


def test_a_file_of_the_authors_simulator_can_be_swept(tmp_path: Path) -> None:
    text = "sim_length 60 ; node 0 0 0 , node 1 0 9 , link 0 1 9 ;"
    (tmp_path / "base.txt").write_text(text)
    sweep = _written(tmp_path, 'experiment = "base.txt"')
    (first,) = load_spec(sweep).jobs()
    (tmp_path / "base.txt").write_text(text.replace("60", "90"))
    (second,) = load_spec(sweep).jobs()
    assert first.identity != second.identity


@pytest.mark.parametrize(("old", "new", "message"), cases_beside(__file__)["faults"])
def test_faults_name_the_key(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in _FILE
    with pytest.raises(InputError, match=message):
        load_spec(_written(tmp_path, _FILE.replace(old, new)))


def test_an_experiment_that_is_not_valid_is_found_before_anything_runs(tmp_path: Path) -> None:
    spec = load_spec(_written(tmp_path, _FILE.replace("[600, 900.5]", "[600, -1]")))
    with pytest.raises(ExperimentError, match=r"\[protocol\] sr_period_s .*-1 is not valid"):
        spec.jobs()


def test_a_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"none\.toml: cannot be read: No such file"):
        load_spec(tmp_path / "none.toml")


def test_a_hop_limit_below_the_depth_of_the_trees_of_a_point_is_refused(tmp_path: Path) -> None:
    text = 'experiment = "default"\n[grid]\ntopology = ["ring,6", "line,9"]\n"protocol.hop_limit" = [8, 7]\n'
    with pytest.raises(ExperimentError, match=r"hop_limit .*7 is below the depth .* which is 8 while"):
        load_spec(_written(tmp_path, text)).jobs()
    assert len(load_spec(_written(tmp_path, text.replace("[8, 7]", "[8, 9]"))).jobs()) == 4
