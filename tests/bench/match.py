"""The matching engines on the papers' workload, beside the C++ original.

The reference times of Siena Fast Forwarding (SFF 2.0.1, optimised build, this workload, matching alone, two
cores like those that this project is developed on) were measured once, elsewhere; everything else in this
run, each engine on each table in a process of its own. Slow engines match fewer messages.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from router.matching.engines import ENGINES, factory
from testbed.experiments.siena_ff.generate import MatchingWorkload, draw_messages, draw_table
from testbed.results.report.style import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, set_logarithmic_ticks, styled
from tests.bench.match_figures import FIGURES, draw_figure
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


def configure(arguments: list[str]) -> dict[str, Any]:
    """The keyword arguments of `main` that a command line asks for."""
    parser = argparse.ArgumentParser(prog="./run.sh bench match", description=__doc__)
    parser.add_argument("--constraints", type=_numbers, default=[10_000, 100_000, 1_000_000], metavar="N,...")
    parser.add_argument("--interfaces", type=_numbers, default=[10, 100, 1_000], metavar="N,...")
    parser.add_argument("--engines", type=lambda text: text.split("+"), default=None, metavar="NAME+...")
    parser.add_argument("--messages", type=int, default=1_000, metavar="N", help="messages a table (1,000)")
    parser.add_argument("--budget-s", type=float, default=5, help="seconds an engine and table (5)")
    parser.add_argument("--passes", type=int, default=1, help="passes of which the fastest counts (1)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--figure", choices=[*FIGURES, "all"], help="one of the papers' figures in place of the engines"
    )
    parser.add_argument("--plots", type=Path, metavar="DIR", help="folder for plots (none are made)")
    return vars(parser.parse_args(arguments))


def _numbers(text: str) -> list[int]:
    units = {"k": 1_000, "M": 1_000_000}
    try:
        return [
            int(part[:-1]) * units[part[-1]] if part[-1:] in units else int(part) for part in text.split(",")
        ]
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected numbers such as 10k,1M, found {text!r}") from None


def main(
    constraints: Sequence[int],
    interfaces: Sequence[int],
    engines: Sequence[str] | None,
    messages: int,
    budget_s: float,
    passes: int,
    seed: int,
    figure: str | None,
    plots: Path | None,
) -> None:
    """Prints a line for each engine and table, or the papers' figures."""
    if plots is not None:
        plots.mkdir(parents=True, exist_ok=True)
    if figure is not None:
        for name in FIGURES if figure == "all" else [figure]:
            draw_figure(name, plots)
        return
    names = list(engines or sorted(ENGINES))
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
            measured = found[size, count, name] = measure(name, table, drawn, budget_s, passes)
            _print(size, count, name, measured, found[size, count, names[0]])
        matched = {(m.messages, m.matches) for (s, c, _), m in found.items() if (s, c) == (size, count)}
        if len({answer for answer in matched if answer[0] == messages}) > 1:
            raise AssertionError(f"engines differ, {size:,} constraints, {count:,} interfaces: {matched}")
    if plots is not None:
        _plot(found, plots / "matching-growth.png")


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
