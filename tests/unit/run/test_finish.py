"""Folders of emulations that did not end are refused before any work is done on them."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from captures.rundir import RunLayout
from captures.rundir.files import RunFolderError
from router.records.json_file import to_json
from testbed.emulation.run.emulation import emulate
from testbed.experiments.config.load import find_experiment, load_experiment
from testbed.results.conclude import conclude
from testbed.support.errors import InputError
from testbed.terminal.progress import Progress


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of an emulation that has just begun."""
    run = RunLayout(tmp_path)
    shutil.copy(find_experiment("ring5"), run.experiment)
    run.manifest.write_text(json.dumps({"datapath": "user", "evidence": [], "inputs": {}, "started_ns": 1}))
    return tmp_path


def _refused(run: Path, message: str) -> None:
    before = sorted(run.rglob("*"))
    console = Console(quiet=True)
    with pytest.raises(RunFolderError, match=message):
        conclude(run, "local[2]", Progress(console))
    assert sorted(run.rglob("*")) == before


def test_interrupted_emulation_is_named_as_such(run: Path) -> None:
    _refused(run, r"timings\.json: missing; was the emulation interrupted, or does it still run\?")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("timings", "{", r"timings\.json: expected JSON"),
        ("timings", "[]", r"timings\.json: Expected `object`, got `array`"),
        ("timings", '{"run_s": "long"}', r"timings\.json: Expected `float`, got `str` - at `\$\.run_s`"),
        (
            "manifest",
            '{"time_scale": 1, "started_ns": 1}',
            r"manifest\.json: Object missing required field `datapath`",
        ),
    ],
)
def test_malformed_files_are_named(run: Path, name: str, content: str, message: str) -> None:
    RunLayout(run).timings.write_text("{}")
    getattr(RunLayout(run), name).write_text(content)
    _refused(run, message)


def test_an_emulation_refuses_a_folder_that_its_processes_could_not_open(tmp_path: Path) -> None:
    folder = tmp_path / "b\udcff"
    with pytest.raises(InputError, match=r"b\\udcff': the name is not in UTF-8"):
        emulate(load_experiment(find_experiment("ring5")), folder, "user", Progress(Console(quiet=True)))
    assert not folder.exists()
    assert to_json(RunLayout(folder / "é")) == to_json({"path": f"{tmp_path}/b?/é"})
    assert to_json([folder.name, math.nan]) == b'["b?",null]'
