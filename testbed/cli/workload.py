"""`cbcb workload`: synthetic workloads in files.

`match` makes a forwarding table and messages to it, `generate` the workload of an experiment.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from rich.console import Console

from testbed.cli import workload_arguments
from testbed.cli.arguments import add_experiment
from testbed.cli.experiments import load
from testbed.errors import InputError
from testbed.siena_ff.files import write_driver, write_json
from testbed.siena_ff.generate import draw_messages, draw_table
from testbed.siena_ff.parameters import MatchingWorkload
from testbed.terminal.progress import Progress
from testbed.workload.generate import generate
from testbed.workload.script import left_out, write_script

_WRITERS = {"driver": write_driver, "jsonl": write_json}


def add_arguments(parser: ArgumentParser) -> None:
    workloads = parser.add_subparsers(dest="workload", required=True, metavar="KIND")
    text = "generate a forwarding table and messages, to measure matching with"
    matching = workloads.add_parser("match", help=text, description=text[0].upper() + text[1:] + ".")
    workload_arguments.add_arguments(matching)
    text = "write topology and workload of an experiment as a file of the protocol authors' simulator"
    generating = workloads.add_parser("generate", help=text, description=text[0].upper() + text[1:] + ".")
    add_experiment(generating)
    generating.add_argument(
        "-o", "--output", default="-", metavar="FILE", help="where to write (-, standard output)"
    )


def main(arguments: Namespace) -> int:
    """Writes the workload."""
    return _generate(arguments) if arguments.workload == "generate" else _match(arguments)


def _generate(arguments: Namespace) -> int:
    experiment = load(arguments)
    progress = Progress(Console(stderr=True))
    for each in left_out(experiment):
        progress.note(f"left out, since the file has no place for it: {each}")
    with _output(arguments.output) as out:
        write_script(experiment.topology, experiment.duration_s, generate(experiment).items, out)
    return 0


def _match(arguments: Namespace) -> int:
    fields = MatchingWorkload.__dataclass_fields__
    workload = MatchingWorkload(**{name: getattr(arguments, name) for name in fields})
    progress = Progress(Console(stderr=True, quiet=arguments.output == "-" and not sys.stderr.isatty()))
    with progress.stage("draw", f"drawing {workload.constraints:,} constraints"):
        table = draw_table(workload)
    total = len(table.interface) + workload.messages
    with (
        _output(arguments.output) as out,
        progress.stage(
            "write", f"writing {len(table.interface):,} filters and {workload.messages:,} messages"
        ),
    ):
        _WRITERS[arguments.format](
            table, draw_messages(workload), out, lambda done: progress.update(f"{done / total:.0%}")
        )
    return 0


@contextmanager
def _output(name: str) -> Iterator[TextIO]:
    if name == "-":
        yield sys.stdout
        return
    try:
        with Path(name).open("w", encoding="utf-8") as out:
            yield out
    except OSError as error:
        raise InputError(f"{name}: {error.strerror}") from error
