"""`cbcb attack`: what a router without the key learns from the frames of a private run."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path

from testbed.cli.arguments import add_run
from testbed.errors import InputError
from testbed.runs.folders import find_run
from testbed.terminal.printable import put


def add_arguments(parser: ArgumentParser) -> None:
    add_run(parser)
    parser.add_argument(
        "--key-file", type=Path, metavar="FILE", help="key of the run, to count what is right (RUN/keys.json)"
    )
    parser.add_argument(
        "--attack", action="append", default=[], metavar="NAME", help="only this attack: A1 to A5 (all)"
    )
    parser.add_argument("--json", action="store_true", help="an object a line")


def main(arguments: Namespace) -> int:
    """Prints the share that each attack identifies, beside a guess that sees no frame.

    Returns 0.
    """
    from captures.rundir.layout import RunLayout
    from testbed.attacks.model import ATTACKS
    from testbed.attacks.run import attack_run

    for name in arguments.attack:
        if name not in ATTACKS:
            raise InputError(f"--attack {name}: expected one of {', '.join(ATTACKS)}")
    names = arguments.attack or list(ATTACKS)
    run = find_run(arguments.runs, arguments.run)
    found = attack_run(RunLayout(run), arguments.key_file, names)
    if arguments.json:
        for name, count, outcome in found.outcomes:
            row = {
                "attack": name,
                "messages": count,
                "targets": outcome.targets,
                "right": outcome.right,
                "share": outcome.share,
                "baseline": outcome.baseline,
            }
            put(json.dumps(row))
        return 0
    from rich.console import Console
    from rich.table import Table

    frames = ", ".join(f"{count:,} {name}" for name, count in sorted(found.frames.items()))
    put(
        f"{run.name}: {frames} captured: {found.messages:,} messages, {found.filters:,} filters"
        + (f"; the key does not open {found.unread:,} messages" if found.unread else "")
    )
    table = Table("attack", "messages seen", "identified", "share", "a guess", "of")
    for name, count, outcome in found.outcomes:
        table.add_row(
            name,
            f"{count:,}",
            f"{outcome.right:,} of {outcome.targets:,}",
            f"{100 * outcome.share:.2f} %",
            f"{100 * outcome.baseline:.2f} %",
            ATTACKS[name].target,
        )
    Console().print(table)
    for name in names:
        put(f"{name}: {ATTACKS.docs[name]}")
    return 0
