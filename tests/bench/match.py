"""The matching engines on the papers' workload, beside the C++ original.

The reference times of Siena Fast Forwarding (SFF 2.0.1, optimised build, this workload, matching alone, two
cores like those that this project is developed on) were measured once, elsewhere; everything else in this
run, each engine on each table in a process of its own. Slow engines match fewer messages.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from router.matching.engines import ENGINES, factory
from testbed.experiments.siena_ff.generate import MatchingWorkload, draw_messages, draw_table
from testbed.results.report.style import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, set_logarithmic_ticks, styled
from tests.bench.match_measure import Measured, measure

#: (constraints, interfaces) -> microseconds a message. 10,000: 4 to 6, whatever the interfaces.
SFF_US = {
    (10_000, 10): 5,
    (10_000, 100): 5,
    (10_000, 1_000): 5,
    (100_000, 10): 13,
    (100_000, 100): 30,
    (100_000, 1_000): 28,
    (1_000_000, 10): 38,
    (1_000_000, 100): 567,
    (1_000_000, 1_000): 1_120,
    (5_000_000, 10): 127,
    (5_000_000, 1_000): 12_200,
}
_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY)


def main(
    constraints: Sequence[int] = (10_000, 100_000, 1_000_000),
    interfaces: Sequence[int] = (10, 100, 1_000),
    engines: Sequence[str] = tuple(sorted(ENGINES)),
    messages: int = 1_000,
    budget_s: float = 5.0,
    seed: int = 1,
    plots: str = "",
) -> None:
    """Prints a line for each engine and table.

    Args:
        messages, budget_s: of a table at most, and seconds of an engine on a table.
        plots: folder for the plot; "": none.
    """
    names = list(engines)
    print(f"{messages:,} messages at most, {budget_s:g} s at most; medians of microseconds a message")
    print(
        f"{'constraints':>11} {'interfaces':>10} {'engine':24} {'build s':>8} {'bytes/c':>8} {'us':>10}"
        f" {'x ' + names[0]:>11} {'messages':>8} {'SFF us':>8} {'SFF / us':>8}"
    )
    found: dict[tuple[int, int, str], Measured] = {}
    for size, count in itertools.product(constraints, interfaces):
        workload = MatchingWorkload(size, count, messages, seed)
        table, drawn = draw_table(workload), list(draw_messages(workload))
        for name in names:
            factory(name)  # what is compiled once is not part of any measurement
            measured = found[size, count, name] = measure(name, table, drawn, budget_s)
            _print(size, count, name, measured, found[size, count, names[0]])
        matched = {(m.messages, m.matches) for (s, c, _), m in found.items() if (s, c) == (size, count)}
        if len({answer for answer in matched if answer[0] == messages}) > 1:
            raise AssertionError(f"engines differ, {size:,} constraints, {count:,} interfaces: {matched}")
    if plots:
        Path(plots).mkdir(parents=True, exist_ok=True)
        _plot(found, Path(plots, "matching-growth.png"))


def _print(size: int, count: int, name: str, measured: Measured, first: Measured) -> None:
    reference = SFF_US.get((size, count))
    sff = f"{reference:8,} {reference / measured.median_us:8.2f}" if reference else f"{'-':>8} {'-':>8}"
    ratio = measured.median_us / first.median_us
    print(
        f"{size:11,} {count:10,} {name:24} {measured.build_s:8.2f} {measured.nbytes / size:8.1f}"
        f" {measured.median_us:10.1f} {ratio:11.1f} {measured.messages:8,} {sff}",
        flush=True,
    )


def _plot(found: dict[tuple[int, int, str], Measured], path: Path) -> None:
    """Median time a message against the number of constraints, a panel for each number of interfaces."""
    counts = sorted({count for _, count, _ in found})
    names = list(dict.fromkeys(name for *_, name in found))
    with styled():
        figure = Figure(figsize=(3.2 * len(counts) + 0.8, 3.8))
        panels = figure.subplots(1, len(counts), sharey=True, squeeze=False)[0]
        for panel, count in zip(panels, counts, strict=True):
            for name, colour in zip(names, itertools.cycle(_COLOURS), strict=False):
                points = sorted((s, m.median_us) for (s, c, n), m in found.items() if (c, n) == (count, name))
                panel.plot(*zip(*points, strict=True), "o-", color=colour, markersize=4, label=name)
            sizes = [size for size, c in SFF_US if c == count]
            reference = [SFF_US[size, count] for size in sizes]
            panel.plot(sizes, reference, "s--", color=GREY, markersize=4, label="SFF 2.0.1 (C++, reference)")
            panel.set(xscale="log", yscale="log", title=f"{count:,} interfaces", xlabel="constraints")
            for axis in (panel.xaxis, panel.yaxis):
                set_logarithmic_ticks(axis)
        panels[0].set_ylabel("median µs a message")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
        figure.savefig(path, dpi=150)
    print(f"plot: {path}")
