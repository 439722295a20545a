"""Evidence of a finished run that is gone: the accounting names it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from rich.console import Console

from captures.accounting.direct import Direct
from captures.rundir.files import RunFolderError
from captures.rundir.layout import RunLayout
from captures.rundir.manifest import read_manifest
from testbed.config.load import load_experiment
from testbed.judges import judge_run
from testbed.sim.simulation import simulate
from testbed.terminal.progress import Progress
from tests.support.run_folder import good_run

EXPERIMENT = """
seed = 3
duration_s = 60
time_scale = 10

[topology]
link = [{ u = 0, v = 1 }, { u = 1, v = 2 }]

[workload]
senders_percent = 100
receivers_percent = 100
messages_per_minute = 60
first_message_s = 2
"""


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulation that the oracle has judged."""
    folder = tmp_path_factory.mktemp("simulated")
    file = folder / "line.toml"
    file.write_text(EXPERIMENT)
    experiment = load_experiment(file)
    run = simulate(experiment, folder / "runs", Progress(Console(quiet=True)))
    judge_run(RunLayout(run), experiment)
    return run


def _reasons(run: Path) -> list[str]:
    """Returns the reasons of the verdict, or the error of the accounting."""
    try:
        with Direct(run) as direct:
            return direct.verdict()[1]
    except RunFolderError as error:
        return [str(error)]


def test_each_file_that_the_manifest_lists_is_missed(simulated: Path, tmp_path: Path) -> None:
    listed = read_manifest(RunLayout(simulated))["evidence"]
    assert _reasons(simulated) == []
    for name in listed:
        run = tmp_path / "run"
        shutil.copytree(simulated, run)
        (run / name).unlink()
        reasons = _reasons(run)
        assert any(name in reason and "missing" in reason for reason in reasons), (name, reasons)
        shutil.rmtree(run)


def test_the_records_of_a_restarted_router_are_missed(tmp_path: Path) -> None:
    run = RunLayout(good_run().write(tmp_path))
    run.faults.write_text(
        '{"t_ns":5,"at_s":0.0,"what":"killed","part":"router","node":1}\n'
        '{"t_ns":6,"at_s":0.0,"what":"started","part":"router","node":1}\n'
    )
    assert _reasons(run.path) == ["evidence is missing: logs/applications/r1.restart-1.jsonl"]
