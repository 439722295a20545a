"""`cbcb match`: a Siena Fast Forwarding file, answered."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from router.matching.factory import compiles_first, serving, why_not_compiled
from testbed.errors import InputError
from testbed.siena_ff.reader import read_chunks
from testbed.siena_ff.session import Session


def main(arguments: Namespace) -> int:
    """Prints a line for each `select`; a fault in the file is an InputError (exit status 2)."""
    if compiles_first(arguments.engine):
        print("cbcb: compiling the matching engine, once: some ten seconds", file=sys.stderr)
    try:
        session = Session(arguments.engine, sys.stdout)
    except ValueError as error:
        raise InputError(f"--engine: {error}") from error
    if (server := serving(arguments.engine)) != arguments.engine:
        print(f"cbcb: nothing can be compiled ({why_not_compiled()}): {server} serves", file=sys.stderr)
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
        print(session.statistics(), file=sys.stderr)
    return 0
