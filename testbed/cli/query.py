"""`cbcb query`: questions in SQL about the tables of a run."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from testbed.cli.arguments import add_run, not_negative
from testbed.errors import InputError
from testbed.runs.folders import find_run
from testbed.terminal.printable import put


def add_arguments(parser: ArgumentParser) -> None:
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


def main(arguments: Namespace) -> int:
    """Prints the answer, or the list of tables.

    Wrong SQL is an InputError (exit status 2).
    """
    wanted, sql = arguments.run, arguments.sql
    if sql is None and wanted is not None and not arguments.tables:
        # One argument that reads like SQL is a question about the newest run.
        if not any(character.isspace() for character in wanted):
            raise InputError(f"no SQL; expected cbcb query {wanted} 'SELECT ...', or --tables")
        wanted, sql = None, wanted
    run = find_run(arguments.runs, wanted)
    # DuckDB and pyarrow take a third of a second to load.
    from captures.tables.query import QueryError, describe
    from testbed.terminal.answers import answer, described

    try:
        if arguments.tables or sql is None:
            put("\n".join(described(describe(run))))
            return 0
        answer(run, sql, arguments.format, arguments.output, arguments.rows)
    except QueryError as error:
        raise InputError(str(error)) from error
    return 0
