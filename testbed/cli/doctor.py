"""`cbcb doctor`: what this machine can do, and how to mend what it cannot."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from rich.console import Console
from rich.table import Table
from rich.text import Text

from testbed.machine.checks import check_machine, compiled_code


def add_arguments(_parser: ArgumentParser) -> None:
    """Takes none."""


def main(_arguments: Namespace) -> int:
    """Prints one line a finding.

    Returns 3 if something is missing that `cbcb run` needs.
    """
    checks = [*check_machine(), compiled_code()]
    table = Table(box=None, pad_edge=False, show_header=False)
    for check in checks:
        mark = "[green]ok[/]" if check.ok else "[red]missing[/]" if check.required else "[yellow]not here[/]"
        table.add_row(mark, check.name, Text(check.detail, overflow="fold"))
        if not check.ok:
            mend = Text.assemble(("to mend:", "dim"), f" {check.mend}")
            mend.overflow = "fold"
            table.add_row("", "", mend)
    Console().print(table)
    return 3 if any(check.required and not check.ok for check in checks) else 0
