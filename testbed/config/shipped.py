"""The experiment files that come with the testbed (`testbed/experiments`)."""

from __future__ import annotations

from pathlib import Path

from testbed.errors import InputError
from topos.suggest import unknown

_FOLDER = Path(__file__).resolve().parent.parent / "experiments"


def list_experiments() -> dict[str, Path]:
    """The shipped experiment files, by name, sorted."""
    return {path.stem: path for path in sorted(_FOLDER.glob("*.toml"))}


def find_experiment(name_or_path: str) -> Path:
    """The file of this path, or else the shipped experiment of this name.

    Raises:
        InputError: there is neither.
        OSError: the path may not be looked up, or its name is too long.
    """
    path = Path(name_or_path)
    if path.is_file():
        return path
    shipped = list_experiments()
    if name_or_path in shipped:
        return shipped[name_or_path]
    if path.is_dir():
        raise InputError(f"{name_or_path}: is a folder; expected an experiment file")
    if path.suffix == ".toml" or len(path.parts) > 1:
        raise InputError(f"{name_or_path}: no such file")
    raise InputError(f"{name_or_path}: no such file; {unknown('experiment', name_or_path, shipped)}")
