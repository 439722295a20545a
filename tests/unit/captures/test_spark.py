"""Spark and its workers: the code that they get, their reach, temporary folders, private parts of PySpark."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PythonException

from captures.accounting.texts import texts
from captures.spark.folder import remove_abandoned
from captures.spark.internals import context_runs
from captures.spark.session import SessionError, write_archive
from captures.spark.workers import _digest, _problem, require_reach
from testbed.experiments.config.load import load_experiment
from testbed.experiments.config.topology import shipped
from tests.support.paths import ROOT

#: Larger than any process id of Linux.
NO_PROCESS = 2**22 + 1
NOBODY = 65_534
#: The archive comes before the packages; without `site`, whose path files lead to the source tree.
_PATHS = "import sys; sys.path[:0], sys.path[len(sys.path):] = [sys.argv[1]], [sys.argv[2]]\n"
_MODULES = (
    *("captures.datasource.formats", "captures.accounting.direct", "captures.frames.decoder"),
    *("captures.frames.messages", "testbed.sim.simulation", "testbed.evaluation.sweeps.job"),
)
_PRIVATE = {
    *("_accumulatorServer", "_activeSession", "_active_spark_context", "_gateway", "_instantiatedSession"),
    *("_jdf", "_jsc", "_jsparkSession", "_jvm", "_jwrite", "_python_includes"),
}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return write_archive(tmp_path)


def _in_worker(archive: Path, code: str) -> list[str]:
    """The words that code prints where the source tree is in the archive alone."""
    command = [sys.executable, "-S", "-P", "-c", _PATHS + code, str(archive), sysconfig.get_path("purelib")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=archive.parent, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("name", _MODULES)
def test_workers_can_import_from_the_archive_alone(archive: Path, name: str) -> None:
    code = f"import {name}\nprint({name}.__file__)"
    assert _in_worker(archive, code) == [f"{archive}/{name.replace('.', '/')}.py"]


def test_workers_find_the_shipped_experiments_in_the_archive(archive: Path) -> None:
    code = """
from testbed.experiments.config.load import find_experiment, load_experiment
from testbed.experiments.config.topology import shipped
found = find_experiment("ring5")
print(found, load_experiment(found, {}).topology.name, *shipped())
"""
    path, *found = _in_worker(archive, code)
    assert found == [load_experiment(shipped()["ring5"], {}).topology.name, *shipped()]
    assert not Path(path).exists(), "what was unpacked goes with the process"


def test_workers_find_the_texts_of_the_tables_in_the_archive(archive: Path) -> None:
    code = "from captures.accounting.texts import texts; print(*texts())"
    assert _in_worker(archive, code) == list(texts())


def test_a_worker_names_what_it_does_not_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = tmp_path / "manifest.json"
    manifest.write_text("{}")
    expected = _digest(manifest)
    assert _problem(manifest, expected, tmp_path) == ""
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert _problem(manifest, expected, tmp_path) == f"cannot write into {tmp_path}"
    manifest.write_text('{"seed": 2}')
    assert _problem(manifest, expected, None) == f"has another file {manifest}"
    manifest.unlink()
    assert _problem(manifest, expected, None) == f"cannot read {manifest} (No such file or directory)"


def test_a_worker_that_cannot_run_python_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    spark = MagicMock()
    spark.sparkContext.master, spark.sparkContext.defaultParallelism = "spark://host:7077", 1
    text = "Job aborted.\nTraceback (most recent call last):\nModuleNotFoundError: No module named 'pyarrow'"
    spark.range().mapInArrow().collect.side_effect = PythonException(text)
    expected = r"^Spark on spark://host:7077 failed: ModuleNotFoundError: .*'pyarrow'; .*spark\.log"
    with pytest.raises(SessionError, match=expected) as raised:
        require_reach(spark, tmp_path)
    assert "\n" not in str(raised.value)


def test_private_parts_of_pyspark_are_used_in_one_module() -> None:
    users = {
        str(path.relative_to(ROOT))
        for package in ("captures", "testbed")
        for path in (ROOT / package).rglob("*.py")
        if "runs" not in path.parts
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in _PRIVATE
    }
    assert users == {"captures/spark/internals.py"}


def test_a_context_that_was_stopped_or_whose_jvm_gives_no_answer_runs_no_job() -> None:
    class _Ending:
        def sc(self) -> None:
            raise Py4JNetworkError("the JVM ends at this moment")

    contexts: list[Any] = [SimpleNamespace(_jsc=jsc) for jsc in (None, _Ending())]
    assert [context_runs(each) for each in contexts] == [False, False]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files of a process that is gone."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path = tmp_path / f"cbcb-spark-jvm-{NO_PROCESS}-abc"
    path.mkdir()
    return path


def test_a_folder_of_a_dead_process_of_this_user_is_removed(folder: Path) -> None:
    (folder / "session").mkdir()
    assert remove_abandoned() == (1, 0)
    assert not folder.exists()


def test_a_folder_whose_owner_died_before_its_last_name_is_removed(folder: Path) -> None:
    folder.rename(folder.with_name(f".{folder.name}"))
    making = folder.with_name(f".cbcb-spark-jvm-{os.getpid()}-abc")
    making.mkdir()
    assert remove_abandoned() == (1, 0)
    assert [*folder.parent.iterdir()] == [making]


def test_a_folder_of_an_older_version_is_left(folder: Path) -> None:
    """Its owner, which may live, locks a file in the folder."""
    older = folder.rename(folder.with_name(f"cbcb-spark-{os.getpid()}-abc"))
    assert remove_abandoned() == (0, 0)
    assert older.is_dir()


def test_a_folder_deeper_than_the_recursion_of_python_fails_nothing(folder: Path) -> None:
    """Up to Python 3.12 it is left; later versions remove folders without recursion."""
    inside = os.open(folder, os.O_DIRECTORY)
    for _ in range(3_000):
        os.mkdir("d", dir_fd=inside)
        below = os.open("d", os.O_DIRECTORY, dir_fd=inside)
        os.close(inside)
        inside = below
    os.close(inside)
    try:
        removed = remove_abandoned()
        assert (removed, folder.exists()) in (((0, 0), True), ((1, 0), False))
    finally:
        subprocess.run(["rm", "-rf", str(folder)], check=True)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder to another user, which needs root")
def test_a_folder_of_another_user_is_left(folder: Path) -> None:
    os.chown(folder, NOBODY, NOBODY)
    assert remove_abandoned() == (0, 0)
    assert folder.exists()


def test_a_link_is_left(folder: Path) -> None:
    target = folder.rename(folder.with_name("target"))
    folder.symlink_to(target)
    assert remove_abandoned() == (0, 0)
    assert target.is_dir()
