"""`cbcb export`: a run in one file, for `cbcb import` elsewhere."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from rich.console import Console

from testbed.cli.arguments import add_run
from testbed.runs.archive import SUFFIX, export_run
from testbed.runs.folders import find_run
from testbed.terminal.printable import foreign, put


def add_arguments(parser: ArgumentParser) -> None:
    add_run(parser)
    parser.add_argument(
        "--output", "-o", type=Path, metavar="FILE", help=f"the archive (RUN{SUFFIX} in this folder)"
    )


def main(arguments: Namespace) -> int:
    """Prints the path of the archive."""
    run_dir = find_run(arguments.runs, arguments.run).resolve()
    archive = arguments.output or Path(run_dir.name + SUFFIX)
    with Console(stderr=True).status("") as status:
        export_run(run_dir, archive, lambda name: status.update(foreign(name)))
    put(archive)
    return 0
