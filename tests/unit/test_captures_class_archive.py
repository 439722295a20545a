"""When an archive of classes is made, used, and left alone."""

from __future__ import annotations

import atexit
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from captures import class_archive

GIVEN = "-XX:+UseSerialGC"

pytestmark = pytest.mark.skipif(shutil.which("java") is None, reason="needs Java")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setenv(class_archive.VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def at_exit(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What is registered for the end of the process."""
    registered: list[tuple[Any, ...]] = []

    def register(function: Callable[..., None], *arguments: Any) -> None:
        registered.append((function, *arguments))

    monkeypatch.setattr(atexit, "register", register)
    return registered


def test_missing_archive_is_made_and_a_present_one_used(folder: Path, at_exit: list[tuple[Any, ...]]) -> None:
    made = class_archive.options(GIVEN)
    ((_, part, archive),) = at_exit
    assert made == f"{GIVEN} -Xlog:disable -XX:ArchiveClassesAtExit={part}"
    assert (part.parent, archive.parent, archive.suffix) == (folder, folder, ".jsa")
    assert part.name.endswith(f".{os.getpid()}")
    archive.write_bytes(b"classes")
    assert class_archive.options(GIVEN) == f"{GIVEN} -Xlog:disable -XX:SharedArchiveFile={archive}"
    assert len(at_exit) == 1


def test_other_options_and_other_jars_need_another_archive(
    folder: Path, at_exit: list[tuple[Any, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jars = tmp_path / "spark" / "jars"
    jars.mkdir(parents=True)
    monkeypatch.setenv("SPARK_HOME", str(jars.parent))
    for content in ("one", "other"):
        (jars / "a.jar").write_text(content)
        class_archive.options(GIVEN)
        class_archive.options(f"{GIVEN} -Xmx2g")
    assert len({archive for _, _, archive in at_exit}) == 4
    assert folder.is_dir()


@pytest.mark.parametrize("setting", ["0", "/proc/no/such/place", "/tmp/with space"])
def test_options_stay_where_there_can_be_no_archive(
    folder: Path, at_exit: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    monkeypatch.setenv(class_archive.VARIABLE, setting)
    assert class_archive.options(GIVEN) == GIVEN
    assert not at_exit
    assert not folder.exists()
