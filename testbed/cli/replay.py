"""`cbcb replay`: gives the recorded inputs of live routers to the protocol core and compares its answers."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping
from pathlib import Path

from rich.console import Console

from captures.rundir import RunLayout
from captures.rundir.clock import read_clock
from router.predicates.printer import format_predicate
from router.protocol.schemes import Row
from router.recording.file import Recording
from router.recording.replay import describe, state_at
from testbed.cli.arguments import add_run, moment_s
from testbed.results.folders import find_run
from testbed.results.recordings import Verdict, recorded_nodes, replay_run
from testbed.support.errors import InputError
from testbed.terminal import put
from testbed.terminal.numbers import counted
from testbed.terminal.progress import Progress


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
