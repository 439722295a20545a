"""`cbcb link`: takes a link of a running emulation down or up."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from testbed.cli.arguments import add_live_run
from testbed.control.running import Running
from testbed.errors import InputError


def add_arguments(parser: ArgumentParser) -> None:
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


def main(arguments: Namespace) -> int:
    """Returns 0 when the link has its new state."""
    running = Running.find(arguments.run)
    u, v = running.node(arguments.u), running.node(arguments.v)
    if arguments.state == "set":
        running.shape_link(u, v, arguments.settings)
    elif arguments.settings:
        raise InputError(f"{arguments.settings[0]}: expected only with set")
    else:
        running.set_link(u, v, arguments.state)
    return 0
