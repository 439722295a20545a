"""An application on a node of a running emulation, for `cbcb pub` and `cbcb sub`."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager

from router.runtime.client import Client, ClientError
from testbed.errors import InputError, RunError
from testbed.network.state import CHECKOUT, RunState, live_runs


def add_node(parser: ArgumentParser) -> None:
    """NODE, --run and --app, which `connected` reads."""
    parser.add_argument("node", help="a node: 3 or r3")
    parser.add_argument("--run", metavar="TAG", help="tag of the run, where several are live")
    parser.add_argument("--app", help="name of this application (its command and process id)")


@contextmanager
def connected(arguments: Namespace) -> Iterator[Client]:
    """A client of the router of a node, whose records make the run account for what it does.

    Raises:
        InputError: the run or the node does not exist.
        RunError: the router refused a request, or does not answer.
    """
    state = _find_run(arguments.run)
    print(f"cbcb: run {state.tag}, {state.run_dir}", file=sys.stderr)
    node = _node(arguments.node, state)
    app = arguments.app or f"{arguments.command}-{os.getpid()}"
    try:
        with Client(state.socket(node), app=app) as client:
            yield client
    except ClientError as error:
        raise RunError(str(error)) from error


def _find_run(tag: str | None) -> RunState:
    """The live run with a tag; without one, the live run of this checkout."""
    live = live_runs()
    if tag is not None:
        runs = [state for state in live if state.tag == tag]
    else:
        runs = [state for state in live if state.checkout == CHECKOUT]
        if live and not runs:
            tags = ", ".join(f"{state.tag} ({state.run_dir})" for state in live)
            raise InputError(
                f"no emulation of this checkout is running, but of others {tags}: choose with --run TAG"
            )
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
