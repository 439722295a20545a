"""The network effect (slides on forwarding): one table at a single router, or spread over a network.

The population of filters is that of the project's measurements of matching. (A) One router has an interface
for each receiver. (B) The receivers are attached to the routers of a network
(`testbed.evaluation.figures.network_effect_runs`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from testbed.evaluation.figures.network_effect_runs import MESSAGES, PATHS
from testbed.evaluation.figures.reproduction import (
    Case,
    Panel,
    Reproduction,
    Results,
    Statement,
    Table,
    band_of,
    by_interval,
)

#: The papers' algorithm, and the routers' own.
_ENGINES = ("counting", "compiled")
#: CPU time of a hop beside matching, us -> where it was measured (docs/explanation/engine.md).
_HOPS_US = {
    43.1: "woken for each message (`bench emulated_hops`)",
    2.65: "saturated, its messages in batches (`bench forwarding`)",
}


@dataclass(frozen=True)
class _Arrangement:
    """The receivers and the network of some cases; `sizes`: engine -> constraints of all receivers."""

    network: str
    receivers: int
    covering: bool
    sizes: Mapping[str, Sequence[int]]

    def __str__(self) -> str:
        return f"{self.network}, {self.receivers:,} receivers{', covering' if self.covering else ''}"


_TO_100_000 = dict.fromkeys(_ENGINES, (10_000, 100_000))
_TO_1_000_000 = dict.fromkeys(_ENGINES, (10_000, 100_000, 1_000_000))
#: The compiled engine's table of 5,000,000 constraints takes 0.9 GB, the other's 3 GB and minutes to load.
_TO_5_000_000 = _TO_1_000_000 | {"compiled": (10_000, 100_000, 1_000_000, 5_000_000)}
_ARRANGEMENTS = {
    "small": (
        _Arrangement("10 Waxman routers", 100, False, dict.fromkeys(_ENGINES, (5_000, 50_000))),
        _Arrangement("10 Waxman routers", 10, True, dict.fromkeys(_ENGINES, (5_000, 50_000))),
    ),
    "paper": (
        _Arrangement("100 Waxman routers", 1_000, False, _TO_5_000_000),
        _Arrangement("100 Waxman routers", 1_000, True, _TO_1_000_000),
        _Arrangement("100 Waxman routers", 100, False, _TO_5_000_000),
        _Arrangement("100 Waxman routers", 100, True, _TO_1_000_000),
        _Arrangement("10 Waxman routers", 1_000, True, _TO_1_000_000),
        _Arrangement("10 Waxman routers", 100, False, _TO_100_000),
        _Arrangement("200 Waxman routers", 200, False, _TO_100_000),
        _Arrangement("tree of 121 routers", 121, False, _TO_100_000),
        _Arrangement("tree of 121 routers", 121, True, _TO_100_000),
    ),
}


class NetworkEffect(Reproduction):
    title = "The network effect"
    paper = (
        "End-to-end latency, two scenarios: single router, latency of 350 ms; many routers, latency of 40 ms "
        "(slides on forwarding): a ratio of 8.75.",
    )
    explanation = (
        "A search ends when every interface asked has matched: soon at a router with few interfaces, all "
        "of large predicates. An interface of a small predicate, to own receivers or to a small part of "
        "the network, does not match and makes the search go on. Without covering each router has the "
        "filters of all receivers, so a path of several routers is several searches of the single router. "
        "With covering the few interfaces of a router have far fewer filters.",
    )
    deviations = (
        "The slides give neither constraints nor routers nor path lengths. The largest tables of the "
        "`counting` engine with 1,000 receivers, as many interfaces as the slides have, are judged.",
        "Covering drops filters that another filter of their interface covers, at the single router as in "
        "the network. Filters are not merged.",
        "Matching alone is measured, in one process: the sum over the routers of a path against the single "
        "router, without queues and links. Each message is matched at a router and at the single router in "
        "turn, and the ratio is that of a run: load of the machine counts on both sides. A ratio is at least "
        "5 times if its 10 and 90 % quantiles over the seeds are above.",
        "The crossing point is the table size at which one router = path + hops x cost, on a line in the "
        "logarithms between two measured sizes. The cost is the CPU time of a live router "
        f"{'; '.join(_HOPS_US.values())} (docs/explanation/engine.md): "
        f"{' and '.join(f'{us:g} us' for us in _HOPS_US)}. "
        "In the CSV, `a hop may cost` is the cost beside matching at which both are equally fast (0: the "
        "network is slower by matching alone), and `busiest / one` the matching time of all messages at "
        "the busiest router over that at the single router.",
        "A router of the network has an interface p0 for all its own receivers; a message that p0 selects "
        "is matched against their predicates as well, as live routers do. The slides' tables (I5,f2000) "
        "have few interfaces, all large: times without own receivers are of the neighbours alone.",
        f"{MESSAGES} messages. Along each of {PATHS} paths, from the sender of a message to a receiver that "
        "it matches, every message that matches the receiver is measured. Most messages cross the busiest "
        "router.",
        "Memory is that of the arrays and objects of the compiled engine, and of the Python objects, "
        "filters included, of the papers' algorithm.",
    )

    measure = "testbed.evaluation.figures.network_effect_runs:measured"
    calculates = True

    def cases(self, size: str) -> list[Case]:
        return [
            Case(
                f"{engine}, {arrangement}, {constraints:,} constraints",
                {},
                {
                    "engine": engine,
                    "network": arrangement.network,
                    "receivers": arrangement.receivers,
                    "covering": arrangement.covering,
                    "constraints": constraints,
                },
            )
            for arrangement in _ARRANGEMENTS[size]
            for engine, sizes in arrangement.sizes.items()
            for constraints in sizes
        ]

    def judge(self, results: Results) -> Iterator[Statement]:
        groups = _groups(results)
        for engine in _ENGINES:
            for name, cases in groups.items():
                if of_engine := [case for case in cases if case.facts["engine"] == engine]:
                    yield from self._ratios(name, of_engine[-1], results)

    def _ratios(self, name: str, largest: Case, results: Results) -> Iterator[Statement]:
        facts = largest.facts
        # The largest table of the papers' algorithm, with as many interfaces as the slides have.
        judged = (
            facts["engine"] == "counting" and min(facts["constraints"] / 1e6, facts["receivers"] / 1e3) >= 1
        )
        for key, how in (("path_us", ""), ("forward_us", ", without own receivers")):
            ratios = [one / path for one, path in results.pairs(largest, "single_us", largest, key)]
            found = by_interval(
                f"{facts['engine']}, {name}, {facts['constraints']:,} constraints: matching takes longer "
                f"at one router than along a path{how}{' (at least 5 times)' if judged else ''}",
                "8.75 times (slides)",
                ratios,
                5,
                unit="times",
                scale=1,
            )
            yield found if judged else replace(found, measured=f"{band_of(ratios)} times", holds=None)

    def tables(self, results: Results) -> list[Table]:
        columns = (
            *("engine", "network", "constraints", "hops", "one router, us", "path, us"),
            *("path without own receivers, us", "a hop may cost, us", "busiest / one", "one router, MB"),
            "busiest, MB",
        )
        rows = []
        for name, cases in _groups(results).items():
            for case in cases:
                hops, even = results.median(case, "hops"), _even(case, results)
                total = results.median(case, "single_total_us")
                rows.append(
                    [
                        case.facts["engine"],
                        name,
                        f"{case.facts['constraints']:,}",
                        f"{hops:.2g}",
                        results.band(case, "single_us"),
                        results.band(case, "path_us"),
                        results.band(case, "forward_us"),
                        f"{even:.3g}" if even > 0 else "0",
                        f"{results.median(case, 'busiest_us') / total:.3g}",
                        f"{results.median(case, 'single_bytes') / 1e6:.3g}",
                        f"{results.median(case, 'busiest_bytes') / 1e6:.3g}",
                    ]
                )
        return [Table("Matching of a message", columns, rows), self._crossings(results)]

    def _crossings(self, results: Results) -> Table:
        costs = [(engine, us) for engine in _ENGINES for us in _HOPS_US]
        rows = []
        for name, cases in _groups(results).items():
            cells = []
            for engine, us in costs:
                of_engine = [case for case in cases if case.facts["engine"] == engine]
                cells.append(_crossing_text(_ratios(of_engine, results, us)) if of_engine else "-")
            rows.append([name, *cells])
        columns = ("network", *(f"{engine}, {us:g} us a hop" for engine, us in costs))
        return Table(
            "Constraints from which on the network is faster (beyond the largest table: how many times as "
            "long the network takes there)",
            columns,
            rows,
        )

    def panels(self, results: Results) -> list[Panel]:
        found = []
        for engine in _ENGINES:
            for name, cases in list(_groups(results).items())[:2]:
                of_engine = [
                    (case.facts["constraints"], case) for case in cases if case.facts["engine"] == engine
                ]
                curves = {
                    label: results.curves_over(of_engine, key)
                    for label, key in (
                        ("one router", "single_us"),
                        ("along the path", "path_us"),
                        ("along the path, without own receivers", "forward_us"),
                    )
                }
                found.append(
                    Panel(
                        f"{engine}, {name}",
                        "matching time (us)",
                        curves,
                        x="constraints",
                        percent=False,
                        points=True,
                    )
                )
        return found


def _groups(results: Results) -> dict[str, list[Case]]:
    """Returns the cases of each arrangement, in the order of their engines and sizes."""
    found: dict[str, list[Case]] = {}
    for case in results:
        facts = case.facts
        name = str(_Arrangement(facts["network"], facts["receivers"], facts["covering"], {}))
        found.setdefault(name, []).append(case)
    return found


def _even(case: Case, results: Results) -> float:
    """The cost of a hop at which both arrangements are equally fast, in us."""
    gain = results.median(case, "single_us") - results.median(case, "path_us")
    return gain / results.median(case, "hops")


def _ratios(cases: Sequence[Case], results: Results, hop_us: float) -> list[tuple[int, float]]:
    """Returns (constraints, time at one router / time along the path with its hops)."""
    return [
        (
            case.facts["constraints"],
            results.median(case, "single_us")
            / (results.median(case, "path_us") + hop_us * results.median(case, "hops")),
        )
        for case in cases
        if results.values(case, "path_us")
    ]


def crossing(ratios: Sequence[tuple[int, float]]) -> float | None:
    """Returns the table size from which on a ratio is 1 and more; None: it is below 1 at the largest size.

    Between two sizes the ratio is on a line in the logarithms.

    Args:
        ratios: (size, ratio) by ascending size.
    """
    if not ratios or ratios[-1][1] < 1:
        return None
    for (size, ratio), (larger, above) in reversed(list(pairwise(ratios))):
        if ratio < 1:
            share = math.log(1 / ratio) / math.log(above / ratio)
            return size * math.pow(larger / size, share)
    return float(ratios[0][0])


def _crossing_text(ratios: Sequence[tuple[int, float]]) -> str:
    size = crossing(ratios)
    if not ratios:
        return "no run"
    if size is None:
        return f"beyond {ratios[-1][0]:,} ({1 / ratios[-1][1]:.2g} times)"
    return f"at most {ratios[0][0]:,}" if size == ratios[0][0] else f"{float(f'{size:.2g}'):,.0f}"
