"""This machine: what it can do, what is left on it, and its Wireshark."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from captures.spark.folder import remove_abandoned
from testbed.cli.wireshark import (
    PROFILE,
    Installation,
    act_as_caller,
    folders,
    read_sources,
    why_not_for_root,
)
from testbed.emulation.network.cleanup import clean_dead_runs
from testbed.machine.checks import check_machine, compiled_code
from testbed.support.errors import InputError, MachineError, RunError
from testbed.support.run_state import live_runs
from testbed.terminal import put
from topos import TopologyError
from topos.loaders import load


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


def wireshark_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "action", choices=["install", "uninstall"], help="into your personal folders, or from them"
    )
    parser.add_argument("--print", action="store_true", help="only say where, and what is there")
    parser.add_argument(
        "--force", action="store_true", help="also overwrite or remove files of other content"
    )
    parser.add_argument(
        "--topology",
        type=Path,
        metavar="FILE",
        help="also show the names of the nodes of this topology, such as topology.json of a run folder",
    )


def wireshark_command(arguments: Namespace) -> None:
    """Installs, or as the options say, removes or prints."""
    topology = None
    if arguments.topology is not None:
        try:
            topology = load(arguments.topology)
        except TopologyError as error:
            raise InputError(f"--topology: {error}") from error
    sources = read_sources(topology)  # perhaps with rights that are given up next
    act_as_caller()
    installation = Installation.of(sources, folders())
    remove = arguments.action == "uninstall"
    if arguments.print:
        for target, content in installation.files.items():
            if content is not None:
                put(f"{installation.state(target):9} {target}")
        return
    verb = "remove" if remove else "overwrite"
    done = installation.bring(lambda target: _may(arguments, target, verb), remove=remove)
    for target, what in done.items():
        put(f"{what:9} {target}")
    kept = [target for target, what in done.items() if what == "kept"]
    if kept:
        raise InputError(f"of other content, and kept: {', '.join(map(str, kept))}; --force {verb}s them")
    if remove:
        put("removed" if done else "nothing was installed")
    elif (reason := why_not_for_root()) is not None:
        put(f"note: {reason}", file=sys.stderr)
    else:
        put(f"Wireshark shows CBCB frames; colours, columns and filter buttons: wireshark -C {PROFILE}")


def _may(arguments: Namespace, target: Path, what: str) -> bool:
    if arguments.force:
        return True
    if not sys.stdin.isatty():
        return False
    try:
        answer = input(f"{target} has other content than ours; {what} it? [y/N] ")
    except EOFError:
        put()
        return False
    return answer.strip().lower() in ("y", "yes")
