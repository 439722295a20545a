"""Where nothing can be compiled, the counting engine serves; where machine code is kept."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from router.matching.compiled import compiler
from router.matching.counting import CountingMatcher
from router.matching.factory import factory, serving, why_not_compiled

_WITHOUT_NUMBA = """
import sys
sys.modules["numba"] = None
from router.matching.factory import factory, serving, why_not_compiled
print(type(factory()).__name__, serving(), serving("naive"), why_not_compiled(), sep="|")
"""


def test_without_numba_the_counting_engine_serves_and_says_why() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_NUMBA], check=True, capture_output=True, text=True
    ).stdout.strip()
    engine, default, naive, reason = done.split("|")
    assert (engine, default, naive) == (CountingMatcher.__name__, "counting", "naive")
    assert reason.startswith("ModuleNotFoundError: ")
    assert "numba" in reason


def test_with_numba_the_compiled_engine_serves() -> None:
    assert why_not_compiled() is None
    assert serving() == "compiled"
    assert type(factory()).__name__ == "CompiledMatcher"


def test_machine_code_is_kept_where_nobody_else_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_to_all, own = tmp_path / "open", tmp_path / "own"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    not_a_folder = tmp_path / "file"
    not_a_folder.touch()
    monkeypatch.setattr(compiler, "_rooms", lambda: iter([not_a_folder, open_to_all, own]))
    compiler.code_directory.cache_clear()
    try:
        chosen = compiler.code_directory()
        assert chosen.parent == own
        for number in range(9):
            (own / f"old{number}").mkdir()
        compiler.code_directory.cache_clear()
        assert compiler.code_directory() == chosen
        assert len(list(own.iterdir())) < 9, "old versions are removed"
    finally:
        compiler.code_directory.cache_clear()


def test_machine_code_is_made_anew_when_a_source_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "compiler.py"
    source.write_text("# one")
    monkeypatch.setattr(compiler, "__file__", str(source))
    first = compiler._version()
    source.write_text("# two")
    second = compiler._version()
    assert second != first
    # Numbers of the model and of the wire format stand in the machine code.
    monkeypatch.setattr(compiler, "_CONSTANTS", ())
    assert compiler._version() != second


def test_machine_code_that_nobody_can_keep_is_removed_with_its_process(tmp_path: Path) -> None:
    program = (
        "from router.matching.compiled import compiler\n"
        "compiler._rooms = lambda: iter(())\n"
        "assert compiler.code_directory().is_dir()"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "TMPDIR": str(tmp_path)})
    assert not list(tmp_path.iterdir())
