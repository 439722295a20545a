"""The words of a worker that does not reach a run folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from captures.spark.reach import _digest, _problem


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
