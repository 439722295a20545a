"""Questions about a finished run: its recordings played again, SQL, and the way of one message."""

from __future__ import annotations

import json
import shutil
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from captures.rundir import RunLayout
from captures.rundir.clock import read_clock
from router.predicates.printer import format_predicate
from router.protocol.schemes import Row
from router.recording.file import Recording
from router.recording.replay import describe, state_at
from testbed.cli.arguments import add_run, moment_s, not_negative
from testbed.results.folders import find_run
from testbed.results.recordings import Verdict, recorded_nodes, replay_run
from testbed.support.errors import InputError
from testbed.terminal import put
from testbed.terminal.numbers import counted
from testbed.terminal.progress import Progress


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
        else:
            found = interruptible(database, lambda: trace(run, database, find(database, message)))
    if message is None:
        _print(messages, listing(messages, width), arguments)
    else:
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


def replay_arguments(parser: ArgumentParser) -> None:
    add_run(parser)
    parser.add_argument(
        "--node", action="append", default=[], metavar="N", help="only this router, such as 3 or r3 (all)"
    )
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--show", action="store_true", help="print what the routers were given and answered, instead"
    )
    instead.add_argument(
        "--at", type=moment_s, metavar="S", help="print the routing tables at S experiment seconds, instead"
    )


def replay_command(arguments: Namespace) -> int:
    """Returns 0 if every router answered as in the live run (or was only asked to be shown), else 1.

    A recording that the run made and that is gone makes it 1. Recordings that cannot be read are an
    InputError (exit status 2), after what the others gave.
    """
    run_dir = find_run(arguments.runs, arguments.run)
    recorded = recorded_nodes(run_dir)
    names = {str(node): node for node in recorded}
    wanted = [text.removeprefix("r") for text in arguments.node]
    for text in wanted:
        if text not in names:
            raise InputError(f"--node {text}: no recording of it; expected one of {', '.join(names)}")
    nodes = sorted({names[text] for text in wanted}) or recorded
    if arguments.at is not None:
        return _tables(run_dir, nodes, arguments.at)
    if arguments.show:
        return _show(run_dir, nodes)
    console = Console(soft_wrap=True, highlight=False)
    run = RunLayout(run_dir)
    gone = [node for node in nodes if not run.recording(node).is_file()]
    nodes = [node for node in nodes if node not in gone]
    verdicts = []
    progress = Progress(console)
    with progress.stage("replay_s", f"replay of {run_dir.name}: {counted(len(nodes), 'router')}"):
        for verdict in replay_run(run_dir, nodes):
            verdicts.append(verdict)
            progress.update(f"{len(verdicts)} done")
    for node in gone:
        put(f"r{node}: {run.relative(run.recording(node))} is missing, which {run.manifest.name} lists")
    for line in _lines(verdicts):
        put(line)
    unreadable = [f"r{verdict.node}" for verdict in verdicts if verdict.replayed is None]
    if unreadable:
        raise InputError(f"no usable recording of {', '.join(unreadable)}")
    return 1 if gone or any(verdict.differences for verdict in verdicts) else 0


def _lines(verdicts: Iterable[Verdict]) -> Iterable[str]:
    """The findings about each router, then about all of them."""
    again = []
    inputs = 0
    for verdict in verdicts:
        replayed, differences = verdict.replayed, [f"r{verdict.node}: {text}" for text in verdict.differences]
        if replayed is None:
            yield from differences
            continue
        again.append(verdict)
        inputs += replayed.inputs
        if replayed.cut is not None:
            yield f"r{verdict.node}: the recording is cut: {replayed.cut}"
        yield from differences
        if replayed.cut is None and not verdict.compared:
            yield f"r{verdict.node}: the run left no counters and tables to compare with"
    differing = [f"r{verdict.node}" for verdict in again if verdict.differences]
    if differing:
        yield f"Replay: not as in the live run: {', '.join(differing)} of {counted(len(again), 'router')}"
    elif again:
        compared = sum(verdict.compared for verdict in again)
        what = "answers, counters and final tables" if compared == len(again) else "answers"
        yield f"Replay: {counted(len(again), 'router')}, {inputs} events: {what} equal the live run's"


def _tables(run_dir: Path, nodes: Iterable[int], at_s: float) -> int:
    t_ns = read_clock(RunLayout(run_dir)).time_of(at_s)
    for node in nodes:
        router = state_at(RunLayout(run_dir).recording(node), t_ns)
        put(f"r{node}, epoch {router.epoch}")
        for row in router.rows():
            put(f"    {_described(row, router.interfaces())}: {format_predicate(row.predicate)}")
    return 0


def _described(row: Row, interfaces: Mapping[int, int]) -> str:
    if row.interface is None:
        return row.scope
    behind = f"node {interfaces[row.interface]}" if row.interface else "applications"
    return f"{row.interface} ({behind})" + (f", {row.scope}" if row.scope else "")


def _show(run_dir: Path, nodes: Iterable[int]) -> int:
    for node in nodes:
        for line in describe(Recording(RunLayout(run_dir).recording(node))):
            put(f"r{node} {line}")
    return 0
