"""`cbcb import`: unpacks a run that `cbcb export` has written."""

# ruff: noqa: N999 - the name of a module is that of its command

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from rich.console import Console

from testbed.cli.arguments import add_runs
from testbed.runs.archive import import_run
from testbed.terminal.printable import foreign, put


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("archive", type=Path, help="a file that cbcb export has written")
    add_runs(parser)


def main(arguments: Namespace) -> int:
    """Prints the path of the run folder."""
    with Console(stderr=True).status("") as status:
        run_dir, equal = import_run(
            arguments.archive,
            arguments.runs,
            lambda size: put(f"cbcb: {arguments.archive}: {size}", file=sys.stderr),
            lambda name: status.update(foreign(name)),
        )
    if not equal:
        put(
            "cbcb: other versions of packages made this run; the archive has their lock file", file=sys.stderr
        )
    put(run_dir)
    return 0
