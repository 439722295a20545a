"""The papers' figures on the counting engine: what a message costs, and what each optimisation saves.

Sources: Carzaniga and Wolf, SIGCOMM 2003 (time against constraints, for r = 0 and r = 10; against filters per
interface; against pre-processing rounds), and the slides ("Sensitivity to Preprocessing"). Medians of
microseconds a message, in plain Python, the fastest of five passes for each message.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from router.matching.columns import to_predicates
from router.matching.counting import excluding
from router.predicates import type_of
from testbed.experiments.siena_ff.generate import MatchingWorkload, draw_messages, draw_table
from testbed.results.report.style import CURVE_COLOURS, GREY, set_logarithmic_ticks, styled
from tests.bench.match_measure import measure
from tests.support.matching_variants import SWITCHES

_MESSAGES = 300
_BUDGET_S = 2
_PASSES = 5
#: Interfaces, and filters of each.
_ROUNDS_SHAPES = ((10_000, 1), (5_000, 2), (1_000, 20), (100, 200))
#: Constraints of a filter on average: 1 to 6.
_PER_FILTER = 3.5


@dataclass(frozen=True)
class Curves:
    """Curves over common x values."""

    title: str
    x_label: str
    x: list[int]
    lines: dict[str, list[float]]
    y_label: str = "median µs"


def _median_us(options: str, constraints: int, interfaces: int) -> float:
    workload = MatchingWorkload(constraints, interfaces, _MESSAGES)
    engine = f"counting:{options}" if options else "counting"
    return measure(engine, draw_table(workload), list(draw_messages(workload)), _BUDGET_S, _PASSES).median_us


def _constraints() -> Curves:
    sizes = [10_000, 20_000, 50_000, 100_000, 200_000]
    lines = {
        f"{filters} filters an interface, r = {rounds}": [
            _median_us(f"rounds={rounds}", size, round(size / _PER_FILTER / filters)) for size in sizes
        ]
        for filters, rounds in itertools.product((20, 200, 2_000), (0, 10))
        if min(sizes) / _PER_FILTER >= filters
    }
    return Curves("time against constraints", "constraints", sizes, lines)


def _filters() -> Curves:
    per_interface = [2, 5, 20, 50, 200, 500, 2_000]
    lines = {
        f"{size:,} constraints": [
            _median_us("", size, max(1, round(size / _PER_FILTER / filters))) for filters in per_interface
        ]
        for size in (10_000, 50_000, 100_000)
    }
    return Curves("time against filters an interface", "filters an interface", per_interface, lines)


def _rounds() -> Curves:
    rounds = [0, 1, 2, 5, 10, 20, 50, 100, 200]
    lines = {
        f"{interfaces:,} interfaces x {filters}": [
            _median_us(f"rounds={r}", _enough(interfaces, filters), interfaces) for r in rounds
        ]
        for interfaces, filters in _ROUNDS_SHAPES
    }
    return Curves("time against pre-processing rounds (interfaces x filters)", "rounds", rounds, lines)


def _excluded() -> Curves:
    rounds = [1, 2, 5, 10, 20, 50, 100, 200, 2_000]
    lines: dict[str, list[float]] = {}
    for interfaces, filters in _ROUNDS_SHAPES:
        workload = MatchingWorkload(_enough(interfaces, filters), interfaces, _MESSAGES)
        predicates = to_predicates(draw_table(workload))
        messages = [
            {(name, type_of(value)) for name, value in message.items()} for message in draw_messages(workload)
        ]
        line = lines[f"{interfaces:,} interfaces x {filters}"] = []
        for limit in rounds:
            table = excluding(predicates, limit)
            total = 0
            for attributes in messages:
                lacking = (interfaces for attribute, interfaces in table if attribute not in attributes)
                total += len(set().union(*lacking))
            line.append(100 * total / (len(messages) * len(predicates)))
    title = "interfaces excluded by pre-processing (interfaces x filters)"
    return Curves(title, "rounds", rounds, lines, "% of interfaces")


def _enough(interfaces: int, filters: int) -> int:
    """Constraints for so many filters an interface, and a few more, so that none goes without."""
    return round(1.05 * interfaces * filters * _PER_FILTER)


def _switches() -> Curves:
    interfaces = [10, 100, 1_000]
    variants = {
        "default": "",
        "rounds=10": "rounds=10",
        **{switch: switch for switch in SWITCHES},
        "all off": ",".join(SWITCHES),
    }
    lines = {
        name: [_median_us(options, 100_000, count) for count in interfaces]
        for name, options in variants.items()
    }
    return Curves("each optimisation, 100,000 constraints", "interfaces", interfaces, lines)


FIGURES: dict[str, Callable[[], Curves]] = {
    "constraints": _constraints,
    "filters": _filters,
    "rounds": _rounds,
    "excluded": _excluded,
    "switches": _switches,
}


def draw_figure(name: str, folder: Path | None) -> None:
    """Prints a figure's numbers, and draws it into `folder`."""
    curves = FIGURES[name]()
    print(f"{curves.title}; {curves.y_label}")
    print(f"{curves.x_label:>34} " + " ".join(f"{x:9,}" for x in curves.x))
    for label, line in curves.lines.items():
        print(f"{label:>34} " + " ".join(f"{y:9.1f}" for y in line), flush=True)
    if folder is None:
        return
    path = folder / f"matching-{name}.png"
    with styled():
        figure = Figure(figsize=(6, 3.6))
        axes = figure.subplots()
        colours = itertools.cycle((*CURVE_COLOURS, GREY))
        for (label, line), colour in zip(curves.lines.items(), colours, strict=False):
            axes.plot(curves.x, line, "o-", color=colour, markersize=4, label=label)
        axes.set(title=curves.title, xlabel=curves.x_label, ylabel=curves.y_label)
        axes.set_yscale("linear" if "%" in curves.y_label else "log")
        if 0 in curves.x:
            axes.set_xscale("symlog")
            axes.set_xlim(left=0)
        else:
            axes.set_xscale("log")
        for axis in (axes.xaxis, axes.yaxis):
            if axis.get_scale() != "linear":
                set_logarithmic_ticks(axis)
        axes.legend(fontsize=8)
        figure.savefig(path, dpi=150)
    print(f"plot: {path}")
