"""The experiment files that come with the testbed (`testbed/experiments/shipped`)."""

from __future__ import annotations

import atexit
from contextlib import ExitStack
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from pathlib import Path

from testbed.support.errors import InputError
from topos.model import unknown

#: Files that were taken out of an archive: a worker of a cluster imports the testbed from one.
_unpacked = ExitStack()
atexit.register(_unpacked.close)


def list_experiments() -> dict[str, Path]:
    """The shipped experiment files, by name, sorted."""
    return {name: _path(entry) for name, entry in _shipped().items()}


def find_experiment(name_or_path: str) -> Path:
    """The file of this path, or else the shipped experiment of this name.

    Raises:
        InputError: there is neither.
        OSError: the path may not be looked up, or its name is too long.
    """
    path = Path(name_or_path)
    if path.is_file():
        return path
    shipped = _shipped()
    if name_or_path in shipped:
        return _path(shipped[name_or_path])
    if path.is_dir():
        raise InputError(f"{name_or_path}: is a folder; expected an experiment file")
    if path.suffix == ".toml" or len(path.parts) > 1:
        raise InputError(f"{name_or_path}: no such file")
    raise InputError(f"{name_or_path}: no such file; {unknown('experiment', name_or_path, shipped)}")


def _shipped() -> dict[str, Traversable]:
    entries = {Path(entry.name): entry for entry in (files("testbed.experiments") / "shipped").iterdir()}
    return {name.stem: entries[name] for name in sorted(entries) if name.suffix == ".toml"}


def _path(entry: Traversable) -> Path:
    return entry if isinstance(entry, Path) else _unpacked.enter_context(as_file(entry))
