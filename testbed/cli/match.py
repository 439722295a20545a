"""`cbcb match`: a Siena Fast Forwarding file, answered."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from router.matching.engines import COMPILED, DEFAULT, ENGINES
from testbed.errors import InputError
from testbed.siena_ff.reader import read_chunks
from testbed.siena_ff.session import Session
from testbed.terminal.printable import put


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", default="-", help="the statements; - is standard input (-)")
    parser.add_argument(
        "--engine",
        default=DEFAULT,
        metavar="NAME",
        help=f"{', '.join(sorted(ENGINES))} ({DEFAULT}); counting has options: counting:rounds=10,bloom=off",
    )
    parser.add_argument(
        "--stats", action="store_true", help="the table's size, build and time per message, to standard error"
    )


def main(arguments: Namespace) -> int:
    """Prints a line for each `select`; a fault in the file is an InputError (exit status 2)."""
    if arguments.engine == COMPILED:
        from router.matching.compiled.layout import COMPILER

        if not COMPILER.has_code:
            put("cbcb: compiling the matching engine, once: some ten seconds", file=sys.stderr)
    try:
        session = Session(arguments.engine, sys.stdout)
    except ValueError as error:
        raise InputError(f"--engine: {error}") from error
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
    return 0
