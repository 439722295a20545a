"""Functions that make the folder of a new run and find the folder of a run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from captures.rundir import RunLayout
from testbed.support.errors import FULL, InputError, MachineError, naming_a_full_disk
from testbed.terminal import put

#: The folder of the run folders, unless the user names another.
DEFAULT_RUNS = Path(__file__).resolve().parents[2] / "captures" / "runs"
#: Folders beside the run folders.
_SWEEPS, _REPRODUCTIONS = "sweeps", "reproductions"
#: Table of the runs of a sweep, in its folder.
SWEEP_TABLE = "runs.parquet"


def sweep_folder(runs: Path, name: str) -> Path:
    """The folder of a sweep: its table, its plots, what a resumed sweep needs."""
    return runs / _SWEEPS / name


def reproduction_folder(runs: Path, figure: str) -> Path:
    """The folder of the runs that reproduce a figure of the papers."""
    return runs / _REPRODUCTIONS / figure


@contextmanager
def others_only_read() -> Iterator[None]:
    """Whatever umask the user has, nobody else may write to files that are made inside the block."""
    before = os.umask(0o022)
    os.umask(before | 0o022)
    try:
        yield
    finally:
        os.umask(before)


def check_run_id(run_id: str) -> None:
    """Refuses names of other folders, hidden names, those of options, and what a terminal would obey.

    Raises:
        InputError: it is such a name.
    """
    if run_id in (_SWEEPS, _REPRODUCTIONS) or run_id.startswith(("-", ".")) or not run_id.isprintable():
        raise InputError(f"{run_id!r}: no id of a run; expected a name such as 20260101-120000-ring5")


def new_run_folder(runs: Path, name: str) -> Path:
    """Makes the folder of a new run: `<UTC time>-<experiment>`, with a number if that name is taken.

    Raises:
        InputError: the folder cannot be made.
        MachineError: its file system is full.
    """
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    number = 1
    while True:
        folder = runs / (f"{stamp}-{name}" if number == 1 else f"{stamp}-{name}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            number += 1
            continue
        except OSError as error:
            kind = MachineError if error.errno in FULL else InputError
            raise kind(f"cannot make the run folder {folder}: {error.strerror}") from error
        run = RunLayout(folder)
        with naming_a_full_disk(folder):
            for part in (run.captures_folder, run.logs_folder, run.counters_folder):
                part.mkdir()
        return folder


def find_run(runs: Path, run: str | None) -> Path:
    """Returns the run folder that `run` names: a path, an id under `runs`, or None for the newest.

    The newest is the last by name, whatever became of it; its path is printed to standard error.

    Raises:
        InputError: no such run folder exists.
        OSError: the run folder is in a folder that may not be read, or its name is too long.
    """
    if run is None:
        folders: list[Path] = []
        # Not by glob(), which treats a folder that may not be read as empty.
        with suppress(FileNotFoundError, NotADirectoryError):
            folders = list(runs.iterdir())
        newest = max((each for each in folders if RunLayout(each).manifest.is_file()), default=None)
        if newest is None:
            raise InputError(f"no runs in {runs}; `cbcb run` makes one")
        put(f"cbcb: {newest}: the newest run", file=sys.stderr)
        return newest
    for folder in (Path(run), runs / run):
        if RunLayout(folder).manifest.is_file():
            return folder
    name = RunLayout(Path()).manifest
    raise InputError(f"{run}: not a run folder (expected a path or an id under {runs} with a {name})")
