"""`cbcb report`: the report of a run again, from its summary and Parquet tables."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from captures.rundir.layout import RunLayout
from testbed.cli.arguments import add_run, add_style
from testbed.errors import InputError
from testbed.runs.folders import find_run
from testbed.terminal.printable import put


def add_arguments(parser: ArgumentParser) -> None:
    add_run(parser)
    add_style(parser, None, "write the figures as PDF in this style, in place of the page")


def main(arguments: Namespace) -> int:
    """Writes the report, or its figures in a style, and prints the paths."""
    # pandas and matplotlib take a second to load.
    from captures.tables import store
    from testbed.report.render import write_figures, write_report

    run_dir = find_run(arguments.runs, arguments.run)
    summary = RunLayout(run_dir).summary
    if not summary.is_file():
        raise InputError(f"{run_dir}: has no {summary.name}; {store.remedy(run_dir)}")
    if (wrong := store.lacking(run_dir, ())) is not None:
        raise InputError(wrong)
    if arguments.style is None:
        put(write_report(run_dir))
    else:
        put("\n".join(map(str, write_figures(run_dir, arguments.style))))
    return 0
