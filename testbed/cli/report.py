"""`cbcb report`: the report of a run again, from its summary and Parquet tables."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from captures.rundir.layout import RunLayout
from testbed.cli.arguments import add_run
from testbed.errors import InputError
from testbed.runs.folders import find_run


def add_arguments(parser: ArgumentParser) -> None:
    add_run(parser)


def main(arguments: Namespace) -> int:
    """Writes the report and prints its path."""
    # pandas and matplotlib take a second to load.
    from captures.tables import store
    from testbed.report.render import write_report

    run_dir = find_run(arguments.runs, arguments.run)
    summary = RunLayout(run_dir).summary
    if not summary.is_file():
        raise InputError(f"{run_dir}: has no {summary.name}; {store.remedy(run_dir)}")
    if (wrong := store.lacking(run_dir, ())) is not None:
        raise InputError(wrong)
    print(write_report(run_dir))
    return 0
