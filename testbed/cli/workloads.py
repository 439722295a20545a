"""Matching and synthetic workloads in files."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import TextIO

from rich.console import Console

from router.matching.engines import COMPILED, DEFAULT, ENGINES
from router.options import options_of
from testbed.cli.arguments import add_all, add_experiment, load
from testbed.experiments.siena_ff.generate import MatchingWorkload, draw_messages, draw_table, write_driver
from testbed.experiments.siena_ff.reader import read_chunks
from testbed.experiments.siena_ff.session import Session
from testbed.experiments.workload.generate import generate
from testbed.experiments.workload.script import left_out, write_script
from testbed.support.errors import InputError, reading
from testbed.terminal import put
from testbed.terminal.progress import Progress


def match_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", default="-", help="the statements; - is standard input (-)")
    parser.add_argument(
        "--engine",
        default=DEFAULT,
        metavar="NAME",
        help=f"{', '.join(sorted(ENGINES))} ({DEFAULT})",
    )
    parser.add_argument(
        "--stats", action="store_true", help="the table's size, build and time per message, to standard error"
    )


def match_command(arguments: Namespace) -> None:
    """Prints a line for each `select`; a fault in the file is an InputError (exit status 2)."""
    if arguments.engine == COMPILED:
        from router.matching.compiled import COMPILER

        if not COMPILER.has_code:
            put("cbcb: compiling the matching engine, once: some ten seconds", file=sys.stderr)
    with reading("--engine"):
        session = Session(arguments.engine, sys.stdout)
    if arguments.file == "-":
        session.run(read_chunks(sys.stdin.buffer, "standard input"), "standard input")
    else:
        try:
            with Path(arguments.file).open("rb") as stream:
                session.run(read_chunks(stream, arguments.file), arguments.file)
        except OSError as error:
            if error.filename is None:
                raise
            raise InputError(f"{arguments.file}: {error.strerror}") from error
    if arguments.stats:
        put(session.statistics(), file=sys.stderr)


def add_matching(parser: ArgumentParser) -> None:
    add_all(parser, options_of(MatchingWorkload))


def workload_arguments(parser: ArgumentParser) -> None:
    workloads = parser.add_subparsers(dest="workload", required=True, metavar="KIND")
    for kind, add, text in (
        ("match", add_matching, "generate a forwarding table and messages, to measure matching with"),
        (
            *("generate", add_experiment),
            "write topology and workload of an experiment as a file of the protocol authors' simulator",
        ),
    ):
        own = workloads.add_parser(kind, help=text, description=text[0].upper() + text[1:] + ".")
        add(own)
        own.add_argument(
            "-o", "--output", default="-", metavar="FILE", help="where to write (-, standard output)"
        )


def workload_command(arguments: Namespace) -> None:
    (_generate if arguments.workload == "generate" else _match)(arguments)


def _generate(arguments: Namespace) -> None:
    experiment = load(arguments)
    progress = Progress(Console(stderr=True))
    for each in left_out(experiment):
        progress.note(f"left out, since the file has no place for it: {each}")
    # An item without a form is found late: half a workload would pass for a whole one.
    text = StringIO()
    write_script(experiment.topology, experiment.duration_s, generate(experiment).items, text)
    with _output(arguments.output) as out:
        out.write(text.getvalue())


def _match(arguments: Namespace) -> None:
    workload = MatchingWorkload(
        **{each.key: vars(arguments)[each.key] for each in options_of(MatchingWorkload)}
    )
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
        messages = draw_messages(workload)
        write_driver(table, messages, out, lambda done: progress.update(f"{done / total:.0%}"))


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
