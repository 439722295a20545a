"""`cbcb exec`: runs a program on a node of a running emulation."""

from __future__ import annotations

import shlex
from argparse import REMAINDER, ArgumentParser, Namespace

from testbed.cli.arguments import add_live_run, add_node
from testbed.control.running import NODE_VARIABLE, SOCKET_VARIABLE, Running
from testbed.errors import InputError


def add_arguments(parser: ArgumentParser) -> None:
    parser.usage = "cbcb exec [--run TAG] NODE -- PROGRAM [ARGUMENTS]"
    parser.epilog = (
        "The program runs in the network namespace of the node's host, as this user. "
        f"{NODE_VARIABLE} is the number of the node, {SOCKET_VARIABLE} the application socket of its router."
    )
    add_live_run(parser)
    add_node(parser)
    parser.add_argument("program", nargs=REMAINDER, help="the program and its arguments, after --")


def main(arguments: Namespace) -> int:
    """Ends with the exit status of the program."""
    program = arguments.program[1:] if arguments.program[:1] == ["--"] else arguments.program
    if not program:
        raise InputError("exec: no program; expected NODE -- PROGRAM [ARGUMENTS]")
    running = Running.find(arguments.run)
    node = running.node(arguments.node)
    running.replace_process(node, program, f"exec {node} -- {shlex.join(program)}")
