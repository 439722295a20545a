"""A change of a small routing table: laying it out for the compiled engine, beside answers of the pool."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from random import Random

from router.content.plain import Plain
from router.matching.compiled.warm import warm
from router.matching.factory import factory
from router.predicates.model import Message, Predicate
from router.predicates.parser import parse_predicate
from router.protocol.routing import RoutingTable
from router.wire.frames import EncodedMessage
from router.wire.message import encode_message

#: Interfaces, and filters of a predicate: as `pif` has them, and `psf` in a network of 200 nodes.
_TABLES = ((4, 5), (4, 20), (4, 200), (200, 5))
_CHANGES = 30
_MESSAGES = 5


def main() -> None:
    """Prints medians of CPU: of laying out a change, of an answer of the pool, and their ratio."""
    warm()
    print(f"{'interfaces':>10} {'filters':>8} {'laid out, ms':>13} {'an answer, ms':>14} {'answers':>8}")
    for interfaces, each in _TABLES:
        laid_out, answer, filters = _measured(interfaces, each)
        print(f"{interfaces:10} {filters:8} {laid_out:13.2f} {answer:14.3f} {laid_out / answer:8.0f}")


def _measured(interfaces: int, each: int) -> tuple[float, float, int]:
    rng = Random(1)
    table = RoutingTable(factory("compiled"), Plain(), patience=_MESSAGES)
    among = frozenset(range(1, interfaces + 1))
    for interface in among:
        table.widen(interface, _predicate(rng, each))
    table.sync()
    bodies = iter([_message(rng) for _ in range(_CHANGES * (_MESSAGES + 1))])
    laid_out, answers = [], []
    for _ in range(_CHANGES):
        interface = rng.randrange(interfaces) + 1
        changed = table.copy_of(interface)
        changed.add(_predicate(rng, 1))
        table.replace(interface, changed)
        answers += [_ms(lambda: table.match(next(bodies), among)) for _ in range(_MESSAGES)]
        # Until the engine has the change and answers: some of its work is due with the next messages.
        laid_out.append(_ms(lambda: _lay_out(table, next(bodies), among)))
    return statistics.median(laid_out), statistics.median(answers), table.filters


def _lay_out(table: RoutingTable, body: EncodedMessage, among: frozenset[int]) -> None:
    while not table.synced:
        table.sync()
    table.match(body, among)


def _predicate(rng: Random, filters: int) -> Predicate:
    return parse_predicate(
        " or ".join(
            " and ".join(f"a{rng.randrange(10)} {rng.choice('=<>')} {rng.randrange(100)}" for _ in range(3))
            for _ in range(filters)
        )
    )


def _message(rng: Random) -> EncodedMessage:
    return EncodedMessage(encode_message(Message({f"a{each}": rng.randrange(100) for each in range(6)})))


def _ms(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1e3
