"""Every engine's answers on tables of several shapes, message by message, beside the naive engine's."""

from __future__ import annotations

import argparse
import time
from random import Random
from typing import Any

from router.matching.factory import factory
from router.matching.interface import EncodedMatcher
from router.matching.loading import load
from router.matching.naive import NaiveMatcher
from router.wire.tlv import encode_message
from testbed.workload.matching import draw_messages, draw_table
from testbed.workload.matching_parameters import MatchingWorkload

#: Constraints, interfaces, constraints of a filter, words of the dictionary.
_SHAPES = (
    (10_000, 10, (1, 6), 1_000),
    (10_000, 100, (1, 6), 1_000),
    (10_000, 1_000, (1, 6), 1_000),
    (2_000, 100, (1, 2), 50),
    (2_000, 100, (2, 4), 20),
    (3_000, 2_000, (1, 1), 300),
)


def configure(arguments: list[str]) -> dict[str, Any]:
    """The keyword arguments of `main` that a command line asks for."""
    parser = argparse.ArgumentParser(prog="./run.sh bench match_check", description=__doc__)
    parser.add_argument("--messages", type=int, default=10_000, metavar="N", help="a shape (10,000)")
    parser.add_argument("--engines", type=lambda text: text.split("+"), default=["compiled", "counting"])
    parser.add_argument("--seed", type=int, default=1)
    return vars(parser.parse_args(arguments))


def main(messages: int, engines: list[str], seed: int) -> None:
    """Prints a line for each shape.

    Raises:
        AssertionError: an engine differs; it names the table and the message.
    """
    print(
        f"{'constraints':>11} {'interfaces':>10} {'a filter':>9} {'words':>6} {'messages':>8} {'matches':>9}"
    )
    for constraints, interfaces, sizes, words in _SHAPES:
        attributes = (5, 10) if words > 10 else (1, 5)
        workload = MatchingWorkload(constraints, interfaces, messages, seed, sizes, attributes, words)
        table = draw_table(workload)
        naive = NaiveMatcher()
        load(naive, table)
        others = {name: factory(name) for name in engines}
        for other in others.values():
            load(other, table)
        random, matches, started = Random(seed), 0, time.monotonic()
        for message in draw_messages(workload):
            among = None
            if random.random() < 0.3:
                among = frozenset(random.sample(range(1, interfaces + 1), random.randint(0, interfaces)))
            expected = naive.match(message, among)
            matches += len(expected)
            for name, other in others.items():
                answers = [other.match(message, among)]
                if isinstance(other, EncodedMatcher):
                    answers.append(other.match_encoded(encode_message(message), among) or frozenset())
                if any(answer != expected for answer in answers):
                    raise AssertionError(f"{name}, {workload}: {dict(message)} among {among}: {answers}")
        print(
            f"{constraints:11,} {interfaces:10,} {f'{sizes[0]} to {sizes[1]}':>9} {words:6,} {messages:8,}"
            f" {matches:9,}  the same, {', '.join(engines)}; {time.monotonic() - started:.0f} s",
            flush=True,
        )
