"""`cbcb link`: takes a link of a running emulation down or up."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from testbed.cli.arguments import add_live_run
from testbed.control.running import Running


def add_arguments(parser: ArgumentParser) -> None:
    add_live_run(parser)
    for end in ("u", "v"):
        parser.add_argument(end, metavar=end.upper(), help="a node at an end of the link: 3, r3, or its name")
    parser.add_argument("state", choices=["up", "down"], help="a link to a node that is down stays down")


def main(arguments: Namespace) -> int:
    """Returns 0 when the link has its new state."""
    running = Running.find(arguments.run)
    running.set_link(running.node(arguments.u), running.node(arguments.v), arguments.state)
    return 0
