"""`cbcb live`: watches a run, one that goes on or one that is over, in the terminal and on a page."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from testbed.cli.arguments import add_port, add_run
from testbed.runs.folders import find_run


def add_arguments(parser: ArgumentParser) -> None:
    add_run(parser)
    add_port(parser, "--port")
    parser.add_argument("--until-end", action="store_true", help="end with the run, not only with Ctrl-C")


def main(arguments: Namespace) -> int:
    """Returns 0 when the run is over, with --until-end; otherwise only Ctrl-C ends it."""
    run_dir = find_run(arguments.runs, arguments.run)
    from testbed.live.view import display

    display(run_dir, arguments.port, arguments.until_end)
    return 0
