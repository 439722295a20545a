"""Measures what the attention paper leaves open, an option in each row.

Section 5 of the paper evaluates one setting, which its text does not determine.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import product

from testbed.evaluation.figures.attention import PAPER_SAVES, safety
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
    "entries of a table": ("entries", 1),
    "entries / CBR's, %": ("entries_share", 100),
    "upload to delivery, s": ("delay_s", 1),
}
_FILE = tomllib.loads(files(__package__).joinpath("attention_open.toml").read_text(encoding="utf-8"))
_VARIANTS = [Variant(**row) for row in (*_FILE["shown"], *_FILE["further"])]
#: The variants that the page shows; its CSV has all.
_NAMED = {each.name for each in _VARIANTS[: len(_FILE["shown"])]}


class AttentionOpen(Reproduction, page="attention-open"):
    measure = "testbed.evaluation.figures.attention:measured"
    calculates = True
    sizes = ("small",)

    def cases(self, size: str) -> list[Case]:  # noqa: ARG002
        return [
            Case(f"{strategy}, {each.name}", {}, {**facts, "strategy": strategy, "max": each.max})
            for strategy, each in product(PAPER_SAVES, _VARIANTS)
            for facts in [{"base": _FILE["base"], "variant": each.name, "overrides": dict(each.keys)}]
        ]

    def judge(self, results: Results) -> Iterator[Statement]:
        for strategy, cases in _by_strategy(results).items():
            for each in _VARIANTS:
                if each.claim is not None:
                    yield _comparison(results, cases, strategy, each, each.claim)
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


def _comparison(
    results: Results, cases: Mapping[str, Case], strategy: str, variant: Variant, claim: str
) -> Statement:
    """The claim on a variant, which is to hold for each seed."""
    key, scale, sign = _CLAIMS[claim]
    case, than = cases[variant.name], cases[variant.named(variant.than)]
    other = "saved_bandwidth" if key == "saved_with_flushes" else key
    pairs = results.pairs(case, key, than, other)
    return Statement(
        f"{strategy.upper()}, `{variant.name}`: {claim}",
        f"than `{variant.named(variant.than)}`",
        f"{results.band(case, key, scale)} against {results.band(than, other, scale)}",
        bool(pairs) and all(sign * (found - base) > 0 for found, base in pairs),
    )
