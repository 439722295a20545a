"""`cbcb sub`: receives messages at a node of a running emulation."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, Namespace

from router.predicates.model import Message
from router.predicates.parser import parse_predicate
from router.predicates.printer import format_message
from router.runtime.client import Client
from testbed.cli.applications import add_application, connected
from testbed.cli.arguments import positive, timeout_s
from testbed.errors import InputError
from testbed.terminal.numbers import message


def add_arguments(parser: ArgumentParser) -> None:
    add_application(parser)
    parser.add_argument(
        "predicate",
        nargs="+",
        help="""a predicate, for example 'dest = "ORD" and price < 400'; each is a subscription""",
    )
    parser.add_argument("--count", type=positive, help="end after so many messages")
    parser.add_argument("--timeout-s", type=timeout_s, help="end after so many seconds")


def main(arguments: Namespace) -> int:
    """Prints each message that arrives.

    Returns 1 if fewer than --count arrived in time, else 0.
    """
    try:
        predicates = [parse_predicate(text) for text in arguments.predicate]
    except ValueError as error:
        raise InputError(str(error)) from error
    with connected(arguments) as client:
        for predicate in predicates:
            client.subscribe(predicate)
        return _print_deliveries(client, arguments.count, arguments.timeout_s)


def _print_deliveries(client: Client, count: int | None, timeout_s: float | None) -> int:
    """Prints one message a line until there have been `count`, or the time is over."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    printed = 0
    while count is None or printed < count:
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            break
        delivery = next(client.deliveries(left), None)
        if delivery is None:
            break
        name = message(delivery.source, delivery.seq)
        print(f"{name} {format_message(Message(delivery.attributes))}")
        sys.stdout.flush()
        printed += 1
    return 0 if count is None or printed == count else 1
