"""`cbcb pub` and `cbcb sub`: an application on a node of a running emulation."""

from __future__ import annotations

import os
import sys
import time
from argparse import Namespace
from pathlib import Path

from captures.rundir.layout import RunLayout
from router.predicates.model import Message
from router.predicates.parser import parse_message, parse_predicate
from router.predicates.printer import format_message
from router.records.application_log import ApplicationLog
from router.runtime.client import Client, ClientError
from testbed.errors import InputError, RunError
from testbed.network.state import RunState, live_runs


def main(arguments: Namespace) -> int:
    """Sends or receives. What it does goes into the run's log, so that the run accounts for it."""
    state = _find_run(arguments.run)
    node = _node(arguments.node, state)
    app = arguments.app or f"{arguments.command}-{os.getpid()}"
    try:
        if arguments.command == "pub":
            messages = [parse_message(text) for text in arguments.message]
        else:
            predicates = [parse_predicate(text) for text in arguments.predicate]
    except ValueError as error:
        raise InputError(str(error)) from error
    with ApplicationLog(RunLayout(Path(state.run_dir)).applications_log) as log:
        try:
            with Client(state.socket(node), app=app, log=log) as client:
                if arguments.command == "pub":
                    for message in messages:
                        source, seq = client.send_message(message)
                        print(f"{source}/{seq}")
                    return 0
                for predicate in predicates:
                    client.subscribe(predicate)
                return _print_deliveries(client, arguments.count, arguments.timeout_s)
        except ClientError as error:
            raise RunError(str(error)) from error


def _print_deliveries(client: Client, count: int | None, timeout_s: float | None) -> int:
    """Prints one message a line until there have been `count`, or the time is over."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    printed = 0
    while count is None or printed < count:
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            break
        delivery = next(client.deliveries(left), None)
        if delivery is None:
            break
        print(f"{delivery.source}/{delivery.seq} {format_message(Message(delivery.attributes))}")
        sys.stdout.flush()
        printed += 1
    return 0 if count is None or printed == count else 1


def _find_run(tag: str | None) -> RunState:
    runs = live_runs()
    if tag is not None:
        runs = [state for state in runs if state.tag == tag]
    if not runs:
        raise InputError(
            f"no live run {tag}" if tag else "no emulation is running; `cbcb run --hold` starts one"
        )
    if len(runs) > 1:
        tags = ", ".join(state.tag for state in runs)
        raise InputError(f"several runs are live ({tags}): choose one with --run TAG")
    return runs[0]


def _node(text: str, state: RunState) -> int:
    digits = text.removeprefix("r")
    if not digits.isdecimal() or int(digits) >= state.nodes:
        raise InputError(f"node {text}: expected 0 to {state.nodes - 1}, or r0 to r{state.nodes - 1}")
    return int(digits)
