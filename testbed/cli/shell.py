"""`cbcb shell`: a shell on a node of a running emulation."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path

from testbed.cli.arguments import add_live_run, add_node
from testbed.control.running import NODE_VARIABLE, SOCKET_VARIABLE, Running
from testbed.network.names import host_name


def add_arguments(parser: ArgumentParser) -> None:
    parser.epilog = (
        "The shell ($SHELL, or bash) runs in the network namespace of the node's host. "
        f"{NODE_VARIABLE} is the number of the node, {SOCKET_VARIABLE} the application socket of its router."
    )
    add_live_run(parser)
    add_node(parser)


def main(arguments: Namespace) -> int:
    """Ends with the exit status of the shell."""
    running = Running.find(arguments.run)
    node = running.node(arguments.node)
    shell = os.environ.get("SHELL") or "bash"
    # The files that bash reads at its start would replace the prompt, which names the node.
    argv = [shell, "--norc"] if Path(shell).name == "bash" else [shell]
    prompt = {"PS1": f"{host_name(node)}:\\w\\$ "}
    running.replace_process(node, argv, f"shell {node}", prompt)
