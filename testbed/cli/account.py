"""`cbcb account`: the accounting of a run again, from its captures and logs."""

from __future__ import annotations

from argparse import Namespace

from rich.console import Console

from testbed.conclude import account_and_report
from testbed.runs.folders import find_run
from testbed.terminal.progress import Progress


def main(arguments: Namespace) -> int:
    """Accounts, writes the report, prints the summary. Returns 0 if the verdict holds, else 1."""
    run_dir = find_run(arguments.runs, arguments.run)
    console = Console()
    return account_and_report(run_dir, arguments.master, Progress(console), console)
