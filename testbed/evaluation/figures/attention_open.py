"""Measures what the attention paper leaves open, an option in each row.

Section 5 of the paper evaluates one setting, which its text does not determine.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import product
from math import inf

from testbed.evaluation.figures.attention import CONTROL, PAPER_SAVES, SAVED, STARVED, STATE, safety
from testbed.evaluation.figures.reproduction import Case, Panel, Reproduction, Results, Statement, Table

#: The keys that a variant sets.
Overrides = Mapping[str, str]


@dataclass(frozen=True)
class Variant:
    """A row of attention_open.toml: an experiment with other values of some keys.

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


#: Claim -> the measurement that it compares, the factor of its unit, and the sign of the difference.
_CLAIMS = {
    "saves more bandwidth": ("saved_bandwidth", 100, 1),
    "saves less bandwidth": ("saved_bandwidth", 100, -1),
    "brings fewer publications in excess": ("overload", 1, -1),
    "saves less, with FLUSHes counted": ("saved_with_flushes", 100, -1),
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
    **STATE,
}
#: Size -> its rows.
_ROWS = tomllib.loads(files(__package__).joinpath("attention_open.toml").read_text(encoding="utf-8"))
#: Size -> the shipped experiment, and its variants.
_SIZES: Mapping[str, tuple[str, Sequence[Variant]]] = {
    size: (rows["base"], [Variant(**row) for row in rows["rows"]]) for size, rows in _ROWS.items()
}
#: The variants that the pages show.
_NAMED = {Variant(**row).name for row in _ROWS["paper"]["rows"]}
#: The paper claims its numbers for P_r 0.5 and freshness 1000 alone.
_NOT_CLAIMED = {"workload.attention.refresh_probability", "workload.attention.freshness_s"}


class AttentionOpen(Reproduction, page="attention-open"):
    measure = "testbed.evaluation.figures.attention:measured"
    calculates = True
    sizes = tuple(_SIZES)

    def cases(self, size: str) -> list[Case]:
        base, variants = _SIZES[size]
        return [
            Case(f"{strategy}, {each.name}", {}, {**facts, "strategy": strategy, "max": each.max})
            for strategy, each in product(PAPER_SAVES, variants)
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
    found: dict[str, dict[str, Case]] = {strategy: {} for strategy in PAPER_SAVES}
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
    judged = not variant.keys.keys() & _NOT_CLAIMED
    for claim, key, (least, most) in (
        ("over 99 % satisfied", "starvation", (-inf, STARVED)),
        (f"saves up to {PAPER_SAVES[strategy]:.0%}", "saved_bandwidth", SAVED[strategy]),
        ("under 3 % of CBR's control traffic", "control_overhead", (-inf, CONTROL)),
    ):
        values, predicted = results.values(case, key), f"{max(0, least):.0%} to {most:.0%}"
        yield Statement.by_interval(
            f"{subject}: {claim}", predicted, values, least, most, unit="%", judged=judged
        )
