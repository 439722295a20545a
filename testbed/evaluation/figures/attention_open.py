"""Measures what the attention paper leaves open, an option in each row.

Section 5 of the paper evaluates one setting, which its text does not determine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from testbed.evaluation.figures.attention import CONTROL, PAPER_SAVES, SAVED, STARVED, STRATEGIES, safety
from testbed.evaluation.figures.reproduction import Case, Panel, Reproduction, Results, Statement, Table

#: The keys that a variant sets.
Overrides = Mapping[str, str]


@dataclass(frozen=True)
class Variant:
    """A row: an experiment with other values of some keys.

    Attributes:
        keys: dotted names and values.
        claim: a key of `_CLAIMS`; None: the row is measured, and nothing is claimed of it.
        than: the variant with which the claim compares it.
    """

    keys: Overrides
    claim: str | None = None
    than: Overrides = field(default_factory=dict)
    max: int = 10

    @property
    def name(self) -> str:
        return self.named(self.keys)

    def named(self, keys: Overrides) -> str:
        """Names what keys set, as in a file: with the number of nodes and the window left out."""
        if "topology" in keys:
            return 'generator = "power_law", least_degree = 1'
        max_ = {} if self.max == 10 else {"max": str(self.max)}
        found = max_ | {key.rpartition(".")[2]: value for key, value in keys.items()}
        found.pop("in_flight_window_s", None)
        plain = re.compile(r"[\d.]+|true|false").fullmatch
        texts = (f"{key} = {value}" if plain(value) else f'{key} = "{value}"' for key, value in found.items())
        return ", ".join(texts) or "as shipped"


_FLUSHED = "saves less, with FLUSHes counted"
#: Claim -> the measurement that it compares, the factor of its unit, and the sign of the difference.
_CLAIMS = {
    "saves more bandwidth": ("saved_bandwidth", 100, 1),
    "saves less bandwidth": ("saved_bandwidth", 100, -1),
    "brings fewer publications in excess": ("overload", 1, -1),
    _FLUSHED: ("saved_with_flushes", 100, -1),
    "satisfies more rounds": ("satisfied", 100, 1),
}
#: Heading of a column -> the key of the measurement, and the factor of its unit.
_COLUMNS: Mapping[str, tuple[str, float]] = {
    "saved, %": ("saved_bandwidth", 100),
    "FLUSHes counted, %": ("saved_with_flushes", 100),
    "control / CBR's, %": ("control_overhead", 100),
    "satisfied, %": ("satisfied", 100),
    "starved, %": ("starvation", 100),
    "publications in excess": ("overload", 1),
    "entries of a table": ("entries", 1),
    "entries / CBR's, %": ("entries_share", 100),
    "upload to delivery, s": ("delay_s", 1),
}
_EXACT, _DIVIDED = {"service.history": "exact"}, {"service.fan_out": "divided"}
_SEQUENTIAL = {"service.fan_out": "sequential"}
#: Cached publications; the last number is that of `diallo-small`.
_CACHES = (50, 100, 200, 400)


def _workload(**keys: object) -> dict[str, str]:
    return {f"workload.attention.{key}": str(value).lower() for key, value in keys.items()}


def _causes(lifetime_s: int, warm_s: int) -> list[Variant]:
    """Readings of the text that may explain the difference to the paper's numbers.

    Args:
        warm_s: when caches are full.
    """
    return [
        Variant({}),
        Variant(_EXACT, "saves more bandwidth"),
        Variant(_DIVIDED, "brings fewer publications in excess"),
        Variant(_SEQUENTIAL, "saves more bandwidth"),
        Variant(_EXACT | _SEQUENTIAL, "saves more bandwidth", _SEQUENTIAL),
        Variant(_workload(normalised=False)),
        Variant(_workload(normalised=False) | _SEQUENTIAL),
        Variant(_workload(freshness_s=lifetime_s)),
        Variant(_workload(subscriptions_from_s=warm_s)),
        *(Variant(_workload(refresh_probability=share)) for share in (0.25, 0.75)),
    ]


def _others() -> Iterator[Variant]:
    """Options, losses, delays and full links."""
    yield Variant(_EXACT | _DIVIDED, "saves more bandwidth", _DIVIDED)
    for key, value in (("remote", "all"), ("count_in_transit", "true"), ("en_route", "true")):
        yield Variant({f"service.{key}": value})
    yield Variant(_workload(draw="uniform"))
    yield Variant(_workload(pick="uniform"))
    # Graphs of average degree 4, and of degree 2 "following a power-law distribution".
    yield Variant({"topology.links_per_node": "2"})
    yield Variant({"topology": '{ generator = "power_law", nodes = 25, least_degree = 1 }'})
    policies = ("mf", "lru", "mru", "mfu")
    yield from (Variant({"service.selection": policy}) for policy in policies)
    yield Variant({"service.selection_types": "true"})
    for policy in policies:
        claim = "saves less bandwidth" if policy in ("mf", "mru") else None
        yield Variant({"service.replacement": policy}, claim)
    for first in ("pending-first", "disseminated-first"):
        yield Variant({"service.replacement_types": first})
    for size, flushing in product(_CACHES, ("off", "neighbour")):
        plain = {} if size == _CACHES[-1] else {"service.cache_publications": str(size)}
        if flushing != "off":
            yield Variant(plain | {"service.flushing": flushing}, _FLUSHED, plain)
        elif plain:
            yield Variant(plain, "saves less bandwidth")
    yield Variant({"service.flushing": "network"}, _FLUSHED)
    for loss, more in product(("0.5", "2", "5"), ({}, {"service.top_up_s": "5"}, _SEQUENTIAL)):
        yield Variant({"links.loss_percent": loss} | more)
    for delay_ms, more in product((10, 100, 1000), ({}, _SEQUENTIAL)):
        # A frame crosses up to 8 links.
        window_s = f"{max(0.5, delay_ms / 100):g}"
        yield Variant({"links.delay_ms": str(delay_ms), "oracle.in_flight_window_s": window_s} | more)
    for pace in (0.005, 0.01, 0.02):
        # With a smaller Max the links are not full.
        fifo = {"service.pace_mbps": str(pace), "service.scheduler": "fifo"}
        yield Variant(fifo, max=50)
        yield Variant(fifo | {"service.scheduler": "cbf"}, "satisfies more rounds", fifo, max=50)


#: The variants that the pages show.
_NAMED = {each.name for each in (*_causes(20, 100), *_causes(50, 500))}
#: Size -> the shipped experiment, and its variants.
_SIZES: Mapping[str, tuple[str, Sequence[Variant]]] = {
    "small": ("diallo-small", [*_causes(20, 100), *_others()]),
    "paper": ("diallo", _causes(50, 500)),
}


class AttentionOpen(Reproduction, page="attention-open"):
    measure = "testbed.evaluation.figures.attention:measured"
    calculates = True
    sizes = tuple(_SIZES)

    def cases(self, size: str) -> list[Case]:
        base, variants = _SIZES[size]
        return [
            Case(f"{strategy}, {each.name}", {}, {**facts, "strategy": strategy, "max": each.max})
            for strategy, each in product(STRATEGIES, variants)
            for facts in [{"base": base, "variant": each.name, "overrides": dict(each.keys)}]
        ]

    def judge(self, results: Results) -> Iterator[Statement]:
        for strategy, cases in _by_strategy(results).items():
            for size, (_, variants) in _SIZES.items():
                if {each.name for each in variants} == cases.keys():
                    for each in variants:
                        yield from _statements(results, cases, strategy, each, size)
        yield safety(results)

    def panels(self, results: Results) -> list[Panel]:
        found = []
        for strategy, cases in _by_strategy(results).items():
            curves = {
                name: [[(run["overload"], run["saved_bandwidth"])] for run in results.runs(case)]
                for name, case in cases.items()
                if name in _NAMED
            }
            found.append(Panel(strategy.upper(), "saved", curves, x="publications in excess", points=True))
        return found

    def tables(self, results: Results) -> list[Table]:
        return [
            Table(
                f"{strategy.upper()}{', further options' if others else ''}, medians over the seeds",
                ["variant", *_COLUMNS],
                [
                    [f"`{name}`", *(f"{results.median(case, key) * by:.3g}" for key, by in _COLUMNS.values())]
                    for name, case in cases.items()
                    if (name in _NAMED) is not others
                ],
                on_page=not others,
            )
            for others, (strategy, cases) in product((False, True), _by_strategy(results).items())
        ]


def _by_strategy(results: Results) -> dict[str, dict[str, Case]]:
    found: dict[str, dict[str, Case]] = {strategy: {} for strategy in STRATEGIES}
    for case in results:
        found[case.facts["strategy"]][case.facts["variant"]] = case
    return found


def _statements(
    results: Results, cases: Mapping[str, Case], strategy: str, variant: Variant, size: str
) -> Iterator[Statement]:
    """The claim on a variant, which is to hold for each seed; of table 1 also the paper's numbers."""
    case, subject = cases[variant.name], f"{strategy.upper()}, `{variant.name}`"
    if variant.claim is not None:
        key, scale, sign = _CLAIMS[variant.claim]
        than = cases[variant.named(variant.than)]
        other = "saved_bandwidth" if key == "saved_with_flushes" else key
        pairs = results.pairs(case, key, than, other)
        texts = results.band(case, key, scale), results.band(than, other, scale)
        yield Statement(
            f"{subject}: {variant.claim}",
            f"than `{variant.named(variant.than)}`",
            f"{texts[0]} against {texts[1]}",
            bool(pairs) and all(sign * (found - base) > 0 for found, base in pairs),
        )
    if size != "paper":
        return
    # The paper claims its numbers for P_r 0.5 and freshness 1000 alone.
    judged = not variant.keys.keys() & _workload(refresh_probability=0, freshness_s=0).keys()
    for claim, key, (least, most) in (
        ("over 99 % satisfied", "starvation", (0.0, STARVED)),
        (f"saves up to {PAPER_SAVES[strategy]:.0%}", "saved_bandwidth", SAVED[strategy]),
        ("under 3 % of CBR's control traffic", "control_overhead", (0.0, CONTROL)),
    ):
        held = least <= results.median(case, key) <= most if judged else None
        text = f"{results.band(case, key, 100)} %"
        yield Statement(f"{subject}: {claim}", f"{least:.0%} to {most:.0%}", text, held)
