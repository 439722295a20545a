"""This machine: what it can do, and what is left on it."""

from __future__ import annotations

import os
from argparse import Namespace

from rich.console import Console
from rich.table import Table
from rich.text import Text

from captures.spark.folder import remove_abandoned
from testbed.emulation.network.cleanup import clean_dead_runs
from testbed.machine.checks import check_machine, compiled_code
from testbed.support.errors import MachineError, RunError
from testbed.support.run_state import live_runs
from testbed.terminal import put


def doctor_command(_arguments: Namespace) -> int:
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


def clean_command(_arguments: Namespace) -> None:
    """Prints what was removed and which live runs were left alone."""
    if os.geteuid() != 0:
        raise MachineError("rights: user id is not 0; run it as root: `sudo ./run.sh clean`")
    cleaned = clean_dead_runs()
    folders, processes = remove_abandoned()
    if cleaned.tags:
        put(f"removed what {len(cleaned.tags)} dead runs left ({cleaned.processes} processes)")
    if folders:
        put(f"removed {folders} temporary folders of Spark's ({processes} processes)")
    if not cleaned.tags and not folders and not cleaned.failures:
        put("nothing to clean")
    for state in live_runs():
        put(f"left alone: run {state.tag}, alive (process {state.owner.pid}, {state.run_dir})")
    if cleaned.failures:
        raise RunError("not everything could be removed: " + "; ".join(cleaned.failures))
