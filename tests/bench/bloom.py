"""The engines for sets of bits on large tables of encoded filters, and the time of a change."""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Sequence
from random import Random
from typing import Any

from router.matching.bloom.engine import TreeMatcher, warm
from router.matching.bloom.table import BitTable
from tests.bench.bit_engines.patricia import PatriciaMatcher
from tests.bench.bit_engines.rebuilt import RebuiltMatcher
from tests.bench.bit_engines.scan import ScanMatcher
from tests.bench.bit_engines.sliced import SlicedMatcher
from tests.bench.bloom_tables import SHAPES, draw_messages, draw_table, encoder

_ENGINES: dict[str, type[TreeMatcher | RebuiltMatcher]] = {
    "tree": TreeMatcher,
    "patricia": PatriciaMatcher,
    "scan": ScanMatcher,
    "sliced": SlicedMatcher,
}
#: The default; Siena Fast Forwarding (config.h), TagMatch, and between.
_SIZES = ((512, 8), (256, 7), (192, 10), (192, 7))
#: Every engine answers so many messages, however slow it is.
_FEWEST = 10


def configure(arguments: list[str]) -> dict[str, Any]:
    """The keyword arguments of `main` that a command line requests."""
    parser = argparse.ArgumentParser(prog="./run.sh bench bloom", description=__doc__)
    parser.add_argument("--filters", type=int, default=1_000_000, metavar="N")
    parser.add_argument("--interfaces", type=int, default=100, metavar="N")
    parser.add_argument("--messages", type=int, default=1_000, metavar="N")
    parser.add_argument("--attributes", type=int, default=10, metavar="N", help="of a message (10)")
    parser.add_argument(
        "--shapes", type=lambda text: text.split("+"), default=list(SHAPES), metavar="NAME+..."
    )
    parser.add_argument("--sizes", type=_sizes, default=_SIZES, metavar="M/K,...", help="bits and hashes")
    parser.add_argument("--encoding", default="slides")
    parser.add_argument("--budget-s", type=float, default=1.0, help="seconds an engine and table (1)")
    return vars(parser.parse_args(arguments))


def _sizes(text: str) -> list[tuple[int, int]]:
    try:
        return [(int(bits), int(hashes)) for bits, hashes in (part.split("/") for part in text.split(","))]
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected sizes such as 512/8,192/10, found {text!r}") from None


def main(
    filters: int,
    interfaces: int,
    messages: int,
    attributes: int,
    shapes: Sequence[str],
    sizes: Sequence[tuple[int, int]],
    encoding: str,
    budget_s: float,
) -> None:
    """Prints a line for each table and engine: all engines at the first size, the fast one at the others."""
    warm()
    print(f"{filters:,} filters, {interfaces:,} interfaces, messages of {attributes} attributes, {encoding}")
    print(
        f"{'table':10} {'m/k':>7} {'engine':9} {'build s':>8} {'bytes/f':>8} {'median us':>10} {'mean us':>9}"
        f" {'messages':>8} {'interfaces':>10}"
    )
    for shape in shapes:
        for bits, hashes in sizes:
            own = encoder(bits, hashes, encoding)
            table = draw_table(own, SHAPES[shape], filters, interfaces)
            drawn = draw_messages(own, messages, attributes)
            answers = {}
            for engine in _ENGINES if (bits, hashes) == tuple(sizes[0]) else ["tree"]:
                matched = _measure(engine, f"{shape:10} {bits:>4}/{hashes:<2}", table, drawn, bits, budget_s)
                answers[engine] = matched[:_FEWEST]
            if any(answer != answers["tree"] for answer in answers.values()):
                raise AssertionError(f"engines differ on the table {shape}, {bits}/{hashes}: {answers}")
            if (bits, hashes) == tuple(sizes[0]):
                _measure_changes(table, drawn, bits)


def _measure(
    engine: str, label: str, table: BitTable, messages: Sequence[bytes], bits: int, budget_s: float
) -> list[frozenset[int]]:
    # What is compiled once is not part of a measurement.
    small = _ENGINES[engine](bits)
    small.load(BitTable(table.rows[:100], table.interface[:100]))
    small.match(messages[0])
    matcher = _ENGINES[engine](bits)
    gc.collect()
    started = time.perf_counter()
    matcher.load(table)
    matcher.match(messages[0])
    build_s = time.perf_counter() - started
    times, answers = [], []
    deadline = time.perf_counter() + budget_s
    for message in messages:
        begun = time.perf_counter()
        found = matcher.match(message)
        times.append(time.perf_counter() - begun)
        answers.append(found)
        if len(times) >= _FEWEST and time.perf_counter() > deadline:
            break
    median, mean = statistics.median(times) * 1e6, statistics.fmean(times) * 1e6
    print(
        f"{label} {engine:9} {build_s:8.2f} {matcher.nbytes / table.filters:8.1f} {median:10.1f} {mean:9.1f}"
        f" {len(times):8,} {sum(map(len, answers)) / len(answers):10.1f}",
        flush=True,
    )
    return answers


def _measure_changes(table: BitTable, messages: Sequence[bytes], bits: int, changes: int = 300) -> None:
    """Prints milliseconds from a change until the next message has been matched on the new table."""
    matcher, source = TreeMatcher(bits), Random(1)
    matcher.load(table)
    octets = bits // 8
    interface = int(table.interface[0])
    rows = [row.tobytes()[:octets] for row in table.rows[:: max(1, len(table.rows) // 10_000)]]
    matcher.replace(interface, rows[: len(rows) // 2])
    matcher.match(messages[0])
    times: dict[str, list[float]] = {"one filter added": [], "one removed": [], "100 added": []}
    held = list(dict.fromkeys(rows[: len(rows) // 2]))
    for number in range(changes):
        fresh = [source.randbytes(octets) for _ in range(101)]
        for what, gone, added in (
            ("one filter added", [], fresh[:1]),
            ("one removed", [held.pop()], []),
            ("100 added", [], fresh[1:]),
        ):
            begun = time.perf_counter()
            matcher.change(interface, gone, added)
            matcher.match(messages[number % len(messages)])
            times[what].append(time.perf_counter() - begun)
    for what, seconds in times.items():
        ordered = sorted(seconds)
        print(
            f"{'':10} {what:18} {statistics.median(ordered) * 1e3:7.3f} ms median,"
            f" {ordered[len(ordered) * 99 // 100] * 1e3:7.3f} ms 99 %, then a message",
            flush=True,
        )
