"""`cbcb pub`: sends messages from a node of a running emulation."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from router.predicates.parser import parse_message
from testbed.cli.applications import add_application, connected
from testbed.errors import InputError
from testbed.terminal.numbers import message
from testbed.terminal.printable import put


def add_arguments(parser: ArgumentParser) -> None:
    add_application(parser)
    parser.add_argument("message", nargs="+", help="""a message, for example 'dest = "ORD", price = 300'""")


def main(arguments: Namespace) -> int:
    """Prints `SOURCE:NUMBER`, as `cbcb trace` takes it, of each message sent.

    Returns 0.
    """
    try:
        messages = [parse_message(text) for text in arguments.message]
    except ValueError as error:
        raise InputError(str(error)) from error
    with connected(arguments) as client:
        send = client.publish if "publish" in client.commands else client.send_message
        for each in messages:
            source, seq = send(each)
            put(message(source, seq))
    return 0
