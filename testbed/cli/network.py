"""A running emulation: programs on its nodes, its links and nodes, and the prompt."""

from __future__ import annotations

import os
import shlex
import sys
from argparse import REMAINDER, ArgumentParser, Namespace
from pathlib import Path

from testbed.cli.arguments import add_live_run, add_node
from testbed.emulation.control.running import NODE_VARIABLE, SOCKET_VARIABLE, Running
from testbed.support.errors import InputError
from testbed.support.names import host_name
from testbed.terminal import put


def exec_arguments(parser: ArgumentParser) -> None:
    parser.usage = "cbcb exec [--run TAG] NODE -- PROGRAM [ARGUMENTS]"
    parser.epilog = (
        "The program runs in the network namespace of the node's host, as this user. "
        f"{NODE_VARIABLE} is the number of the node, {SOCKET_VARIABLE} the application socket of its router."
    )
    add_live_run(parser)
    add_node(parser)
    parser.add_argument("program", nargs=REMAINDER, help="the program and its arguments, after --")


def exec_command(arguments: Namespace) -> int:
    """Ends with the exit status of the program."""
    program = arguments.program[1:] if arguments.program[:1] == ["--"] else arguments.program
    if not program:
        raise InputError("exec: no program; expected NODE -- PROGRAM [ARGUMENTS]")
    running = Running.find(arguments.run)
    node = running.node(arguments.node)
    running.replace_process(node, program, f"exec {node} -- {shlex.join(program)}")


def shell_arguments(parser: ArgumentParser) -> None:
    parser.epilog = (
        "The shell ($SHELL, or bash) runs in the network namespace of the node's host. "
        f"{NODE_VARIABLE} is the number of the node, {SOCKET_VARIABLE} the application socket of its router."
    )
    add_live_run(parser)
    add_node(parser)


def shell_command(arguments: Namespace) -> int:
    """Ends with the exit status of the shell."""
    running = Running.find(arguments.run)
    node = running.node(arguments.node)
    shell = os.environ.get("SHELL") or "bash"
    # The files that bash reads at its start would replace the prompt, which names the node.
    argv = [shell, "--norc"] if Path(shell).name == "bash" else [shell]
    prompt = {"PS1": f"{host_name(node)}:\\w\\$ "}
    running.replace_process(node, argv, f"shell {node}", prompt)


def link_arguments(parser: ArgumentParser) -> None:
    add_live_run(parser)
    for end in ("u", "v"):
        parser.add_argument(end, metavar=end.upper(), help="a node at an end of the link: 3, r3, or its name")
    parser.add_argument(
        "state", choices=["up", "down", "set"], help="a link to a node that is down stays down"
    )
    parser.add_argument(
        "settings",
        nargs="*",
        metavar="NAME=VALUE",
        help="with set: loss, duplicate, reorder (percent), bandwidth (Mbit/s), delay, jitter (ms); 0 takes"
        " it away",
    )


def link_command(arguments: Namespace) -> None:
    """Returns when the link has its new state."""
    running = Running.find(arguments.run)
    u, v = running.node(arguments.u), running.node(arguments.v)
    if arguments.state == "set":
        running.shape_link(u, v, arguments.settings)
    elif arguments.settings:
        raise InputError(f"{arguments.settings[0]}: expected only with set")
    else:
        running.set_link(u, v, arguments.state)


def node_arguments(parser: ArgumentParser) -> None:
    add_live_run(parser)
    add_node(parser)
    parser.add_argument(
        "state",
        choices=["up", "down"],
        help="down: its host link and all its links go down; its router goes on",
    )


def node_command(arguments: Namespace) -> None:
    """Returns when the node has its new state."""
    running = Running.find(arguments.run)
    running.set_node(running.node(arguments.node), arguments.state)


def cli_arguments(parser: ArgumentParser) -> None:
    parser.epilog = (
        "help lists the commands of the prompt. Where the input is no terminal, commands are read from it, "
        "one a line, and shown before what they print; the first that fails ends the prompt."
    )
    add_live_run(parser)


def cli_command(arguments: Namespace) -> int:
    """Returns 0, or the status of the command that ended a prompt without a terminal."""
    from testbed.emulation.control.prompt import Prompt

    running = Running.find(arguments.run)
    put(f"cbcb: run {running.state.tag}, {running.state.run_dir}", file=sys.stderr)
    with Prompt(running, interactive=sys.stdin.isatty()) as prompt:
        prompt.cmdloop()
    return prompt.status
