"""`cbcb pub`: sends messages from a node of a running emulation."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from router.predicates.parser import parse_message
from testbed.cli.applications import add_node, connected
from testbed.errors import InputError


def add_arguments(parser: ArgumentParser) -> None:
    add_node(parser)
    parser.add_argument("message", nargs="+", help="""a message, for example 'dest = "ORD", price = 300'""")


def main(arguments: Namespace) -> int:
    """Prints `SOURCE/NUMBER` of each message sent.

    Returns 0.
    """
    try:
        messages = [parse_message(text) for text in arguments.message]
    except ValueError as error:
        raise InputError(str(error)) from error
    with connected(arguments) as client:
        for message in messages:
            source, seq = client.send_message(message)
            print(f"{source}/{seq}")
    return 0
