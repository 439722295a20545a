"""Measures what the attention paper leaves open: options of the service, losses, delays, full links.

Section 5 of the paper evaluates one setting.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from testbed.evaluation.figures.attention import PAPER_SAVES, STRATEGIES, safety
from testbed.evaluation.figures.reproduction import Case, Panel, Reproduction, Results, Statement, Table

#: The keys that a variant sets.
Overrides = Mapping[str, str]

#: A share of starved rounds that counts as few, of the specification.
_FEW = 0.01
#: Max of the runs, and of those with paced links: with less, the links are not full.
_MAX, _PACED_MAX = 10, 50
_SHIPPED: Overrides = {}
_EXACT, _DIVIDED = {"service.history": "exact"}, {"service.fan_out": "divided"}
#: Where the text of the paper has two readings, or its numbers are not reached.
_READINGS: Sequence[Overrides] = (
    *(_SHIPPED, _EXACT, _DIVIDED, _EXACT | _DIVIDED),
    {"service.remote": "all"},
    {"service.count_in_transit": "true"},
    {"service.en_route": "true"},
    {"workload.attention.draw": "uniform"},
    {"workload.attention.pick": "uniform"},
)
#: Table 1 with ten times its routers and publications.
_LARGE = {"topology.nodes": "1000", "workload.attention.publications": "5000000"}
_POLICIES = {
    key: [*({f"service.{key}": policy} for policy in ("mf", "lru", "mru", "mfu")), *by_type]
    for key, by_type in {
        "selection": [{"service.selection_types": "true"}],
        "replacement": [
            {"service.replacement_types": f"{each}-first"} for each in ("pending", "disseminated")
        ],
    }.items()
}
#: The last is that of `diallo-small`.
_CACHES = (50, 100, 200, 400)
_LOSSES, _DELAYS_MS = ("0.5", "2", "5"), (10, 100, 1000)
_PACES, _SCHEDULERS = (0.005, 0.01, 0.02), ("fifo", "cbf")

#: Heading of a column -> the key of the measurement, and the factor of its unit.
_COLUMNS: Mapping[str, tuple[str, float]] = {
    "saved, %": ("saved_bandwidth", 100),
    "FLUSHes counted, %": ("saved_with_flushes", 100),
    "control / CBR's, %": ("control_overhead", 100),
    "satisfied, %": ("satisfied", 100),
    "starved, %": ("starvation", 100),
    "publications in excess": ("overload", 1),
}


def _topologies(nodes: int) -> Iterator[Overrides]:
    """Graphs of average degree 2 "following a power-law distribution", and of degree 4."""
    yield {"topology.links_per_node": "2"}
    yield {"topology": f'{{ generator = "power_law", nodes = {nodes}, least_degree = 1 }}'}


def _cached(size: int, flushed: bool) -> Overrides:
    keys = {"service.cache_publications": f"{size}"} if size != _CACHES[-1] else {}
    return keys | ({"service.flushing": "neighbour"} if flushed else {})


def _lossy(percent: str, topped_up: bool) -> Overrides:
    return {"links.loss_percent": percent} | ({"service.top_up_s": "5"} if topped_up else {})


def _delayed(delay_ms: int) -> Overrides:
    # A frame crosses up to 8 links.
    return {"links.delay_ms": f"{delay_ms}", "oracle.in_flight_window_s": f"{max(0.5, delay_ms / 100):g}"}


def _paced(pace_mbps: float, scheduler: str) -> Overrides:
    return {"service.pace_mbps": f"{pace_mbps}", "service.scheduler": scheduler}


def _name(overrides: Overrides) -> str:
    """Names a variant by what it sets, as in a file: with the number of nodes and the window left out."""
    if "topology" in overrides:
        return 'generator = "power_law", least_degree = 1'
    keys = {key.rpartition(".")[2]: value for key, value in overrides.items()}
    keys.pop("in_flight_window_s", None)
    if "pace_mbps" in keys:
        keys = {"max": f"{_PACED_MAX}", **keys}
    plain = re.compile(r"[\d.]+|true|false").fullmatch
    texts = (f"{key} = {value}" if plain(value) else f'{key} = "{value}"' for key, value in keys.items())
    return ", ".join(texts) or "as shipped"


class AttentionOpen(Reproduction):
    title = "Attention-limited dissemination: what the paper leaves open"
    paper = (
        "We did not yet evaluate the content-based forwarding algorithm, nor the whole space for all the "
        "caching policies (section 5).",
        "This promising approach deserves further analysis in order to isolate the gains obtained thanks to "
        "caching policies from those of the dissemination methods and the forwarding algorithm (section 7).",
    )
    explanation = (
        "A variant changes the keys that it names alone. `history` and `fan_out` separate two causes for "
        "which EON and PDP save less than the paper reports: a refreshed subscription takes nothing that "
        "its router delivered to another subscription (RQ without a history), and a SUB asks every child "
        "for all that is lacking.",
    )
    deviations = (
        f"Max is 10; {_PACED_MAX} in the runs with paced links.",
        "A FLUSH counts as a publication, be it a copy, an offer of custody or the answer to an offer.",
        "Size `small` is the experiment `diallo-small` with every variant; size `paper` is `diallo`, table "
        "1, with those that bear on the difference to the paper's numbers; size `large` is table 1 with ten "
        "times its routers and its publications.",
    )
    measure = "testbed.evaluation.figures.attention:measured"
    calculates = True
    sizes = ("small", "paper", "large")

    def cases(self, size: str) -> list[Case]:
        if size == "large":
            return _cases("diallo", [_LARGE])
        if size == "paper":
            return _cases("diallo", [*_READINGS, *_topologies(100)])
        variants = [*_READINGS, *_topologies(25), *_POLICIES["selection"], *_POLICIES["replacement"]]
        variants += [_cached(*each) for each in product(_CACHES, (False, True)) if _cached(*each)]
        variants += [_lossy(*each) for each in product(_LOSSES, (False, True))]
        variants += [_delayed(each) for each in _DELAYS_MS]
        paced = [_paced(*each) for each in product(_PACES, _SCHEDULERS)]
        return [*_cases("diallo-small", variants), *_cases("diallo-small", paced, _PACED_MAX)]

    def judge(self, results: Results) -> Iterator[Statement]:
        for strategy, cases in _by_strategy(results).items():
            yield from _statements(results, cases, strategy)
        yield safety(results)

    def panels(self, results: Results) -> list[Panel]:
        by_strategy = _by_strategy(results).items()
        found = [panel for strategy, cases in by_strategy for panel in _panels(results, cases, strategy)]
        return [panel for panel in found if panel.curves]

    def tables(self, results: Results) -> list[Table]:
        return [
            Table(
                f"{strategy.upper()}, median [10 %, 90 %] over the seeds",
                ["variant", *_COLUMNS],
                [
                    [f"`{name}`", *(results.band(case, *column) for column in _COLUMNS.values())]
                    for name, case in cases.items()
                ],
            )
            for strategy, cases in _by_strategy(results).items()
        ]


def _cases(base: str, variants: Sequence[Overrides], most: int = _MAX) -> list[Case]:
    return [
        Case(
            f"{strategy}, {_name(overrides)}",
            {},
            {
                "base": base,
                "strategy": strategy,
                "max": most,
                "variant": _name(overrides),
                "overrides": dict(overrides),
            },
        )
        for strategy, overrides in product(STRATEGIES, variants)
    ]


def _by_strategy(results: Results) -> dict[str, dict[str, Case]]:
    """Returns the cases by strategy and the name of the variant."""
    found: dict[str, dict[str, Case]] = {strategy: {} for strategy in STRATEGIES}
    for case in results:
        found[case.facts["strategy"]][case.facts["variant"]] = case
    return found


def _statements(results: Results, cases: Mapping[str, Case], strategy: str) -> Iterator[Statement]:
    """The statements about a strategy; none about variants that are not among the cases."""

    def has(overrides: Overrides) -> bool:
        return _name(overrides) in cases

    def median(overrides: Overrides, key: str) -> float:
        return results.median(cases[_name(overrides)], key)

    def band(overrides: Overrides, key: str, scale: float = 100) -> str:
        text = results.band(cases[_name(overrides)], key, scale)
        return f"{text} %" if scale == 100 else text

    name = strategy.upper()
    for each in filter(has, (_SHIPPED, _LARGE)):
        yield Statement(
            f"{name}: {_name(each)}, few rounds starve",
            f"at most {_FEW:.0%}",
            band(each, "starvation"),
            median(each, "starvation") <= _FEW,
        )
    if has(both := _EXACT | _DIVIDED):
        yield Statement(
            f"{name}: a refreshed subscription that may take all that it has not had costs less bandwidth",
            f"`{_name(_EXACT)}` saves more than as shipped",
            f"{band(_EXACT, 'saved_bandwidth')} against {band(_SHIPPED, 'saved_bandwidth')}",
            median(_EXACT, "saved_bandwidth") > median(_SHIPPED, "saved_bandwidth"),
        )
        yield Statement(
            f"{name}: a SUB that divides what is lacking among children brings less in excess",
            f"fewer with `{_name(_DIVIDED)}` than as shipped",
            f"{band(_DIVIDED, 'overload', 1)} against {band(_SHIPPED, 'overload', 1)}; "
            f"{band(_DIVIDED, 'saved_bandwidth')} saved, "
            f"{band(_DIVIDED, 'starvation')} of the rounds starved",
            median(_DIVIDED, "overload") < median(_SHIPPED, "overload"),
        )
        yield Statement(
            f"{name}: the saved bandwidth with both, beside the paper's",
            f"up to {PAPER_SAVES[strategy]:.0%} saved",
            f"`{_name(both)}`: {band(both, 'saved_bandwidth')} saved, "
            f"{band(both, 'starvation')} of the rounds starved",
            None,
        )
    if all(has(each) for variants in _POLICIES.values() for each in variants):
        saved = {
            key: [median(each, "saved_bandwidth") for each in (_SHIPPED, *variants)]
            for key, variants in _POLICIES.items()
        }
        spreads = {key: max(values) - min(values) for key, values in saved.items()}
        yield Statement(
            f"{name}: replacement matters more than selection",
            "saved bandwidth of the best policy less that of the worst",
            ", ".join(f"{key} {spread:.1%}" for key, spread in spreads.items()),
            spreads["replacement"] > spreads["selection"],
        )
    if has(_cached(_CACHES[0], True)):
        pairs = {
            size: (
                median(_cached(size, False), "saved_bandwidth"),
                median(_cached(size, True), "saved_with_flushes"),
            )
            for size in _CACHES
        }
        yield Statement(
            f"{name}: flushing costs more bandwidth than it saves, with any cache",
            "less saved, FLUSHes counted, than without flushing",
            ", ".join(f"{size}: {flushed:.1%}, not {off:.1%}" for size, (off, flushed) in pairs.items()),
            all(flushed < off for off, flushed in pairs.values()),
        )
    for what, variants in (
        ("loses frames", [_lossy(percent, False) for percent in _LOSSES]),
        ("loses frames and SUBs are sent twice", [_lossy(percent, True) for percent in _LOSSES]),
        ("has links with delays", [_delayed(each) for each in _DELAYS_MS]),
    ):
        if all(map(has, variants)):
            starved = ", ".join(f"`{_name(each)}`: {band(each, 'starvation')}" for each in variants)
            yield Statement(f"{name}: rounds starved where the network {what}", "none", starved, None)
    if has(_paced(_PACES[0], "cbf")):
        satisfied = {
            pace: [median(_paced(pace, each), "satisfied") for each in _SCHEDULERS] for pace in _PACES
        }
        yield Statement(
            f"{name}: priority forwarding satisfies more rounds where links are full",
            '`scheduler = "cbf"` above `"fifo"` with each `pace_mbps`',
            ", ".join(f"{pace:g}: {cbf:.1%}, not {fifo:.1%}" for pace, (fifo, cbf) in satisfied.items()),
            all(cbf > fifo for fifo, cbf in satisfied.values()),
        )


def _panels(results: Results, cases: Mapping[str, Case], strategy: str) -> Iterator[Panel]:
    def curves(variants: Mapping[float, Overrides], key: str) -> list[list[tuple[float, float]]]:
        names = {x: _name(each) for x, each in variants.items()}
        drawn = set(names.values()) <= cases.keys()
        return results.curves_over([(x, cases[name]) for x, name in names.items()], key) if drawn else []

    name, known = strategy.upper(), set(map(_name, (*_READINGS, _LARGE)))
    readings = {
        variant: [
            [point]
            for point in zip(
                results.values(case, "overload"), results.values(case, "saved_bandwidth"), strict=True
            )
        ]
        for variant, case in cases.items()
        if variant in known
    }
    off, flushed = ({float(size): _cached(size, each) for size in _CACHES} for each in (False, True))
    caches = {
        "not flushed": curves(off, "saved_bandwidth"),
        "flushed": curves(flushed, "saved_bandwidth"),
        "flushed, FLUSHes counted": curves(flushed, "saved_with_flushes"),
    }
    satisfied = {
        each: curves({pace: _paced(pace, each) for pace in _PACES}, "satisfied") for each in _SCHEDULERS
    }
    yield Panel(f"{name}: readings", "saved", readings, x="publications in excess", points=True)
    for title, y, x, found in (
        ("caches", "saved", "cached publications", caches),
        ("links", "satisfied rounds", "Mbit/s", satisfied),
    ):
        drawn = {label: each for label, each in found.items() if each}
        yield Panel(f"{name}: {title}", y, drawn, x=x, points=True)
