"""The words of a worker that does not reach a run folder."""

from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from pyspark.errors import PythonException

from captures.spark.reach import _digest, _problem, require_reach
from captures.spark.session import SessionError


def test_a_worker_names_what_it_does_not_reach(tmp_path: Path) -> None:
    manifest = tmp_path / "manifest.json"
    manifest.write_text("{}")
    expected = _digest(manifest)
    assert _problem(manifest, expected, tmp_path) == ""
    manifest.write_text('{"seed": 2}')
    assert _problem(manifest, expected, None) == f"has another file {manifest}"
    manifest.unlink()
    assert _problem(manifest, expected, None) == f"cannot read {manifest} (No such file or directory)"


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = tmp_path / "manifest.json"
    manifest.write_text("{}")
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert _problem(manifest, _digest(manifest), tmp_path) == f"cannot write into {tmp_path}"


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
