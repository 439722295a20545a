"""Measures what the attention paper leaves open: options of the service, losses, delays, full links.

Section 5 of the paper evaluates one setting.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from testbed.evaluation.figures.attention import PAPER_SAVES, STRATEGIES, safety
from testbed.evaluation.figures.reproduction import Case, Panel, Reproduction, Results, Statement, Table

_SHIPPED = "as shipped"
_EXACT, _DIVIDED = 'history = "exact"', 'fan_out = "divided"'
_BOTH = f"{_EXACT}, {_DIVIDED}"
#: A share of starved rounds that counts as few, of the specification.
_FEW = 0.01

#: Name of a variant -> the keys that it sets.
Variants = dict[str, Mapping[str, str]]


def _topology(nodes: int) -> Variants:
    """Graphs of average degree 2 "following a power-law distribution", and of degree 4."""
    drawn = f'{{ generator = "power_law", nodes = {nodes}, least_degree = 1 }}'
    return {
        "links_per_node = 2": {"topology.links_per_node": "2"},
        'generator = "power_law", least_degree = 1': {"topology": drawn},
    }


#: Where the text of the paper has two readings, or its numbers are not reached.
_READINGS: Variants = {
    _SHIPPED: {},
    _EXACT: {"service.history": "exact"},
    _DIVIDED: {"service.fan_out": "divided"},
    _BOTH: {"service.history": "exact", "service.fan_out": "divided"},
    'remote = "all"': {"service.remote": "all"},
    "count_in_transit = true": {"service.count_in_transit": "true"},
    "en_route = true": {"service.en_route": "true"},
    'draw = "uniform"': {"workload.attention.draw": "uniform"},
    'pick = "uniform"': {"workload.attention.pick": "uniform"},
}
#: Table 1 with ten times its routers and publications.
_LARGE: Variants = {
    "nodes = 1000, publications = 5000000": {
        "topology.nodes": "1000",
        "workload.attention.publications": "5000000",
    }
}
_SELECTION: Variants = {
    **{f'selection = "{name}"': {"service.selection": name} for name in ("mf", "lru", "mru", "mfu")},
    "selection_types = true": {"service.selection_types": "true"},
}
_REPLACEMENT: Variants = {
    **{f'replacement = "{name}"': {"service.replacement": name} for name in ("mf", "lru", "mru", "mfu")},
    **{
        f'replacement_types = "{name}"': {"service.replacement_types": name}
        for name in ("pending-first", "disseminated-first")
    },
}


#: The last is that of `diallo-small`.
_CACHES = (50, 100, 200, 400)


def _cached(size: int, flushed: bool) -> str:
    keys = [f"cache_publications = {size}"] if size != _CACHES[-1] else []
    keys += ['flushing = "neighbour"'] if flushed else []
    return ", ".join(keys) or _SHIPPED


_CACHE: Variants = {
    _cached(size, flushed): {
        **({"service.cache_publications": f"{size}"} if size != _CACHES[-1] else {}),
        **({"service.flushing": "neighbour"} if flushed else {}),
    }
    for size, flushed in product(_CACHES, (False, True))
}


def _lossy(percent: float, topped_up: bool) -> str:
    return f"loss_percent = {percent:g}" + (", top_up_s = 5" if topped_up else "")


_LOSSES = (0.5, 2.0, 5.0)
_LOSS: Variants = {
    _lossy(percent, topped_up): {
        "links.loss_percent": f"{percent:g}",
        **({"service.top_up_s": "5"} if topped_up else {}),
    }
    for percent, topped_up in product(_LOSSES, (False, True))
}
#: A frame crosses up to 8 links.
_DELAY: Variants = {
    f"delay_ms = {delay}": {
        "links.delay_ms": f"{delay}",
        "oracle.in_flight_window_s": f"{max(0.5, delay / 100):g}",
    }
    for delay in (10, 100, 1000)
}


#: Max of the runs with paced links: with less, the links are not full.
_PACED_MAX = 50


def _paced(pace_mbps: float, scheduler: str) -> str:
    return f'max = {_PACED_MAX}, pace_mbps = {pace_mbps:g}, scheduler = "{scheduler}"'


_PACES, _SCHEDULERS = (0.005, 0.01, 0.02), ("fifo", "cbf")
_PACING: Variants = {
    _paced(pace_mbps, scheduler): {"service.pace_mbps": f"{pace_mbps}", "service.scheduler": scheduler}
    for pace_mbps, scheduler in product(_PACES, _SCHEDULERS)
}
_SMALL = _SELECTION | _REPLACEMENT | _CACHE | _LOSS | _DELAY

#: Heading of a column -> the key of the measurement, and the factor of its unit.
_COLUMNS: Mapping[str, tuple[str, float]] = {
    "saved, %": ("saved_bandwidth", 100),
    "FLUSHes counted, %": ("saved_with_flushes", 100),
    "control / CBR's, %": ("control_overhead", 100),
    "satisfied, %": ("satisfied", 100),
    "starved, %": ("starvation", 100),
    "publications in excess": ("overload", 1),
}


class _Measured:
    """The measurements with one strategy, by the names of variants."""

    def __init__(self, results: Results, strategy: str) -> None:
        self.name = strategy.upper()
        self._results = results
        self._cases = {case.facts["variant"]: case for case in results if case.facts["strategy"] == strategy}

    def __iter__(self) -> Iterator[str]:
        return iter(self._cases)

    def __contains__(self, variant: str) -> bool:
        return variant in self._cases

    def values(self, variant: str, key: str) -> list[float]:
        """Returns a number of every run of a variant."""
        return self._results.values(self._cases[variant], key)

    def median(self, variant: str, key: str) -> float:
        """Returns the median of a number over the seeds; NaN without a run."""
        return self._results.median(self._cases[variant], key)

    def band(self, variant: str, key: str, scale: float = 1.0) -> str:
        """Returns the median of a number over the seeds with its quantiles, as text."""
        return self._results.band(self._cases[variant], key, scale)

    def curves(self, variants: Mapping[str, float], key: str) -> list[list[tuple[float, float]]]:
        """Returns a curve for each seed: a number against the value that a variant stands for."""
        return self._results.curves_over([(x, self._cases[name]) for name, x in variants.items()], key)


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
    measure = "testbed.evaluation.figures.attention_runs:measured"
    calculates = True
    sizes = ("small", "paper", "large")

    def cases(self, size: str) -> list[Case]:
        if size == "large":
            return [_case("diallo", *each) for each in _with_strategies(_LARGE)]
        if size == "paper":
            variants = _READINGS | _topology(100)
            return [_case("diallo", *each) for each in _with_strategies(variants)]
        variants = _READINGS | _topology(25) | _SMALL
        return [
            *(_case("diallo-small", *each) for each in _with_strategies(variants)),
            *(_case("diallo-small", *each, most=_PACED_MAX) for each in _with_strategies(_PACING)),
        ]

    def judge(self, results: Results) -> Iterator[Statement]:
        for strategy in STRATEGIES:
            measured = _Measured(results, strategy)
            for statements in (_starved, _readings, _policies, _flushing, _faults, _pacing):
                yield from statements(measured)
        yield safety(results)

    def panels(self, results: Results) -> list[Panel]:
        return [
            panel
            for strategy in STRATEGIES
            for panel in _panels(_Measured(results, strategy))
            if panel.curves
        ]

    def tables(self, results: Results) -> list[Table]:
        found = []
        for strategy in STRATEGIES:
            measured = _Measured(results, strategy)
            rows = [
                [f"`{variant}`", *(measured.band(variant, key, scale) for key, scale in _COLUMNS.values())]
                for variant in measured
            ]
            columns = ["variant", *_COLUMNS]
            found.append(Table(f"{measured.name}, median [10 %, 90 %] over the seeds", columns, rows))
        return found


def _case(base: str, strategy: str, variant: str, overrides: Mapping[str, str], most: int = 10) -> Case:
    facts = {
        "base": base,
        "strategy": strategy,
        "max": most,
        "variant": variant,
        "overrides": dict(overrides),
    }
    return Case(f"{strategy}, {variant}", {}, facts)


def _with_strategies(variants: Variants) -> Iterator[tuple[str, str, Mapping[str, str]]]:
    for strategy, (variant, overrides) in product(STRATEGIES, variants.items()):
        yield strategy, variant, overrides


# The statements about one strategy; none about variants that are not among the cases.


def _starved(measured: _Measured) -> list[Statement]:
    return [
        Statement(
            f"{measured.name}: {variant}, few rounds starve",
            f"at most {_FEW:.0%}",
            f"{measured.band(variant, 'starvation', 100)} %",
            measured.median(variant, "starvation") <= _FEW,
        )
        for variant in (_SHIPPED, *_LARGE)
        if variant in measured
    ]


def _readings(measured: _Measured) -> list[Statement]:
    if _BOTH not in measured:
        return []
    name = measured.name
    saved = {each: measured.median(each, "saved_bandwidth") for each in (_SHIPPED, _EXACT)}
    excess = {each: measured.median(each, "overload") for each in (_SHIPPED, _DIVIDED)}
    return [
        Statement(
            f"{name}: a refreshed subscription that may take all that it has not had costs less bandwidth",
            f"`{_EXACT}` saves more than {_SHIPPED}",
            f"{measured.band(_EXACT, 'saved_bandwidth', 100)} % against "
            f"{measured.band(_SHIPPED, 'saved_bandwidth', 100)} %",
            saved[_EXACT] > saved[_SHIPPED],
        ),
        Statement(
            f"{name}: a SUB that divides what is lacking among children brings less in excess",
            f"fewer with `{_DIVIDED}` than {_SHIPPED}",
            f"{measured.band(_DIVIDED, 'overload')} against {measured.band(_SHIPPED, 'overload')}; "
            f"{measured.band(_DIVIDED, 'saved_bandwidth', 100)} % saved, "
            f"{measured.band(_DIVIDED, 'starvation', 100)} % of the rounds starved",
            excess[_DIVIDED] < excess[_SHIPPED],
        ),
        Statement(
            f"{name}: the saved bandwidth with both, beside the paper's",
            f"up to {PAPER_SAVES[measured.name.lower()]:.0%} saved",
            f"`{_BOTH}`: {measured.band(_BOTH, 'saved_bandwidth', 100)} % saved, "
            f"{measured.band(_BOTH, 'starvation', 100)} % of the rounds starved",
            None,
        ),
    ]


def _policies(measured: _Measured) -> list[Statement]:
    spreads = {}
    for option, variants in (("selection", _SELECTION), ("replacement", _REPLACEMENT)):
        saved = [
            measured.median(each, "saved_bandwidth") for each in (_SHIPPED, *variants) if each in measured
        ]
        if len(saved) < 1 + len(variants):
            return []
        spreads[option] = max(saved) - min(saved)
    return [
        Statement(
            f"{measured.name}: replacement matters more than selection",
            "saved bandwidth of the best policy less that of the worst",
            ", ".join(f"{option} {spread:.1%}" for option, spread in spreads.items()),
            spreads["replacement"] > spreads["selection"],
        )
    ]


def _flushing(measured: _Measured) -> list[Statement]:
    if _cached(_CACHES[0], True) not in measured:
        return []
    pairs = {
        size: (
            measured.median(_cached(size, False), "saved_bandwidth"),
            measured.median(_cached(size, True), "saved_with_flushes"),
        )
        for size in _CACHES
    }
    return [
        Statement(
            f"{measured.name}: flushing costs more bandwidth than it saves, with any cache",
            "less saved, FLUSHes counted, than without flushing",
            ", ".join(f"{size}: {flushed:.1%}, not {off:.1%}" for size, (off, flushed) in pairs.items()),
            all(flushed < off for off, flushed in pairs.values()),
        )
    ]


def _faults(measured: _Measured) -> Iterator[Statement]:
    if _lossy(_LOSSES[0], False) not in measured:
        return
    for what, names in (
        ("loses frames", [_lossy(percent, False) for percent in _LOSSES]),
        ("loses frames and SUBs are sent twice", [_lossy(percent, True) for percent in _LOSSES]),
        ("has links with delays", list(_DELAY)),
    ):
        starved = ", ".join(f"`{each}`: {measured.band(each, 'starvation', 100)} %" for each in names)
        yield Statement(f"{measured.name}: rounds starved where the network {what}", "none", starved, None)


def _pacing(measured: _Measured) -> list[Statement]:
    if _paced(_PACES[0], "cbf") not in measured:
        return []
    satisfied = {
        pace: [measured.median(_paced(pace, each), "satisfied") for each in _SCHEDULERS] for pace in _PACES
    }
    return [
        Statement(
            f"{measured.name}: priority forwarding satisfies more rounds where links are full",
            '`scheduler = "cbf"` above `"fifo"` with each `pace_mbps`',
            ", ".join(f"{pace:g}: {cbf:.1%}, not {fifo:.1%}" for pace, (fifo, cbf) in satisfied.items()),
            all(cbf > fifo for fifo, cbf in satisfied.values()),
        )
    ]


def _panels(measured: _Measured) -> Sequence[Panel]:
    def points(variant: str) -> list[list[tuple[float, float]]]:
        excess, saved = (measured.values(variant, key) for key in ("overload", "saved_bandwidth"))
        return [[point] for point in zip(excess, saved, strict=True)]

    def curves(names: Mapping[str, float], key: str) -> list[list[tuple[float, float]]]:
        return measured.curves(names, key) if all(name in measured for name in names) else []

    readings = {variant: points(variant) for variant in measured if variant in _READINGS | _LARGE}
    off, flushed = ({_cached(size, each): float(size) for size in _CACHES} for each in (False, True))
    paced = {each: {_paced(pace, each): pace for pace in _PACES} for each in _SCHEDULERS}
    caches = {
        "not flushed": curves(off, "saved_bandwidth"),
        "flushed": curves(flushed, "saved_bandwidth"),
        "flushed, FLUSHes counted": curves(flushed, "saved_with_flushes"),
    }
    satisfied = {each: curves(names, "satisfied") for each, names in paced.items()}
    name = measured.name
    return [
        Panel(f"{name}: readings", "saved", readings, x="publications in excess", points=True),
        Panel(f"{name}: caches", "saved", _drawn(caches), x="cached publications", points=True),
        Panel(f"{name}: links", "satisfied rounds", _drawn(satisfied), x="Mbit/s", points=True),
    ]


def _drawn(
    curves: Mapping[str, Sequence[Sequence[tuple[float, float]]]],
) -> Mapping[str, Sequence[Sequence[tuple[float, float]]]]:
    return {label: each for label, each in curves.items() if each}
