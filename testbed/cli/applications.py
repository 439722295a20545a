"""Applications on nodes of a running emulation: `cbcb pub` and `cbcb sub`."""

from __future__ import annotations

import math
import os
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from router.predicates import Message
from router.predicates.parser import parse_message, parse_predicate
from router.predicates.printer import format_message
from router.privacy import KeyFile, KeyFileError, read_keys
from router.runtime.client import Client
from testbed.cli.arguments import add_live_run, add_node, positive, timeout_s
from testbed.emulation.control.running import Running
from testbed.support.errors import InputError, reading
from testbed.terminal import put
from testbed.terminal.numbers import message


def add_application(parser: ArgumentParser) -> None:
    """NODE, --run and --app, which `connected` reads."""
    add_node(parser)
    add_live_run(parser)
    parser.add_argument(
        "--key-file",
        type=Path,
        metavar="FILE",
        help="the keys of a network with privacy (cbcb keys; those of a run are in its folder, keys.json)",
    )
    parser.add_argument("--app", help="name of this application (its command and process id)")


@contextmanager
def connected(arguments: Namespace) -> Iterator[Client]:
    """A client of the router of a node, whose records make the run account for what it does.

    Raises:
        InputError: the run or the node does not exist.
        KeyFileError: the file of keys cannot be used.
        ClientError: the router refused a request, or does not answer.
    """
    running = Running.find(arguments.run)
    put(f"cbcb: run {running.state.tag}, {running.state.run_dir}", file=sys.stderr)
    node = running.node(arguments.node)
    app = arguments.app or f"{arguments.command}-{os.getpid()}"
    key = None if arguments.key_file is None else read_keys(arguments.key_file)
    with running.client(node, app, key) as client:
        yield client


def pub_arguments(parser: ArgumentParser) -> None:
    add_application(parser)
    parser.add_argument("message", nargs="+", help="""a message, for example 'dest = "ORD", price = 300'""")


def pub_command(arguments: Namespace) -> None:
    """Prints `SOURCE:NUMBER`, as `cbcb trace` takes it, of each message sent."""
    with reading():
        messages = [parse_message(text) for text in arguments.message]
    with connected(arguments) as client:
        send = client.publish if "publish" in client.commands else client.send_message
        for each in messages:
            source, seq = send(each)
            put(message(source, seq))


#: Wall seconds between two looks for lifetimes that are over.
_LOOK_S = 0.1
#: Wall seconds between two looks at the key file.
_RENEW_S = 1.0


def sub_arguments(parser: ArgumentParser) -> None:
    add_application(parser)
    parser.add_argument(
        "predicate",
        nargs="+",
        help="""a predicate, for example 'dest = "ORD" and price < 400'; each is a subscription""",
    )
    parser.add_argument("--count", type=positive, help="end after so many messages")
    limited = parser.add_argument_group(
        "attention-limited service", "each predicate is a subscription with these limits; give all three"
    )
    limited.add_argument("--max", type=positive, help="greatest number of messages of a lifetime")
    limited.add_argument("--lifetime", type=timeout_s, metavar="S", help="lifetime in experiment seconds")
    limited.add_argument("--freshness", type=timeout_s, metavar="S", help="greatest age, experiment seconds")
    limited.add_argument("--refresh", action="store_true", help="begin another lifetime when one is over")
    parser.add_argument("--timeout-s", type=timeout_s, help="end after so many seconds")


def sub_command(arguments: Namespace) -> int:
    """Prints each message that arrives.

    With --max, --lifetime and --freshness it ends with the last lifetime, unless there is --refresh.

    Returns 1 if fewer than --count arrived in time, else 0.
    """
    limits = (arguments.max, arguments.lifetime, arguments.freshness)
    if any(limits) and not all(limits):
        raise InputError("--max, --lifetime, --freshness: expected all three, or none")
    if arguments.refresh and not all(limits):
        raise InputError("--refresh: expected --max, --lifetime and --freshness beside it")
    with reading():
        predicates = [parse_predicate(text) for text in arguments.predicate]
    # Before the file is read: a rotation in between is then noticed.
    keys = None if arguments.key_file is None else KeyFile(arguments.key_file)
    with connected(arguments) as client:
        if not all(limits):
            for predicate in predicates:
                client.subscribe(predicate)
            return _print_deliveries(client, arguments, keys=keys)
        for text, predicate in zip(arguments.predicate, predicates, strict=True):
            number = client.register(predicate, *limits)
            put(f"cbcb: subscription {number}, round 0: {text}", file=sys.stderr)
        left = len(predicates)

        def over() -> bool:
            """Reports the lifetimes that are over; returns whether no subscription is left."""
            nonlocal left
            for ended in client.outcomes():
                subscription = f"cbcb: subscription {ended.subscription}"
                ends = f"round {ended.round} {ended.outcome}: {ended.got} messages"
                put(f"{subscription}, {ends}", file=sys.stderr)
                if arguments.refresh:
                    begun = client.refresh(ended.subscription)
                    put(f"{subscription}, round {begun}", file=sys.stderr)
                else:
                    left -= 1
            return left == 0

        return _print_deliveries(client, arguments, over)


def _renew(client: Client, keys: KeyFile) -> None:
    """Takes the keys of the file if it was replaced: a step of a rotation (`cbcb keys rotate`)."""
    try:
        ring = keys.renewed()
    except KeyFileError as error:
        put(f"cbcb: {error}; the former keys stay in use", file=sys.stderr)
        return
    if ring is not None:
        client.set_keys(ring)
        numbers = ", ".join(str(key.key_id) for key in ring.keys)
        put(f"cbcb: {keys.path}: receiving under keys {numbers}", file=sys.stderr)


def _print_deliveries(
    client: Client, arguments: Namespace, over: Callable[[], bool] | None = None, keys: KeyFile | None = None
) -> int:
    """Prints one message a line until there have been --count, or the time or all lifetimes are over."""
    deadline = time.monotonic() + (math.inf if arguments.timeout_s is None else arguments.timeout_s)
    printed = 0
    while arguments.count is None or printed < arguments.count:
        if (wait_s := deadline - time.monotonic()) <= 0:
            break
        if keys is not None:
            _renew(client, keys)
            wait_s = min(wait_s, _RENEW_S)
        if over is not None:
            # The end of a lifetime comes as a line that is no delivery.
            wait_s = min(wait_s, _LOOK_S)
        delivery = next(client.deliveries(None if wait_s == math.inf else wait_s), None)
        if delivery is None:
            if keys is not None or (over is not None and not over()):
                continue
            break
        name = message(delivery.source, delivery.seq)
        put(f"{name} {format_message(Message(delivery.attributes))}")
        sys.stdout.flush()
        printed += 1
    return 0 if arguments.count in (None, printed) else 1
