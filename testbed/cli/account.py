"""`cbcb account`: the accounting of a run again, from its captures and logs."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from testbed.cli.arguments import add_engine, add_master, add_run
from testbed.runs.folders import find_run


def add_arguments(parser: ArgumentParser) -> None:
    add_run(parser)
    add_master(parser, "local[2]")
    add_engine(parser)


def main(arguments: Namespace) -> int:
    """Accounts, writes the report, prints the summary.

    Returns 0 if the verdict holds, else 1.
    """
    run_dir = find_run(arguments.runs, arguments.run)
    # Spark, pandas and matplotlib take seconds to load.
    from rich.console import Console

    from testbed.conclude import conclude
    from testbed.terminal.progress import Progress

    return conclude(run_dir, arguments.master, Progress(Console()), arguments.engine)
