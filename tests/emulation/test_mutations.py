"""One changed piece of evidence changes the verdict on an emulation of each service, and is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from captures.accounting.verdict import HOLDS
from captures.rundir import RunLayout
from captures.rundir.summary import SUMMARY_KEYS, read_summary
from tests.support.attention_experiment import experiment
from tests.support.command import PRIVATE_RING5
from tests.support.evidence import copy_of, judged, replayed
from tests.support.mutations import ATTENTION, EMULATED, MESSAGES, PRIVATE, Mutation, noticed, of_runs

pytestmark = pytest.mark.emulation


@pytest.fixture(scope="module")
def run_of(emulated: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Returns the run folder of an emulation by its name in the catalogue."""
    subscriptions = tmp_path_factory.getbasetemp() / "eon-whole.toml"

    def folder(name: str) -> Path:
        if name == ATTENTION:
            return emulated(str(experiment(subscriptions, "eon", 3)), "--no-account")
        return emulated(*{MESSAGES: ("ring5",), PRIVATE: PRIVATE_RING5}[name])

    return folder


def test_every_documented_key_is_there(run_of: Callable[[str], Path]) -> None:
    assert set(SUMMARY_KEYS) == set(read_summary(RunLayout(run_of(MESSAGES))))


@pytest.mark.parametrize("name", EMULATED)
def test_evidence_that_nobody_changed_holds(run_of: Callable[[str], Path], name: str, tmp_path: Path) -> None:
    run = copy_of(run_of(name), tmp_path / "copy")
    assert (judged(run), replayed(run)) == ((HOLDS, []), (HOLDS, []))


@pytest.mark.parametrize(("name", "mutation"), of_runs(EMULATED))
def test_changed_evidence_is_named(
    run_of: Callable[[str], Path], name: str, mutation: Mutation, tmp_path: Path
) -> None:
    noticed(mutation, run_of(name), tmp_path / "copy")
