"""`cbcb simulate`: the experiment in virtual time, with the same accounting and report as `cbcb run`."""

from __future__ import annotations

from argparse import Namespace

from rich.console import Console

from captures.tables.store import accounting
from testbed.cli.experiments import load
from testbed.conclude import account_and_report
from testbed.sim.simulation import simulate
from testbed.terminal.progress import Progress


def main(arguments: Namespace) -> int:
    """Returns 0 if the verdict holds, else 1."""
    experiment = load(arguments)
    console = Console()
    progress = Progress(console)
    run_dir = simulate(experiment, arguments.runs, progress, arguments.captures)
    if arguments.no_account:
        progress.note(f"not accounted for: {accounting(run_dir)}")
        return 0
    return account_and_report(run_dir, arguments.master, progress, console)
