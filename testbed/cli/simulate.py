"""`cbcb simulate`: the experiment in virtual time, with the same accounting and report as `cbcb run`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from captures.rundir.layout import accounting
from testbed.cli.arguments import add_engine, add_experiment, add_master, add_runs
from testbed.cli.experiments import load


def add_arguments(parser: ArgumentParser) -> None:
    add_experiment(parser)
    add_runs(parser)
    add_master(parser, "local[2]")
    add_engine(parser)
    parser.add_argument(
        "--captures",
        choices=("all", "links", "none"),
        default="all",
        help="captures to keep: all, those of links between routers, or none (all); the accounting knows of "
        "traffic what they hold",
    )
    parser.add_argument(
        "--no-account",
        action="store_true",
        help="end after the simulation; `cbcb account` does the rest later",
    )


def main(arguments: Namespace) -> int:
    """Returns 0 if the verdict holds, else 1."""
    experiment = load(arguments)
    from rich.console import Console

    from testbed.errors import naming_the_run
    from testbed.sim.simulation import simulate
    from testbed.terminal.progress import Progress

    progress = Progress(Console())
    run_dir = simulate(experiment, arguments.runs, progress, arguments.captures)
    if arguments.no_account:
        progress.note(f"not accounted for: {accounting(run_dir)}")
        return 0
    # Spark, pandas and matplotlib take seconds to load.
    from testbed.conclude import conclude

    with naming_the_run(run_dir):
        return conclude(run_dir, arguments.master, progress, arguments.engine)
