"""The time of a client, by m, k, encoding and attributes: it encodes and seals messages, and opens them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from random import Random

from router.predicates.encoded.encodings import ENCODINGS
from router.predicates.model import Filter
from router.privacy.sealing import Opener, Sealer
from testbed.content.drawing import draw_message, draw_predicate
from tests.bench.bloom_tables import MessageSizes, encoder


def main(messages: int = 1_000) -> None:
    """Prints median microseconds.

    Of encoding a message whose strings are new or known (the values recur), of encoding a filter, and of
    sealing and opening a message.
    """
    secret = bytes(32)
    print(
        f"{'encoding':9} {'m/k':>7} {'attributes':>10} {'new us':>8} {'known us':>9} {'weight':>7}"
        f" {'filter us':>10} {'seal us':>8} {'open us':>8}"
    )
    for encoding in sorted(ENCODINGS):
        for bits, hashes in ((512, 8), (256, 7), (192, 10), (192, 7)):
            for attributes in (5, 10, 20):
                sizes = MessageSizes(attributes, attributes, 1, 1, 1, 4)
                drawn = [draw_message(Random(seed), sizes) for seed in range(messages)]
                filters: list[Filter] = [
                    filter_ for seed in range(messages) for filter_ in draw_predicate(Random(seed), sizes)
                ]
                own = encoder(bits, hashes, encoding)
                weights = [own.message_bits(message).bit_count() for message in drawn]
                known = _median_us(own.message_bits, drawn)
                # A fresh encoder remembers no string.
                new = _median_us(lambda message: encoder(bits, hashes, encoding).message_bits(message), drawn)  # noqa: B023
                made = _median_us(lambda _: encoder(bits, hashes, encoding), drawn)  # noqa: B023
                sealer, opener = Sealer(secret, Random(1)), Opener(secret)
                pairs = [(own.message_bits(message), message) for message in drawn]
                sealed = [sealer.seal(own.suite, *pair) for pair in pairs]
                opened = _median_us(opener.open, sealed)
                sealing = _median_us(lambda pair: sealer.seal(own.suite, *pair), pairs)  # noqa: B023
                print(
                    f"{encoding:9} {bits:>4}/{hashes:<2} {attributes:10} {new - made:8.1f} {known:9.1f}"
                    f" {statistics.fmean(weights):7.1f} {_median_us(own.filter, filters):10.1f}"
                    f" {sealing:8.1f} {opened:8.1f}",
                    flush=True,
                )


def _median_us(function: Callable[..., object], inputs: Sequence[object]) -> float:
    times = []
    for given in inputs:
        begun = time.perf_counter()
        function(given)
        times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1e6
