"""The network effect (slides on forwarding): one table at a single router, or spread over a network.

The population of filters is that of the project's measurements of matching. (A) One router has an interface
for each receiver. (B) The receivers are attached to the routers of a network
(`testbed.evaluation.figures.network_effect_runs`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise, product
from typing import Any

from testbed.evaluation.figures import network_effect_runs as runs
from testbed.evaluation.figures.reproduction import Case, Panel, Reproduction, Results, Statement, Table

#: The papers' algorithm, and the routers' own.
_ENGINES = ("counting", "compiled")
#: CPU time of a hop beside matching, us -> where it was measured (docs/explanation/engine.md).
_HOPS_US = {
    43.1: "woken for each message (`bench emulated_hops`)",
    2.65: "saturated, its messages in batches (`bench forwarding`)",
}
#: 350 ms at a single router, 40 ms over many.
_SLIDES = 8.75
_HOPS, _COSTS = "; ".join(_HOPS_US.values()), " and ".join(f"{us:g} us" for us in _HOPS_US)


_TO_100_000 = dict.fromkeys(_ENGINES, (10_000, 100_000))
#: A case of 1,000,000 constraints takes minutes.
_TO_1_000_000 = dict.fromkeys(_ENGINES, (10_000, 100_000, 1_000_000))
#: Size -> network, receivers, whether filters that others cover are dropped, engine -> constraints.
_ARRANGEMENTS: Mapping[str, Sequence[tuple[str, int, bool, Mapping[str, Sequence[int]]]]] = {
    "small": (
        ("10 Waxman routers", 100, False, dict.fromkeys(_ENGINES, (5_000, 50_000))),
        ("10 Waxman routers", 10, True, dict.fromkeys(_ENGINES, (5_000, 50_000))),
    ),
    "paper": (
        ("100 Waxman routers", 1_000, False, _TO_1_000_000),
        ("100 Waxman routers", 1_000, True, _TO_1_000_000),
        ("100 Waxman routers", 100, False, _TO_100_000),
        ("100 Waxman routers", 100, True, _TO_100_000),
        ("10 Waxman routers", 1_000, True, _TO_1_000_000),
        ("10 Waxman routers", 100, False, _TO_100_000),
        ("200 Waxman routers", 200, False, _TO_100_000),
        ("tree of 121 routers", 121, False, _TO_100_000),
        ("tree of 121 routers", 121, True, _TO_100_000),
    ),
}


class NetworkEffect(Reproduction, page="network-effect"):
    measure = f"{runs.__name__}:measured"
    calculates = True

    def cases(self, size: str) -> list[Case]:
        found = []
        for network, receivers, covering, sizes in _ARRANGEMENTS[size]:
            where = {"network": network, "receivers": receivers, "covering": covering}
            found += [
                Case(
                    f"{engine}, {_name(where)}, {constraints:,} constraints",
                    facts={"engine": engine, **where, "constraints": constraints},
                )
                for engine, of_engine in sizes.items()
                for constraints in of_engine
            ]
        return found

    def judge(self, results: Results) -> Iterator[Statement]:
        for (name, _), cases in sorted(_groups(results).items(), key=lambda each: _ENGINES.index(each[0][1])):
            largest, facts = cases[-1], cases[-1].facts
            # The largest table of the papers' algorithm, with as many interfaces as the slides have.
            least = min(facts["constraints"] / 1e6, facts["receivers"] / 1e3)
            judged = facts["engine"] == "counting" and least >= 1
            for key, how in (("path_us", ""), ("forward_us", ", without own receivers")):
                ratios = results.ratios(largest, "single_us", largest, key)
                text = f"{facts['engine']}, {name}, {facts['constraints']:,} constraints: "
                text += f"matching takes longer at one router than along a path{how}"
                predicted, bar = f"{_SLIDES} times (slides)", f"{text} (more than 5 times)"
                if judged:
                    yield Statement.by_interval(bar, predicted, ratios, 5, unit="times")
                else:
                    yield Statement(text, predicted, f"{results.band_of(ratios)} times")

    def tables(self, results: Results) -> list[Table]:
        columns = (
            *("engine", "network", "constraints", "hops", "one router, us", "path, us"),
            *("path without own receivers, us", "a hop may cost, us", "busiest / one", "one router, MB"),
            "busiest, MB",
        )
        costs = [(engine, us) for engine in _ENGINES for us in _HOPS_US]
        groups, rows, crossings = _groups(results), [], []
        for name in dict.fromkeys(name for name, _ in groups):
            for case in (case for engine in _ENGINES for case in groups.get((name, engine), ())):
                of = partial(results.median, case)
                # The cost of a hop at which both arrangements are equally fast.
                even_us = (of("single_us") - of("path_us")) / of("hops")
                rows.append(
                    [
                        case.facts["engine"],
                        name,
                        f"{case.facts['constraints']:,}",
                        f"{of('hops'):.2g}",
                        *(results.band(case, key) for key in ("single_us", "path_us", "forward_us")),
                        f"{even_us:.3g}" if even_us > 0 else "0",
                        f"{of('busiest_us') / of('single_total_us'):.3g}",
                        *(f"{of(f'{place}_bytes') / 1e6:.3g}" for place in ("single", "busiest")),
                    ]
                )
            cells = (_crossing_text(groups.get((name, engine), ()), results, us) for engine, us in costs)
            crossings.append([name, *cells])
        return [
            Table("Matching of a message", columns, rows),
            Table(
                "Constraints from which on the network is faster (beyond the largest table: how many times "
                "as long the network takes there)",
                ("network", *(f"{engine}, {us:g} us a hop" for engine, us in costs)),
                crossings,
            ),
        ]

    def panels(self, results: Results) -> list[Panel]:
        found, groups = [], _groups(results)
        names = [*dict.fromkeys(name for name, _ in groups)][:2]
        for engine, name in product(_ENGINES, names):
            cases = groups.get((name, engine), ())
            curves = {
                label: results.curves_over(cases, "constraints", key)
                for label, key in (
                    ("one router", "single_us"),
                    ("along the path", "path_us"),
                    ("along the path, without own receivers", "forward_us"),
                )
            }
            title, y = f"{engine}, {name}", "matching time (us)"
            found.append(Panel.of_points(title, y, curves, "constraints"))
        ratios = {
            f"{engine}, {name}": results.curves_over(
                cases, "constraints", lambda run: run["single_us"] / run["path_us"]
            )
            for (name, engine), cases in groups.items()
            if name in names
        }
        title, paper = "One router over the path", {f"slides: {_SLIDES}": _SLIDES}
        return [*found, Panel.of_points(title, "times", ratios, "constraints", paper=paper)]


def _name(facts: Mapping[str, Any]) -> str:
    name = f"{facts['network']}, {facts['receivers']:,} receivers"
    return f"{name}, covering" if facts["covering"] else name


def _groups(results: Results) -> dict[tuple[str, str], list[Case]]:
    """Returns the cases of each network and engine, in the order of their sizes."""
    found: dict[tuple[str, str], list[Case]] = {}
    for case in results:
        found.setdefault((_name(case.facts), case.facts["engine"]), []).append(case)
    return found


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


def _crossing_text(cases: Sequence[Case], results: Results, hop_us: float) -> str:
    """Returns where the time at one router is that along the path with its hops."""
    if not cases:
        return "-"
    ratios = []
    for case in cases:
        if results.values(case, "path_us"):
            path_us = results.median(case, "path_us") + hop_us * results.median(case, "hops")
            ratios.append((case.facts["constraints"], results.median(case, "single_us") / path_us))
    if not ratios:
        return "no run"
    size = crossing(ratios)
    if size is None:
        return f"beyond {ratios[-1][0]:,} ({1 / ratios[-1][1]:.2g} times)"
    return f"at most {ratios[0][0]:,}" if size == ratios[0][0] else f"{float(f'{size:.2g}'):,.0f}"
