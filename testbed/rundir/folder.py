"""The run folder: its name, its files, and the manifest."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from testbed.errors import InputError, MachineError
from testbed.full_disk import FULL, is_file, naming_a_full_disk

RECORDING_SUFFIX = ".rec"
#: Where runs go unless told otherwise.
DEFAULT_RUNS = Path(__file__).resolve().parents[2] / "captures" / "runs"


def new_run_folder(runs: Path, name: str) -> Path:
    """Makes the folder of a new run: `<UTC time>-<experiment>`, with a number if that is taken.

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
        with naming_a_full_disk(folder):
            for part in ("pcap", "logs", "counters"):
                (folder / part).mkdir()
        return folder


def find_run(runs: Path, wanted: str | None) -> Path:
    """The run folder that `wanted` names: a path, an id under `runs`, or None for the newest.

    Raises:
        InputError: there is none.
        PermissionError: it is in a folder that may not be read.
    """
    if wanted is None:
        # Not by glob(), to which a folder that may not be read is an empty one.
        folders = sorted(runs.iterdir(), reverse=True) if runs.is_dir() else []
        for folder in folders:
            if (folder / "manifest.json").is_file():
                return folder
        raise InputError(f"no runs in {runs}; `cbcb run` makes one")
    for folder in (Path(wanted), runs / wanted):
        if is_file(folder / "manifest.json"):
            return folder
    raise InputError(
        f"{wanted}: not a run folder (expected a path or an id under {runs} with a manifest.json)"
    )


def recording_path(run_dir: Path, node: int) -> Path:
    """Where the router of `node` records what it is given and answers."""
    return run_dir / "recordings" / f"r{node}{RECORDING_SUFFIX}"


def read_object(path: Path) -> dict[str, Any]:
    """Reads a file of a run that holds one JSON object.

    Raises:
        InputError: it is missing, cannot be read, or holds something else.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"{path}: missing; was the emulation interrupted, or does it still run?") from error
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; expected a file of a run") from error
    except ValueError as error:
        raise InputError(f"{path}: expected JSON: {error}") from error
    if not isinstance(value, dict):
        raise InputError(f"{path}: expected a JSON object")
    return value


def write_json(path: Path, value: Any) -> None:
    """Writes JSON whole or not at all."""
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)


def manifest(
    experiment: str, seed: int, time_scale: float, datapath: str, versions: dict[str, str]
) -> dict[str, Any]:
    """What a reader needs to know in order to repeat the run.

    `started_ns` is the wall clock (ns since 1970); `versions` are those of Python packages and system tools.
    """
    return {
        "experiment": experiment,
        "seed": seed,
        "time_scale": time_scale,
        "datapath": datapath,
        "started_ns": time.time_ns(),
        "command": sys.argv,
        "kernel": platform.release(),
        "system": _system(),
        "cpus": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "versions": {"python": platform.python_version(), **versions},
    }


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()
