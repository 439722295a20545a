"""An application on a node of a running emulation, for `cbcb pub` and `cbcb sub`."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from router.privacy.keys import KeyFileError, read_keys
from router.runtime.client import Client, ClientError
from testbed.cli.arguments import add_live_run, add_node
from testbed.control.running import Running
from testbed.errors import InputError, RunError
from testbed.terminal.printable import put


def add_application(parser: ArgumentParser) -> None:
    """NODE, --run and --app, which `connected` reads."""
    add_node(parser)
    add_live_run(parser)
    parser.add_argument(
        "--key-file",
        type=Path,
        metavar="FILE",
        help="the keys of a network with privacy (cbcb keys; those of a run are in its folder, keys.json)",
    )
    parser.add_argument("--app", help="name of this application (its command and process id)")


@contextmanager
def connected(arguments: Namespace) -> Iterator[Client]:
    """A client of the router of a node, whose records make the run account for what it does.

    Raises:
        InputError: the run or the node does not exist.
        RunError: the router refused a request, or does not answer.
    """
    running = Running.find(arguments.run)
    put(f"cbcb: run {running.state.tag}, {running.state.run_dir}", file=sys.stderr)
    node = running.node(arguments.node)
    app = arguments.app or f"{arguments.command}-{os.getpid()}"
    try:
        key = None if arguments.key_file is None else read_keys(arguments.key_file)
        with running.client(node, app, key) as client:
            yield client
    except KeyFileError as error:
        raise InputError(str(error)) from error
    except ClientError as error:
        raise RunError(str(error)) from error
