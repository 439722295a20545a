"""One changed piece of evidence changes the verdict on a simulation, and is named; the catalogue is whole."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from captures.accounting.verdict import HOLDS
from captures.rundir.document import FILES, names_of
from tests.support.attention_experiment import experiment
from tests.support.evidence import copy_of, judged
from tests.support.mutations import (
    CHANGES,
    MUTATIONS,
    NO_EVIDENCE,
    SIMULATED,
    SIMULATED_ATTENTION,
    SIMULATIONS,
    Mutation,
    noticed,
    of_runs,
)
from tests.support.paths import ROOT
from tests.support.simulated import judged_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The run folders of the simulations by the names of the catalogue."""
    folder = tmp_path_factory.mktemp("simulations")
    chosen = {
        SIMULATED: ROOT / "testbed" / "experiments" / "shipped" / "ring5.toml",
        SIMULATED_ATTENTION: experiment(folder / "attention.toml", "eon", 3),
    }
    return {name: judged_run(path, folder / name).path for name, path in chosen.items()}


@pytest.mark.parametrize("name", SIMULATIONS)
def test_evidence_that_nobody_changed_holds(runs: Mapping[str, Path], name: str, tmp_path: Path) -> None:
    assert judged(copy_of(runs[name], tmp_path / "copy")) == (HOLDS, [])


@pytest.mark.parametrize(("name", "mutation"), of_runs(SIMULATIONS))
def test_changed_evidence_is_named(
    runs: Mapping[str, Path], name: str, mutation: Mutation, tmp_path: Path
) -> None:
    noticed(mutation, runs[name], tmp_path / "copy")


def test_every_file_of_a_run_folder_has_mutations_or_is_no_evidence() -> None:
    named = [{each.file for each in MUTATIONS if (each.verdict == NO_EVIDENCE) is no} for no in (False, True)]
    assert named[0] | named[1] == {names_of(file).split("`")[1] for file in FILES}
    assert not named[0] & named[1]


def test_every_change_is_in_the_table() -> None:
    made = {(file, change) for file, changes in CHANGES.items() for change in changes}
    assert made <= {(each.file, each.change) for each in MUTATIONS}
