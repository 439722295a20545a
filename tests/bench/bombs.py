"""The longest turn of a router's core under predicates made to be expensive, by shape and size.

A router in an epoch receives one RA; afterwards it works off what it has put aside, turn by turn (*RA*).
Then it receives messages that p_i has to be searched for, until the matching engine has all of p_i (*MSG*):
short ones, and ones with a text of 60,000 letters.
Another router sends the same predicate as its UR, with which a third is answered (*UR*). In a further router
with `max_filters`, p_i is over-simplified (*max*). In another, an application sets the predicate; the router
issues an RA with it (*p0*). It then receives the same messages, for that application (*own*).

The shapes whose names begin with *bits* are of encoded predicates and messages (`[privacy] mode = "bloom"`).

A turn is the time of one call of `Router.handle`, or of one step of a request, in CPU milliseconds of the
process. Bodies are taken from the wire and cut into fragments within the measured time, as the link of a
router does. A turn does the same in every run: with `--runs`, the least of its times counts, so that other
work on the machine does not. The columns are the longest turns; *total* is the sum of all turns, *kept* the
number of filters in p_i at the end.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import resource
import string
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from router.predicates.covering.budget import DEFAULT_LIMITS, weight_of
from router.predicates.encoded.model import (
    ENCODED_NOTHING,
    BloomFilter,
    BloomMessage,
    BloomPredicate,
    Suite,
)
from router.predicates.model import NOTHING, Constraint, Filter, Message, Operator, Predicate, Type
from router.predicates.printer import format_predicate
from router.protocol.events import FrameReceived, PredicateSet, Refused, Send, Tick
from router.protocol.options import RouterOptions
from router.protocol.router import Router
from router.protocol.service import RequestError
from router.runtime.collector import bound_collections, end_turn
from router.runtime.lines import REQUEST_LIMIT
from router.wire import private
from router.wire.codec import decode_header, forwarded_frame, fragment
from router.wire.frames import Frame, FrameType, SenderRequest
from router.wire.header import Header
from router.wire.message import encode_message
from router.wire.predicate import encode_predicate, filters_of
from tests.support.one_router import set_up
from tests.support.router_tables import predicates_of

_SIZES = (20_000, 200_000, 2_000_000)
_COLUMNS = ("RA", "MSG", "UR", "p0", "own", "max")
#: `max_filters` of the column *max*.
_MAX_FILTERS = 50
_Draw = Callable[[random.Random, int], Filter]


def _text(rng: random.Random, length: int) -> str:
    return "".join(rng.choices(string.ascii_lowercase, k=length))


def _string(name: str, operator: Operator, text: str) -> Constraint:
    return Constraint(name, Type.STRING, operator, text)


def _integer(name: str, operator: Operator, value: int) -> Constraint:
    return Constraint(name, Type.INTEGER, operator, value)


def _range(rng: random.Random, name: str) -> tuple[Constraint, Constraint]:
    low = rng.randrange(1_000_000)
    high = low + rng.randrange(1, 500_000)
    return _integer(name, Operator.GE, low), _integer(name, Operator.LT, high)


def _ranges(rng: random.Random, names: str) -> Filter:
    return Filter(tuple(constraint for name in names for constraint in _range(rng, name)))


def _many(draw: _Draw) -> Callable[[random.Random], Iterator[Filter]]:
    def filters(rng: random.Random) -> Iterator[Filter]:
        number = 0
        while True:
            yield draw(rng, number)
            number += 1

    return filters


#: Shape -> filters without end; a bomb is as many of them as fit.
_SHAPES: dict[str, Callable[[random.Random], Iterator[Filter]]] = {
    "substrings": _many(lambda rng, _: Filter((_string("s", Operator.SUBSTRING, _text(rng, 8)),))),
    "nested substrings": _many(
        lambda _, n: Filter((_string("s", Operator.SUBSTRING, "a" * (n % 1000 + 1)),))
    ),
    "ranges of 2": _many(lambda rng, _: _ranges(rng, "xy")),
    "ranges of 5": _many(lambda rng, _: _ranges(rng, "vwxyz")),
    "integers": _many(
        lambda rng, n: Filter(
            (
                _integer("x", Operator.NE if n % 2 else Operator.EQ, rng.randrange(10_000_000)),
                _integer("y", Operator.EQ if n % 2 else Operator.NE, rng.randrange(1_000)),
            )
        )
    ),
    "texts, then patterns": _many(
        lambda rng, n: Filter(
            (_string("s", Operator.SUBSTRING if n % 4_000 == 3_999 else Operator.EQ, _text(rng, 8)),)
        )
    ),
    "texts of 32, 128": _many(
        lambda rng, n: Filter(
            (
                _string(
                    "s", Operator.EQ if n % 2 else Operator.SUBSTRING, _text(rng, 128 if n % 4 < 2 else 32)
                ),
            )
        )
    ),
    "long substrings": _many(
        lambda rng, n: Filter((_string("s", Operator.SUBSTRING, _text(rng, 60_000 if n % 2 else 8)),))
    ),
    "substrings of 1,500 lengths": _many(
        lambda _, n: Filter(
            (
                _string("s", Operator.SUBSTRING, "a" * (n % 1_500 + 1) + "b"),
                _integer("x", Operator.EQ, -n),
            )
        )
    ),
    "affixes": _many(
        lambda rng, n: Filter(
            (
                _string("s", Operator.PREFIX, "a" * (n % 20)),
                _string("s", Operator.SUFFIX, "a" * (n // 20 % 20)),
                _string("s", Operator.SUBSTRING, "a" * 8 + _text(rng, 4)),
            )
        )
    ),
    "names": _many(
        lambda _, n: Filter(
            (
                Constraint(f"{n}", Type.INTEGER, Operator.ANY, None)
                if n % 2
                else _integer(f"{n}", Operator.GT, n),
            )
        )
    ),
    "prefixes, suffixes": _many(
        lambda rng, n: Filter(
            (_string("s", Operator.SUFFIX if n % 2 else Operator.PREFIX, _text(rng, rng.randrange(1, 10))),)
        )
    ),
}


def _bits(bits: int, number: int) -> Callable[[random.Random, int], BloomFilter]:
    """Filters of as many bits, chosen at random."""
    suite = Suite(1, bits, 4, 1)
    return lambda rng, _: BloomFilter(suite, _set(rng.sample(range(bits), number)))


def _set(positions: Iterable[int]) -> int:
    return sum(1 << position for position in positions)


def _covered(rng: random.Random, n: int) -> BloomFilter:
    """Filters with bit 0 and 20 others; each 1,000th has bit 0 and one other."""
    return BloomFilter(_SUITE, 1 | _set(rng.sample(range(1, 1_024), 20 if (n + 1) % 1_000 else 1)))


#: The suite of most encoded shapes, and of messages.
_SUITE = Suite(1, 1_024, 4, 1)
#: Shape -> encoded filters.
_ENCODED: dict[str, Callable[[random.Random, int], BloomFilter]] = {
    "bits": _bits(1_024, 20),
    "bits, few of 64": _bits(64, 4),
    "bits, many of 4,096": _bits(4_096, 400),
    "bits, covered": _covered,
    "bits, nested": lambda _, n: BloomFilter(Suite(1, 4_096, 4, 1), (2 << (4_095 - n % 4_096)) - 1),
    "bits of many keys": lambda rng, n: BloomFilter(
        Suite(1 + n, 1_024, 4, 1), _set(rng.sample(range(1_024), 20))
    ),
}
#: Shape -> constraints without end, of one filter.
_SINGLE: dict[str, Callable[[random.Random, int], Constraint]] = {
    "one attribute": lambda rng, n: (
        _string("s", Operator.SUBSTRING, _text(rng, 8)) if n % 2 else _string("s", Operator.NE, _text(rng, 8))
    ),
    "many attributes": lambda rng, n: _integer(f"a{n}", Operator.GT, rng.randrange(1_000_000)),
}


def _bomb(shape: str, size: int) -> bytes:
    """The encoded predicate of this shape, of at most `size` bytes."""
    rng = random.Random(shape)
    if shape in _SINGLE:
        constraints: list[Constraint] = []
        draw, length = _SINGLE[shape], 0
        while length < size - 50:
            constraints.append(draw(rng, len(constraints)))
            length += len(encode_predicate(Predicate((Filter((constraints[-1],)),)))) - 5
        return encode_predicate(Predicate((Filter(tuple(constraints)),)))
    if shape in _ENCODED:
        filters: list[BloomFilter] = []
        length = 0
        # More would be replaced by their common bits, which are none.
        most = min(DEFAULT_LIMITS.predicate_filters, DEFAULT_LIMITS.predicate_weight // 34)
        while length < size - 1_000 and len(filters) < most:
            filters.append(_ENCODED[shape](rng, len(filters)))
            length += len(private.encode_predicate(BloomPredicate(filters[-1:]))) - 12 * (len(filters) > 1)
        return private.encode_predicate(BloomPredicate(filters))
    parts, length = [], 0
    for filter_ in _SHAPES[shape](rng):
        part = encode_predicate(Predicate((filter_,)))
        if length + len(part) > size:
            break
        parts.append(part)
        length += len(part)
    return b"".join(parts)


def _header(frame_type: FrameType, issuer: int, number: int, size: int) -> Header:
    """The header of a frame with a body of this size, as after reassembly."""
    nothing = NOTHING if frame_type in (FrameType.RA, FrameType.UR) else ENCODED_NOTHING
    header = decode_header(fragment(Frame(frame_type, issuer, number, 1, 9, nothing))[0])
    return header._replace(total_length=size)


def _turns(router: Router, body: bytes) -> list[float]:
    """CPU seconds of each turn from the arrival of an RA until the router has nothing left to do."""
    started = time.thread_time()
    kind = router.content.advertisement_frame
    event = FrameReceived(11, forwarded_frame(_header(kind, 11, 1, len(body)), body))
    return _until_idle(router, event, started)


def _messages(router: Router) -> Iterator[tuple[Message, bytes]]:
    """Messages and their bodies: short and long ones, or encoded ones with many bits and with most."""
    if router.content.message_frame is FrameType.XMSG:
        rng = random.Random("messages")
        for suite in (_SUITE, Suite(1, 64, 4, 1), Suite(1, 4_096, 4, 1)) * 2:
            for share in (0.5, 0.89):
                bits = _set(rng.sample(range(suite.bits), int(share * suite.bits)))
                message = BloomMessage(suite, bits, bytes(100))
                yield message, private.encode_message(message)
        return
    for text in ("abcdefgh" * 4, "a" * 60_000) * 3:
        plain = Message({"s": text, "x": 5, "y": 6, "v": 1, "w": 2, "z": 3, "a1": 7})
        yield plain, encode_message(plain)


def _message_turns(router: Router) -> list[float]:
    """CPU seconds of each turn from the arrival of a message until the engine has the whole table."""
    turns = []
    for number, (message, body) in enumerate(_messages(router)):
        small = (
            BloomMessage(_SUITE, 0, bytes(100)) if isinstance(message, BloomMessage) else Message({"s": ""})
        )
        kind = router.content.message_frame
        header = decode_header(fragment(Frame(kind, 12, number, 1, 9, small))[0])
        event = FrameReceived(12, forwarded_frame(header._replace(total_length=len(body)), body))
        started = time.thread_time()
        turns += _until_idle(router, event, started)
    return turns


def _reply_turns(router: Router, body: bytes) -> list[float]:
    """CPU seconds of each turn from an SR of node 21, which goes on to node 12, until its UR was sent."""
    request = Frame(FrameType.SR, 21, 1, 1, 9, SenderRequest(4_000_000))
    started = time.thread_time()
    turns = _until_idle(router, FrameReceived(11, request), started, at=20.0)
    started = time.thread_time()
    kind = router.content.reply_frame
    event = FrameReceived(12, forwarded_frame(_header(kind, 21, 1, len(body)), body))
    turns += _until_idle(router, event, started, at=20.0)
    assert router.counters.urs_sent == 1, "the UR was not taken for an answer"
    return turns


def _local_turns(router: Router, body: bytes) -> list[float]:
    """CPU seconds of each turn from `set_predicate` of an application until the answer and the RA are out.

    The predicate has as many filters as a router takes in a request. A single filter that is too heavy is
    refused; then its leading constraints are set.
    """
    limits = router.options.limits
    if router.content.message_frame is FrameType.XMSG:
        encoded = tuple(private.filters_of(FrameType.XRA, body))[: limits.predicate_filters]
        while (
            len(private.encode_predicate(BloomPredicate(encoded))) * 2 > REQUEST_LIMIT - 1_000
            or router.content.weight(BloomPredicate(encoded)) > limits.predicate_weight
        ):
            encoded = encoded[: len(encoded) * 9 // 10]
        return _set_turns(router, {"encoded": private.encode_predicate(BloomPredicate(encoded)).hex()})
    filters = tuple(filters_of(FrameType.RA, body))
    if len(filters) == 1 and weight_of(filters[0]) > limits.filter_weight:
        refused = _set_turns(router, {"predicate": format_predicate(Predicate(filters))})
        # What is left is not refused: its names and texts take the rest of the weight.
        leading = Filter(filters[0].constraints[: limits.filter_weight * 9 // 10])
        return refused + _set_turns(router, {"predicate": format_predicate(Predicate((leading,)))})
    most = limits.predicate_weight // max(map(weight_of, filters))
    filters = filters[: min(limits.predicate_filters, max(most, 1))]
    while len(text := format_predicate(Predicate(filters))) > REQUEST_LIMIT - 1_000 and len(filters) > 1:
        filters = filters[: len(filters) * (REQUEST_LIMIT - 2_000) // len(text)]
    return _set_turns(router, {"predicate": format_predicate(Predicate(filters))})


def _set_turns(router: Router, request: dict[str, str]) -> list[float]:
    """CPU seconds of each turn from `set_predicate` until the answer, which may be a refusal."""
    session = router.session(1)
    waiting: list[Any] = []
    turns: list[float] = []

    def handle(event: Any) -> list[Any]:
        return _handled(router, event, 10.0)

    started = time.thread_time()
    served: Any = session.commands()["set_predicate"](request, handle)
    while not isinstance(served, tuple):
        try:
            waits = served.send(waiting.pop() if waiting else None)
        except StopIteration:
            break
        except RequestError as error:
            # A filter that is too heavy for an application: every other router would widen it.
            print(f"# refused: {error}", file=sys.stderr)
            break
        turns.append(time.thread_time() - started)
        while waits and not waiting:
            started = time.thread_time()
            actions = _handled(router, Tick(), 10.0)
            turns.append(time.thread_time() - started)
            waiting += [action for action in actions if isinstance(action, PredicateSet | Refused)]
        started = time.thread_time()
    turns.append(time.thread_time() - started)
    return turns


def _handled(router: Router, event: Any, at: float) -> list[Any]:
    """The actions of the core; frames are encoded as the link does, and the turn ends as in the loop."""
    actions = router.handle(event, at)
    for action in actions:
        if isinstance(action, Send):
            fragment(action.frame)
    end_turn()
    return actions


def _until_idle(router: Router, event: Any, started: float, at: float = 10.0) -> list[float]:
    """CPU seconds of the turn of an event, which began at `started`, and of the turns that follow from it."""
    turns = []
    while True:
        _handled(router, event, at)
        turns.append(time.thread_time() - started)
        deadline = router.next_deadline()
        if deadline is None or deadline > at:
            return turns
        event = Tick()
        started = time.thread_time()


def measure(shape: str, size: int, matcher: str) -> dict[str, Any]:
    """The turns of one bomb, and what it left."""
    body = _bomb(shape, size)
    options = RouterOptions(privacy="bloom") if shape in _ENCODED else RouterOptions()
    # The first message of a process loads the engine's machine code, the first RA other code.
    warm = set_up(options, matcher=matcher)
    _turns(warm, _bomb("bits" if shape in _ENCODED else "integers", 5_000))
    _message_turns(warm)
    # As in a router process: the longest turn contains the pauses of the collector.
    gc.collect()
    gc.freeze()
    bound_collections()
    router = set_up(options, matcher=matcher)
    parts = {"RA": _turns(router, body), "MSG": _message_turns(router), "UR": _reply_turns(router, body)}
    kept = predicates_of(router).get(1)
    del router
    parts["max"] = _turns(set_up(replace(options, max_filters=_MAX_FILTERS), matcher=matcher), body)
    router = set_up(options, matcher=matcher)
    parts["p0"] = _local_turns(router, body)
    parts["own"] = _message_turns(router)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return {"parts": parts, "kept": 0 if kept is None else len(kept), "MB": memory}


def _row(shape: str, size: int, runs: list[dict[str, Any]]) -> str:
    """The row of a bomb: of each turn, the least time of several runs."""
    parts = {
        column: [min(turn) for turn in zip(*(run["parts"][column] for run in runs), strict=True)]
        for column in _COLUMNS
    }
    longest = " ".join(f"{1e3 * max(parts[column]):>7,.1f}" for column in _COLUMNS)
    total, count = sum(map(sum, parts.values())), sum(map(len, parts.values()))
    return (
        f"{shape:20} {size:>9,} {longest} {1e3 * total:>10,.0f} {count:>6}"
        f" {runs[0]['kept']:>6} {max(run['MB'] for run in runs):>5}"
    )


def configure(arguments: list[str]) -> dict[str, Any]:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="./run.sh bench bombs", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=list(_SIZES), metavar="BYTES")
    parser.add_argument("--shapes", nargs="*", default=[*_SHAPES, *_SINGLE, *_ENCODED], metavar="SHAPE")
    parser.add_argument("--matcher", default="compiled", metavar="ENGINE")
    parser.add_argument("--runs", type=int, default=1, metavar="N", help="runs of each bomb")
    parser.add_argument("--limit", type=int, default=60, metavar="SECONDS", help="give up on a bomb")
    return vars(parser.parse_args(arguments))


def main(
    sizes: list[int] | None = None,
    shapes: list[str] | None = None,
    limit: int = 60,
    matcher: str = "compiled",
    runs: int = 1,
) -> None:
    """Prints a row for each bomb, each run measured in a process of its own."""
    columns = " ".join(f"{column + ' ms':>7}" for column in _COLUMNS)
    print(
        f"{'shape':20} {'bytes':>9} {columns} {'total ms':>10} {'turns':>6} {'kept':>6} {'MB':>5}", flush=True
    )
    for size in sizes or _SIZES:
        for shape in shapes or (*_SHAPES, *_SINGLE, *_ENCODED):
            command = [sys.executable, "-m", "tests.bench.bombs", shape, str(size), matcher]
            try:
                outputs = [
                    subprocess.run(command, check=True, timeout=limit, stdout=subprocess.PIPE).stdout
                    for _ in range(runs)
                ]
                print(_row(shape, size, [json.loads(output) for output in outputs]), flush=True)
            except subprocess.TimeoutExpired:
                print(f"{shape:20} {size:>9,} {'> ' + str(limit) + ' s':>12}", flush=True)


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]), sys.argv[3])), flush=True)
    # Freeing a large pool takes longer than to measure it.
    os._exit(0)
