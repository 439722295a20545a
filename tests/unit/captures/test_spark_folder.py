"""The folders of Spark's temporary files that `cbcb clean` removes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from captures.spark.folder import remove_abandoned

#: Larger than any process id of Linux.
NO_PROCESS = 2**22 + 1
NOBODY = 65_534


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
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
