"""The members of two runs: under one key file they share nothing, with keys of the seed everything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from router.predicates import Message
from router.predicates.encoded import BloomPredicate
from router.predicates.parser import parse_predicate
from router.privacy import KeyRing, write_keys
from testbed.experiments.config import Experiment
from testbed.experiments.config.load import load_experiment
from testbed.experiments.events import APPLICATION
from testbed.experiments.workload.keys import members_of

PLACES = [(0, APPLICATION), (1, APPLICATION), (1, "second")]


@pytest.fixture
def experiment(tmp_path: Path) -> Callable[[str], Experiment]:
    """An experiment with further lines of `[privacy]`."""

    def made(more: str) -> Experiment:
        path = tmp_path / "experiment.toml"
        topology = 'duration_s = 1\n[topology]\ngenerator = "line"\nnodes = 2\n'
        path.write_text(f'{topology}[privacy]\nmode = "bloom"\nkept_hashes = 4\n{more}')
        return load_experiment(path)

    return made


def _run(experiment: Experiment) -> tuple[set[bytes], list[BloomPredicate]]:
    """Returns what a run sends: the sealed contents of 20 messages of each member, and encoded predicates."""
    members = members_of(experiment, PLACES).values()
    sealed = {member.message(Message({"a": 1})).sealed for member in members for _ in range(20)}
    # With one constraint, two members choose the same 4 of 8 bits once in 70 times.
    predicate = parse_predicate(" and ".join(f"{name} = 1" for name in "abcdefgh"))
    return sealed, [member.set_predicate(predicate) for member in members]


@pytest.mark.attack("nonces of two runs")
def test_two_runs_under_one_key_file_share_no_nonce_and_no_secret(
    tmp_path: Path, experiment: Callable[[str], Experiment]
) -> None:
    write_keys(tmp_path / "keys", KeyRing.new())
    chosen = experiment('key_file = "keys"\n')
    runs = [_run(chosen) for _ in range(2)]
    assert len({sealed[:12] for contents, _ in runs for sealed in contents}) == 120
    assert len({sealed[:4] for contents, _ in runs for sealed in contents}) == 6
    assert len({str(predicate) for _, predicates in runs for predicate in predicates}) == 6


def test_a_run_with_keys_of_the_seed_is_repeated_byte_by_byte(
    experiment: Callable[[str], Experiment],
) -> None:
    assert _run(experiment("")) == _run(experiment(""))
