"""The archive of the code holds all that workers of a cluster import."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from captures.accounting.texts import texts
from captures.spark.session import write_archive
from testbed.experiments.config.load import list_experiments, load_experiment

#: Without `site`, whose path files lead to the source tree.
_PATHS = """
import sys
sys.path[:0], sys.path[len(sys.path):] = [sys.argv[1]], [sys.argv[2]]
"""
_IMPORT = f"""{_PATHS}
import importlib
print(importlib.import_module(sys.argv[3]).__file__)
"""


@pytest.mark.parametrize(
    "module",
    [
        "captures.datasource.formats",
        "captures.accounting.direct",
        "captures.frames.decoder",
        "captures.frames.messages",
        "testbed.sim.simulation",
        "testbed.evaluation.sweeps.job",
    ],
)
def test_workers_can_import_from_the_archive_alone(tmp_path: Path, module: str) -> None:
    archive = write_archive(tmp_path)
    command = [sys.executable, "-S", "-P", "-c", _IMPORT]
    done = subprocess.run(
        [*command, str(archive), sysconfig.get_path("purelib"), module],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.stdout.strip() == f"{archive}/{module.replace('.', '/')}.py", done.stderr


def test_workers_find_the_shipped_experiments_in_the_archive(tmp_path: Path) -> None:
    archive = write_archive(tmp_path)
    code = f"""{_PATHS}
from testbed.experiments.config.load import load_experiment
from testbed.experiments.config.load import find_experiment, list_experiments
found = find_experiment("ring5")
print(found, load_experiment(found, {{}}).topology.name, *list_experiments())
"""
    done = subprocess.run(
        [sys.executable, "-S", "-P", "-c", code, str(archive), sysconfig.get_path("purelib")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    path, *found = done.stdout.split()
    shipped = list_experiments()
    assert found == [load_experiment(shipped["ring5"], {}).topology.name, *shipped]
    assert not Path(path).exists(), "what was unpacked goes with the process"


def test_workers_find_the_texts_of_the_tables_in_the_archive(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-S",
        "-P",
        "-c",
        f"{_PATHS}from captures.accounting.texts import texts; print(*texts())",
    ]
    done = subprocess.run(
        [*command, str(write_archive(tmp_path)), sysconfig.get_path("purelib")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    assert done.stdout.split() == list(texts())
