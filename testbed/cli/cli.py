"""`cbcb cli`: a prompt for a running emulation."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from testbed.cli.arguments import add_live_run
from testbed.control.prompt import Prompt
from testbed.control.running import Running
from testbed.terminal.printable import put


def add_arguments(parser: ArgumentParser) -> None:
    parser.epilog = (
        "help lists the commands of the prompt. Where the input is no terminal, commands are read from it, "
        "one a line, and shown before what they print; the first that fails ends the prompt."
    )
    add_live_run(parser)


def main(arguments: Namespace) -> int:
    """Returns 0, or the status of the command that ended a prompt without a terminal."""
    running = Running.find(arguments.run)
    put(f"cbcb: run {running.state.tag}, {running.state.run_dir}", file=sys.stderr)
    with Prompt(running, interactive=sys.stdin.isatty()) as prompt:
        prompt.cmdloop()
    return prompt.status
