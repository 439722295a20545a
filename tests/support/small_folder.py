"""Runs `cbcb` with a small file system of its own for a folder of the run folder.

`python -m tests.support.small_folder FOLDER MIB COMMAND ARGS` runs `cbcb COMMAND ARGS`. FOLDER is a name in
the run folder, such as `pcap`; the file system has MIB mebibytes, and is mounted when the run makes the
folder. `fill` leaves it without room.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from testbed.cli.main import main
from testbed.emulation.run import emulation
from testbed.results.folders import new_run_folder


def fill(folder: Path) -> Path:
    """Fills the file system of a folder with a file, which it returns."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
        while True:
            file.write(bytes(4096))
    return ballast


if __name__ == "__main__":
    part, mebibytes, *command = sys.argv[1:]

    def on_a_small_disk(runs: Path, name: str) -> Path:
        folder = new_run_folder(runs, name)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", str(folder / part)]
        subprocess.run(mount, check=True)
        return folder

    vars(emulation)[new_run_folder.__name__] = on_a_small_disk
    sys.exit(main(command))
