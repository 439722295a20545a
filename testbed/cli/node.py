"""`cbcb node`: cuts a node of a running emulation off, or joins it to the network."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from testbed.cli.arguments import add_live_run, add_node
from testbed.control.running import Running


def add_arguments(parser: ArgumentParser) -> None:
    add_live_run(parser)
    add_node(parser)
    parser.add_argument(
        "state",
        choices=["up", "down"],
        help="down: its host link and all its links go down; its router goes on",
    )


def main(arguments: Namespace) -> int:
    """Returns 0 when the node has its new state."""
    running = Running.find(arguments.run)
    running.set_node(running.node(arguments.node), arguments.state)
    return 0
