"""The longest turn of a router's core under predicates made to be expensive, by shape and size.

A router in an epoch receives one RA; afterwards it works off what it has put aside, turn by turn. Then it
receives messages that p_i has to be searched for, until the matching engine has all of p_i. A turn is the
time of one call of `Router.handle`, in CPU milliseconds of the process; *RA ms* and *MSG ms* are the longest
turns of both parts, *total* is the sum of all turns. *Kept* is the number of filters in p_i at the end. The
body is taken from the wire within the measured time, as the link of a router does.
"""

from __future__ import annotations

import argparse
import gc
import random
import resource
import string
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from router.predicates.model import NOTHING, Constraint, Filter, Message, Operator, Predicate, Type
from router.protocol.events import FrameReceived, Tick
from router.protocol.router import Router
from router.wire.codec import decode_header, forwarded_frame, fragment
from router.wire.frames import Frame, FrameType
from router.wire.message import encode_message
from router.wire.predicate import encode_predicate
from tests.support.one_router import set_up
from tests.support.router_tables import predicates_of

_SIZES = (20_000, 200_000, 2_000_000)
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
    "prefixes, suffixes": _many(
        lambda rng, n: Filter(
            (_string("s", Operator.SUFFIX if n % 2 else Operator.PREFIX, _text(rng, rng.randrange(1, 10))),)
        )
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
    parts, length = [], 0
    for filter_ in _SHAPES[shape](rng):
        part = encode_predicate(Predicate((filter_,)))
        if length + len(part) > size:
            break
        parts.append(part)
        length += len(part)
    return b"".join(parts)


def _turns(router: Router, body: bytes) -> list[float]:
    """CPU seconds of each turn from the arrival of an RA until the router has nothing left to do."""
    started = time.process_time()
    header = decode_header(fragment(Frame(FrameType.RA, 11, 1, 1, 9, NOTHING))[0])
    event: Any = FrameReceived(11, forwarded_frame(header._replace(total_length=len(body)), body))
    return _until_idle(router, event, started)


def _message_turns(router: Router) -> list[float]:
    """CPU seconds of each turn from the arrival of a message until the engine has the whole table."""
    message = Message({"s": "abcdefgh" * 4, "x": 5, "y": 6, "v": 1, "w": 2, "z": 3, "a1": 7})
    header = decode_header(fragment(Frame(FrameType.MSG, 12, 1, 1, 9, message))[0])
    body = encode_message(message)
    turns = []
    for _ in range(3):
        started = time.process_time()
        turns += _until_idle(router, FrameReceived(12, forwarded_frame(header, body)), started)
    return turns


def _until_idle(router: Router, event: Any, started: float) -> list[float]:
    """CPU seconds of the turn of an event, which began at `started`, and of the turns that follow from it."""
    turns = []
    now = 10.0
    while True:
        router.handle(event, now)
        turns.append(time.process_time() - started)
        deadline = router.next_deadline()
        if deadline is None or deadline > now:
            return turns
        event = Tick()
        started = time.process_time()


def measure(shape: str, size: int, matcher: str) -> str:
    """The row of one bomb."""
    body = _bomb(shape, size)
    # The first message of a process loads the engine's machine code.
    _message_turns(set_up(matcher=matcher))
    router = set_up(matcher=matcher)
    gc.collect()
    gc.disable()
    turns = _turns(router, body)
    asking = _message_turns(router)
    kept = predicates_of(router).get(1)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return (
        f"{shape:20} {size:>9,} {1e3 * max(turns):>9,.1f} {1e3 * max(asking):>9,.1f}"
        f" {1e3 * (sum(turns) + sum(asking)):>12,.1f} {len(turns) + len(asking):>6}"
        f" {0 if kept is None else len(kept):>7} {memory:>7}"
    )


def configure(arguments: list[str]) -> dict[str, Any]:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="./run.sh bench bombs", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=list(_SIZES), metavar="BYTES")
    parser.add_argument("--shapes", nargs="*", default=[*_SHAPES, *_SINGLE], metavar="SHAPE")
    parser.add_argument("--matcher", default="compiled", metavar="ENGINE")
    parser.add_argument("--limit", type=int, default=60, metavar="SECONDS", help="give up on a bomb")
    return vars(parser.parse_args(arguments))


def main(
    sizes: list[int] | None = None,
    shapes: list[str] | None = None,
    limit: int = 60,
    matcher: str = "compiled",
) -> None:
    """Prints a row for each bomb, each measured in a process of its own."""
    print(
        f"{'shape':20} {'bytes':>9} {'RA ms':>9} {'MSG ms':>9} {'total ms':>12} {'turns':>6}"
        f" {'kept':>7} {'MB':>7}"
    )
    for size in sizes or _SIZES:
        for shape in shapes or (*_SHAPES, *_SINGLE):
            command = [sys.executable, "-m", "tests.bench.bombs", shape, str(size), matcher]
            try:
                subprocess.run(command, check=True, timeout=limit)
            except subprocess.TimeoutExpired:
                print(f"{shape:20} {size:>9,} {'> ' + str(limit) + ' s':>12}", flush=True)


if __name__ == "__main__":
    print(measure(sys.argv[1], int(sys.argv[2]), sys.argv[3]), flush=True)
