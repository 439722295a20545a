"""The members of two runs: under one key file they share nothing, with keys of the seed everything."""

from __future__ import annotations

from pathlib import Path

import pytest

from router.predicates import Message
from router.predicates.encoded import BloomPredicate
from router.predicates.parser import parse_predicate
from router.privacy import KeyRing, write_keys
from testbed.experiments.config import Experiment, PrivacyOptions
from testbed.experiments.events import APPLICATION
from testbed.experiments.workload.keys import members_of
from topos.generators import line

PLACES = [(0, APPLICATION), (1, APPLICATION), (1, "second")]


def _experiment(key_file: Path | None = None) -> Experiment:
    keys = None if key_file is None else str(key_file)
    privacy = PrivacyOptions(mode="bloom", kept_hashes=4, key_file=keys)
    return Experiment("members", 1, 1.0, 1.0, line(2), privacy=privacy)


def _run(experiment: Experiment) -> tuple[set[bytes], list[BloomPredicate]]:
    """Returns what a run sends: the sealed contents of 20 messages of each member, and encoded predicates."""
    members = members_of(experiment, PLACES).values()
    sealed = {member.message(Message({"a": 1})).sealed for member in members for _ in range(20)}
    # With one constraint, two members choose the same 4 of 8 bits once in 70 times.
    predicate = parse_predicate(" and ".join(f"{name} = 1" for name in "abcdefgh"))
    return sealed, [member.set_predicate(predicate) for member in members]


@pytest.mark.attack("nonces of two runs")
def test_two_runs_under_one_key_file_share_no_nonce_and_no_secret(tmp_path: Path) -> None:
    write_keys(tmp_path / "keys", KeyRing.new())
    runs = [_run(_experiment(tmp_path / "keys")) for _ in range(2)]
    assert len({sealed[:12] for contents, _ in runs for sealed in contents}) == 120
    assert len({sealed[:4] for contents, _ in runs for sealed in contents}) == 6
    assert len({str(predicate) for _, predicates in runs for predicate in predicates}) == 6


def test_a_run_with_keys_of_the_seed_is_repeated_byte_by_byte() -> None:
    assert _run(_experiment()) == _run(_experiment())
