"""Machine code: when it is recompiled, where it is kept, and that of modules in zip files."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import zipfile
from importlib import import_module
from pathlib import Path

import pytest

from captures.pcap.compiling import compiler as captures_compiler
from router import native
from router.matching.compiled import COMPILER
from router.native import Compiler

_MODULE = """
from router.native import Compiler
from {package}.numbers import ADDEND
COMPILER = Compiler("test", "{package}.*", "{package}.inner.other")

@COMPILER.kernel
def added(number):
    return number + ADDEND
"""
_ASK = """
from router import native
from pathlib import Path
native._rooms = lambda: iter([Path({room!r})])
from {package}.loops import COMPILER, added
before = COMPILER.has_code
print(added(1), int(before), sum(added.stats.cache_hits.values()))
"""


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    room = tmp_path / "room"
    monkeypatch.setattr(native, "_rooms", lambda: iter([room]))
    return room


@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_machine_code_is_kept_where_nobody_else_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    open_to_all, own = tmp_path / "open", tmp_path / "own"
    open_to_all.mkdir()
    open_to_all.chmod(mode)
    not_a_folder = tmp_path / "file"
    not_a_folder.touch()
    monkeypatch.setattr(native, "_rooms", lambda: iter([not_a_folder, open_to_all, own]))
    before = os.umask(0o002)
    try:
        assert Compiler("test").code_directory.parent == own
    finally:
        os.umask(before)
    assert own.stat().st_mode & 0o777 == 0o700


def test_old_versions_are_removed_but_for_the_last_few(room: Path) -> None:
    for number in range(9):
        (room / f"test-old{number}").mkdir(parents=True)
        os.utime(room / f"test-old{number}", (number, number))
    (room / "other-old").mkdir()
    current = Compiler("test").code_directory
    kept = {path.name for path in room.iterdir()}
    assert kept == {current.name, "other-old", *(f"test-old{number}" for number in range(5, 9))}
    assert Compiler("test").code_directory == current


def _package(folder: Path, addend: int) -> str:
    """A package with a compiled function, which has a number from another of its modules."""
    package = "native_sample"
    (folder / package / "inner").mkdir(parents=True, exist_ok=True)
    (folder / package / "__init__.py").touch()
    (folder / package / "inner" / "__init__.py").touch()
    (folder / package / "inner" / "other.py").touch()
    (folder / package / "numbers.py").write_text(f"ADDEND = {addend}\n")
    (folder / package / "loops.py").write_text(_MODULE.format(package=package))
    return package


def _ask(path: Path, package: str, room: Path) -> list[int]:
    """Returns a new process's result for 1, whether machine code existed before, and its number of cache
    hits."""
    environment = {**os.environ, "PYTHONPATH": f"{path}:{Path(native.__file__).parents[1]}"}
    program = _ASK.format(package=package, room=str(room))
    printed = subprocess.check_output([sys.executable, "-B", "-c", program], env=environment)
    return [int(word) for word in printed.split()]


def test_machine_code_is_recompiled_when_a_number_of_another_module_changes(tmp_path: Path) -> None:
    room = tmp_path / "room"
    package = _package(tmp_path / "source", 1)
    assert _ask(tmp_path / "source", package, room) == [2, 0, 0]
    assert _ask(tmp_path / "source", package, room) == [2, 1, 1]
    _package(tmp_path / "source", 41)
    assert _ask(tmp_path / "source", package, room) == [42, 0, 0]


def test_zip_files_with_the_same_modules_share_machine_code(tmp_path: Path) -> None:
    room = tmp_path / "room"
    package = _package(tmp_path / "source", 1)
    answers = []
    for session in ("one", "two"):
        archive = tmp_path / session / "shipped.zip"
        archive.parent.mkdir()
        with zipfile.ZipFile(archive, "w") as file:
            for path in sorted((tmp_path / "source").rglob("*.py")):
                file.write(path, str(path.relative_to(tmp_path / "source")))
        answers.append(_ask(archive, package, room))
    assert answers == [[2, 0, 0], [2, 1, 1]]


@pytest.mark.parametrize("used", [COMPILER, captures_compiler()], ids=["matching", "captures"])
def test_what_compiled_modules_take_from_the_model_and_the_wire_format_is_a_source(used: Compiler) -> None:
    for module in used.sources:
        tree = ast.parse(Path(str(import_module(module).__file__)).read_text())
        taken = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
        if not module.startswith(("router.predicates", "router.wire")):
            numbers = {name for name in taken if name.startswith(("router.predicates", "router.wire"))}
            assert numbers <= set(used.sources), module


def test_what_cannot_be_kept_is_removed_with_its_process(tmp_path: Path) -> None:
    program = (
        "from router import native\n"
        "native._rooms = lambda: iter(())\n"
        "assert native.Compiler('test').code_directory.is_dir()"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "TMPDIR": str(tmp_path)})
    assert not list(tmp_path.iterdir())


def test_a_source_that_is_not_there_is_named() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"router\.no_such_module"):
        Compiler("test", "router.no_such_module")
