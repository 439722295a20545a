"""Questions about a finished run: SQL, and the way of one message."""

from __future__ import annotations

import json
import shutil
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from captures.rundir import RunLayout
from testbed.cli.arguments import add_run, not_negative
from testbed.results.folders import find_run
from testbed.support.errors import InputError
from testbed.terminal import put


def query_arguments(parser: ArgumentParser) -> None:
    parser.usage = "cbcb query [RUN] SQL [options]\n       cbcb query [RUN] --tables"
    add_run(parser)
    parser.add_argument(
        "sql", nargs="?", metavar="SQL", help="a question in DuckDB's SQL, such as 'SELECT * FROM messages'"
    )
    parser.add_argument("--tables", action="store_true", help="list the tables and what their columns mean")
    parser.add_argument(
        "--format",
        choices=["table", "csv", "json", "parquet"],
        default="table",
        help="aligned columns (table), or json: an object a line",
    )
    parser.add_argument("--output", "-o", type=Path, metavar="FILE", help="write the answer there")
    parser.add_argument(
        "--rows",
        type=not_negative,
        default=200,
        metavar="N",
        help="rows of a table, at most 9,990; 0: as many (200)",
    )


def query_command(arguments: Namespace) -> None:
    """Prints the answer, or the list of tables.

    Wrong SQL ends it with exit status 2.
    """
    wanted, sql = arguments.run, arguments.sql
    if sql is None and wanted is not None and not arguments.tables:
        # One argument that reads like SQL is a question about the newest run.
        if not any(character.isspace() for character in wanted):
            raise InputError(f"no SQL; expected cbcb query {wanted} 'SELECT ...', or --tables")
        wanted, sql = None, wanted
    run = find_run(arguments.runs, wanted)
    # DuckDB and pyarrow take a third of a second to load.
    from captures.tables.query import sql_types
    from testbed.terminal.answers import answer, described

    if arguments.tables or sql is None:
        put("\n".join(described(sql_types(run))))
    else:
        answer(run, sql, arguments.format, arguments.output, arguments.rows)


def trace_arguments(parser: ArgumentParser) -> None:
    parser.usage = (
        "cbcb trace [RUN] SOURCE:NUMBER [options]\n       cbcb trace [RUN] [--where PREDICATE] [--missed]"
    )
    add_run(parser)
    parser.add_argument(
        "message",
        nargs="?",
        metavar="SOURCE:NUMBER",
        help="a message or publication, such as 3:17; without one, they are listed",
    )
    parser.add_argument(
        "--where", metavar="PREDICATE", help="list messages that it selects, for example 'price > 100'"
    )
    parser.add_argument("--missed", action="store_true", help="list messages that somebody missed")
    parser.add_argument("--json", action="store_true", help="as JSON; a list: one object a line")
    parser.add_argument("--full", action="store_true", help="do not cut long lines to the terminal")


def trace_command(arguments: Namespace) -> None:
    """Prints the trace of a message, or the list of messages."""
    # DuckDB and pyarrow take a third of a second to load.
    from captures.tables.query import connect, interruptible
    from testbed.results.trace import MESSAGE_ID, find, listed, type_hint
    from testbed.results.trace.build import trace
    from testbed.results.trace.show import lines, listing

    wanted, message = arguments.run, arguments.message
    if message is None and wanted is not None and MESSAGE_ID.fullmatch(wanted):
        wanted, message = None, wanted
    if message is not None and (arguments.where is not None or arguments.missed):
        option = "--missed" if arguments.where is None else "--where"
        raise InputError(f"{option} lists messages; expected it without {message}")
    run = find_run(arguments.runs, wanted)
    if RunLayout(run).attention.exists():
        _of_publications(RunLayout(run), message, arguments)
        return
    width = None if arguments.full or not sys.stdout.isatty() else shutil.get_terminal_size().columns
    with connect(run) as database:
        if message is None:
            messages = interruptible(
                database, lambda: listed(database, arguments.where, missed=arguments.missed)
            )
            if arguments.where is not None and not messages:
                texts = [each.message for each in interruptible(database, lambda: listed(database))]
                if hint := type_hint(arguments.where, texts):
                    put(f"cbcb: {hint}", file=sys.stderr)
            _print(messages, listing(messages, width), arguments)
        else:
            found = interruptible(database, lambda: trace(run, database, find(database, message)))
            _print(found, lines(found, width), arguments)


def _print(found: Any, lines: Iterable[str], arguments: Namespace) -> None:
    """Prints what was found as lines, or as JSON: of a list, an object a line."""
    if not arguments.json:
        put("\n".join(lines))
    elif isinstance(found, list):
        for each in found:
            put(json.dumps(asdict(each)))
    else:
        put(json.dumps(asdict(found), indent=1))


def _of_publications(run: RunLayout, wanted: str | None, arguments: Namespace) -> None:
    """Prints the way of a publication, or the list of publications, of the attention-limited service."""
    from captures.rundir.inputs import read_topology
    from testbed.results.trace import message_id, publications as found

    if arguments.missed:
        raise InputError("--missed: the oracle expects messages; this run has publications and subscriptions")
    if wanted is None:
        listed = found.publications(run, arguments.where)
        _print(listed, found.listing(listed), arguments)
        return
    one = found.publication(run, *message_id(wanted))
    _print(one, found.lines(one, read_topology(run)), arguments)
