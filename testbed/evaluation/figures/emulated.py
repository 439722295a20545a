"""Emulations beside simulations of the same experiments.

Emulated runs are taken from data beside the pages, and simulated runs too if the figure's page has them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from router.protocol.options import DEFAULT_SCHEME
from testbed.evaluation.figures.page import DATA, command_of, page_name
from testbed.evaluation.figures.reproduction import (
    EMULATED,
    FIGURES,
    PAPER,
    SEED,
    Case,
    Panel,
    Reproduction,
    Results,
    Statement,
)
from testbed.evaluation.figures.runner import Origin, figure_job, read_data
from testbed.evaluation.sweeps.job import simulate_job
from testbed.support.errors import InputError, RunError

#: The pages of a checkout.
_PAGES = Path(__file__).parents[3] / "docs/figures"
#: Half of a comparison -> its engine.
_HALVES = {"emulated": "run", "simulated": "simulate"}

_CHANGE = "but for frames under way at a change"
#: Figure, size, key of a number that both engines measure, its name; greatest difference within a seed, in
#: points of a share, % of the simulated number (of 1 if that is 0), or deliveries; what is expected.
_COMPARED = (
    ("fp", EMULATED, "steady", "false positives in steady state", 1, "points", _CHANGE),
    ("ra", EMULATED, "share", "share of RAs", 1, "points", _CHANGE),
    ("ra", EMULATED, "issued_per_s", "RAs issued a second", 5, "%", _CHANGE),
    ("ra", EMULATED, "missed", "deliveries missed while RAs wait", 1, "points", _CHANGE),
    ("srur", EMULATED, "frames", "SRs and URs", 1, "%", "but for SRs that stay partial"),
    ("attention", EMULATED, "saved_bandwidth", "saved bandwidth", 2, "points", _CHANGE),
    ("attention", EMULATED, "control_crossings", "SUBs and notifications", 5, "%", _CHANGE),
    ("fn", "small", "missed_after_5_s", "deliveries missed after 5 s", 2, "deliveries", _CHANGE),
    ("schemes", EMULATED, "crossings", "crossings of messages", 1, "%", _CHANGE),
    ("schemes", EMULATED, "filters", "filters for the senders", 1, "%", "since they are counted at the end"),
)
#: Figure -> size of its emulations, whose data are beside the pages.
EMULATIONS = {name: size for name, size, *_ in _COMPARED}
_COMMANDS = "; ".join(f"`{command_of(Origin(name, size, 5, 'run'))}`" for name, size in EMULATIONS.items())


class EmulatedBesideSimulated(Reproduction, page="emulated"):
    calculates = True
    measure = "testbed.evaluation.figures.emulated:simulated"
    sizes = (PAPER,)

    def cases(self, size: str) -> list[Case]:
        del size
        return [*_originals()]

    def run(self, case: Case, seed: int) -> Mapping[str, Any] | None:
        name, half = case.facts["figure"], case.facts["half"]
        for run in _data(name, half).runs(_originals()[case]):
            if run[SEED] == seed:
                return run
        if half == "emulated":
            raise InputError(f"{_paths(name)[half]}: no run of {case.label!r} with seed {seed}")
        return None

    def read(self) -> list[Path]:
        return [path for name in EMULATIONS for path in _paths(name).values() if path.is_file()]

    def judge(self, results: Results) -> Iterator[Statement]:
        for name, _, key, what, most, unit, expected in _COMPARED:
            halves = (results.where(figure=name, half=half) for half in _HALVES)
            for own, other in zip(*halves, strict=True):
                pairs = results.pairs(own, key, other)
                apart = [(a - b) / ((abs(b) or 1) if unit == "%" else 1) for a, b in pairs]
                shown = (100, 3) if unit == "points" else (1, 6)
                per = 1 if unit == "deliveries" else 100
                both = [results.band(case, key, *shown) for case in (own, other)]
                yield Statement(
                    f"{name}, {own.facts['case']}: {what}, within {most:g} {unit}",
                    f"as simulated, {expected}",
                    f"{both[0]} emulated, {both[1]} simulated; greatest difference of a seed "
                    f"{per * max(apart, key=abs, default=math.nan):.3g} {unit}",
                    bool(apart) and max(map(abs, apart)) <= most / per,
                )
        for name in EMULATIONS:
            yield _verdicts(results, name)

    def panels(self, results: Results) -> list[Panel]:
        found = []
        for name in EMULATIONS:
            own, other = (FIGURES[name]().panels(_half(results, name, half)) for half in _HALVES)
            beside = {panel.title: panel.curves for panel in other}
            # An emulation may measure less.
            for panel in own:
                title = f"{name}: {panel.title} (dashed: simulated)"
                found.append(replace(panel, title=title, beside=beside[panel.title]))
        return found


def _half(results: Results, name: str, half: str) -> Results:
    """Returns one half of the runs, as results of their figure."""
    cases = results.where(figure=name, half=half)
    return Results({_originals()[case]: results.runs(case) for case in cases})


def _verdicts(results: Results, name: str) -> Statement:
    """Whether the statements of a figure have the same verdicts emulated as simulated."""
    halves = [_half(results, name, half) for half in _HALVES]
    own, other = ({each.text: each.holds for each in FIGURES[name]().judge(half)} for half in halves)
    failing = [*own.values()].count(False)
    apart = [text for text, holds in own.items() if other.get(text) is not holds]
    return Statement(
        f"{name}: the verdicts on the paper's statements",
        "as simulated",
        f"{failing} of {len(own)} fail emulated; others simulated: {'; '.join(apart) or 'none'}",
        not apart and any(map(halves[0].runs, halves[0])),
    )


@cache
def _originals() -> Mapping[Case, Case]:
    """Returns case of the comparison -> case of its figure."""
    found = {}
    for name, size in EMULATIONS.items():
        figure = FIGURES[name]()
        for case, (half, engine) in product(figure.cases(size), _HALVES.items()):
            keys = {"routing.scheme": DEFAULT_SCHEME, **figure.overrides(case, engine)}
            facts = {"figure": name, "size": size, "half": half, "case": case.label}
            if "base" in case.facts:
                facts["base"] = case.facts["base"]
            found[Case(f"{case.label} ({name}, {half})", keys, facts)] = case
    return found


@cache
def _data(name: str, half: str) -> Results:
    """Returns the runs of a half of a figure that are in data beside the pages."""
    path = _paths(name)[half]
    return read_data(path)[1].results if half == "emulated" or path.is_file() else Results({})


def _paths(name: str) -> dict[str, Path]:
    """Returns half -> data of a figure beside its page."""
    pages = {"emulated": page_name(name, EMULATIONS[name], "run"), "simulated": page_name(name, PAPER)}
    return {half: _PAGES / DATA / f"{page}.json.gz" for half, page in pages.items()}


def simulated(facts: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Returns what the simulation of a case measures.

    Raises:
        RunError: it failed.
    """
    figure = FIGURES[facts["figure"]]()
    (case,) = (each for each in figure.cases(EMULATIONS[facts["figure"]]) if each.label == facts["case"])
    row = simulate_job(figure_job(figure, case, seed, "simulate"))
    if row["error"] is not None:
        raise RunError(row["error"])
    return row["keys"]
