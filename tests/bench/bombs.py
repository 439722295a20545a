"""The longest turn of a router under predicates made to be expensive, by shape and size.

A router without sockets, with codec and core, gets the Ethernet frames of its neighbours, of 1,500 bytes.
One neighbour sends an RA of the size (*RA*). Then come messages that p_i has to be searched for: short ones,
and ones with a text of 60,000 letters (*MSG*). Another neighbour sends the same predicate as its UR, with
which an SR is answered (*UR*). A further router with `max_filters` over-simplifies p_i after the RA (*max*).

A bomb of 0 bytes has as many filters as a router reads with its default bounds. The shapes whose names begin
with *bits* are of encoded predicates and messages (`[privacy] mode = "bloom"`).

A turn is the handling of a frame, or of a deadline, until its frames are made ready to be sent; the columns
are milliseconds of CPU. With `--runs`, the least of the longest turns counts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from itertools import product
from multiprocessing import get_context
from typing import Any

from router.protocol.events import Event, FrameReceived, Send, Tick
from router.protocol.options import RouterOptions, content_of
from router.wire.codec import forwarded_frame, fragment
from router.wire.frames import Body, EncodedPredicate, Frame, FrameType, SenderRequest
from router.wire.intake import FrameIntake
from tests.bench.bomb_shapes import AT_BOUNDS, ENCODED, SHAPES, SINGLE, bomb, messages
from tests.support.one_router import set_up
from tests.support.packets import ethernet

_COLUMNS = ("RA", "MSG", "UR", "max")
_ALL = (*SHAPES, *SINGLE, *ENCODED)
#: `max_filters` of the column *max*.
_MAX_FILTERS = 50
_MTU = 1_500
_TIMEOUT_US = 1_000_000


class _Router:
    """A router in its first epoch, on the table of `tests.support.one_router`, and its longest turns."""

    def __init__(self, options: RouterOptions, matcher: str) -> None:
        self.longest_s = dict.fromkeys(_COLUMNS, 0.0)
        self._core = set_up(options, matcher=matcher)
        self._intake = FrameIntake(forwarded_frame)
        self._now = 0.0

    def receive(self, column: str, sender: int, frame: Frame) -> None:
        """Takes a frame of a neighbour, and works until nothing is left to do."""
        for data in ethernet(frame, sender, _MTU):
            self._turn(column, partial(self._take, data))
        while not self._core.idle and (due := self._core.next_deadline()) is not None:
            self._now = max(self._now, due)
            self._turn(column, partial(self._handle, Tick()))

    def _turn(self, column: str, work: Callable[[], None]) -> None:
        began = time.process_time()
        work()
        self.longest_s[column] = max(self.longest_s[column], time.process_time() - began)

    def _take(self, data: bytes) -> None:
        taken = self._intake.take(data, self._now)
        if taken is not None:
            self._handle(FrameReceived(taken[0], taken[1]))

    def _handle(self, event: Event) -> None:
        for action in self._core.handle(event, self._now):
            if isinstance(action, Send):
                fragment(action.frame, _MTU)


def measure(shape: str, size: int, matcher: str, max_filters: int | None = None) -> dict[str, float]:
    """The longest turns of one bomb, seconds by column; with `max_filters`, only *max*."""
    options = RouterOptions(privacy="bloom" if shape in ENCODED else "off", max_filters=max_filters)
    content = content_of(options.covering, options.privacy)
    body = bomb(shape, size)

    def frame(kind: FrameType, issuer: int, seq: int, content: Body) -> Frame:
        return Frame(kind, issuer, seq, 1, 9, content)

    def of_bomb(kind: FrameType, issuer: int) -> Frame:
        return frame(kind, issuer, 1, EncodedPredicate(kind, body))

    router = _Router(options, matcher)
    router.receive("RA" if max_filters is None else "max", 11, of_bomb(content.advertisement_frame, 11))
    if max_filters is not None:
        return router.longest_s
    for number, message in enumerate(messages(shape)):
        router.receive("MSG", 12, frame(content.message_frame, 12, number, message))
    for data in ethernet(frame(FrameType.SR, 21, 1, SenderRequest(_TIMEOUT_US)), 11, _MTU):
        router._turn("UR", partial(router._take, data))
    router.receive("UR", 12, of_bomb(content.reply_frame, 21))
    return router.longest_s


def configure(arguments: list[str]) -> dict[str, Any]:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="./run.sh bench bombs", description=__doc__)
    sizes = [20_000, 200_000, 2_000_000, AT_BOUNDS]
    parser.add_argument("--sizes", type=int, nargs="*", default=sizes, metavar="BYTES")
    parser.add_argument("--shapes", nargs="*", default=_ALL, metavar="SHAPE")
    parser.add_argument("--matcher", default="compiled", metavar="ENGINE")
    parser.add_argument("--runs", type=int, default=1, metavar="N", help="runs of each bomb")
    return vars(parser.parse_args(arguments))


def main(sizes: list[int], shapes: list[str], matcher: str, runs: int) -> None:
    """Prints a row for each bomb."""
    # What is compiled, or loaded, once is no part of a turn.
    for shape in (*SHAPES, *ENCODED):
        measure(shape, 1_000, matcher)
    print(f"{'shape':28} {'bytes':>9} " + " ".join(f"{column + ' ms':>7}" for column in _COLUMNS), flush=True)
    # In a process each: none finds in a cache what another one has calculated.
    with get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        for size, shape in product(sizes, shapes):
            found = [
                pool.starmap(measure, [(shape, size, matcher), (shape, size, matcher, _MAX_FILTERS)], 1)
                for _ in range(runs)
            ]
            longest = " ".join(
                f"{1e3 * min(max(each[column] for each in run) for run in found):7,.1f}"
                for column in _COLUMNS
            )
            print(f"{shape:28} {size:>9,} {longest}", flush=True)
