"""Alpha, the disjunction advantage: Monte Carlo against exact values, and the slides' curves (part III)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from testbed.figures.reproduction import LAYERS, Case, Panel, Reproduction, Results, Statement

_GRID = [scale * 10**power for power in range(1, 7) for scale in (1, 2, 5)][:-2]
_ROWS = ((10_000, 10, 10), (10_000, 10, 100), (10_000, 10, 1_000), (10_000, 10, 10_000))
#: Conjunctions that are drawn in all, at least: the variance is greatest at some thousand, and falls behind.
_DRAWN = 100_000
#: Disjoint parts are taken until the standard error of their mean is below this, and so many at least.
_ERROR, _DRAWS = 0.005, 30
#: Kinds of conjunctions of one constraint, for which alpha is known exactly.
_EXACT = {
    "one equality constraint of 50 names x 100 integers": (50, "equal", 5_000),
    "one constraint `<` on one of 500 integer names": (500, "less", 500),
}


class Alpha(Reproduction):
    title = "Alpha, the disjunction advantage"
    paper = (
        "alpha(P) = M(p1 v ... v pn) / (M(p1) + ... + M(pn)). Generic model: predicates are sets of "
        "messages, uniform: E(alpha) = |M| / (n h) (1 - (1 - h / |M|)^n); and Zipf. Specific model: "
        "disjunctions of conjunctions of constraints, 10 to 10^6 of them; the last slide has a "
        "uniform distribution over |A| = 500 names (slides on routing, part III).",
    )
    deviations = (
        "The slides give no parameters but |A| = 500, and the text that is left has axes and no values. The "
        "acceptance is the exact value where there is one: the Monte Carlo mean within 3 standard errors.",
        "Conjunctions are those of the slides' workload (part II): 1 to 6 constraints, half on strings of a "
        "dictionary of 1,000 words of Zipf frequency, half on integers of 100 values.",
        "M of a disjunction is its number of constraints, after conjunctions that another one covers have "
        "been dropped. Conjunctions are not merged, and none is dropped that only several others cover "
        "together.",
        "The tables of the schemes are those of a simulated network in which predicates do not change, for "
        "messages of all nodes; M of an entry is its number of filters. Beside them is the curve of the "
        "receivers of the same run, drawn at random: the predicates of the testbed's own workload, and few. "
        "alpha(r / Delta), as the slides have it, is alpha of the mean number of receivers; most filters are "
        "in entries of many receivers, where alpha is less, so that it predicts too much.",
        "Alpha of a seed is the mean over disjoint parts of what was drawn: thirty parts or more, until the "
        "standard error of the mean is below 0.005, or all has been used.",
        "Zipf frequency has the exponent 1. In the generic model a Zipf predicate is h draws with "
        "replacement.",
    )
    measure = "testbed.figures.alpha:measure"
    calculates = True

    def cases(self, size: str) -> list[Case]:
        most = 1_000_000 if size == "paper" else 10_000
        found = [
            Case(
                f"generic, uniform: |M| {universe}, h {h}, n {n}",
                {},
                {"model": "uniform", "universe": universe, "h": h, "n": n},
            )
            for universe, h, n in _ROWS
        ]
        found += [
            Case(
                f"generic, Zipf: |M| {universe}, h {h}, n {n}",
                {},
                {"model": "zipf", "universe": universe, "h": h, "n": n},
            )
            for universe, h, n in _ROWS
        ]
        found += [
            Case(label, {}, {"model": kind, "names": names, "kinds": kinds, "n": 2_000})
            for label, (names, kind, kinds) in _EXACT.items()
        ]
        found += [
            Case(
                f"DNF, {'Zipf' if zipf else 'uniform'} names: |A| {names}",
                {},
                {"model": "dnf", "names": names, "zipf": zipf, "n": most},
            )
            for zipf in (False, True)
            for names in ((50, 100, 200, 500, 1000) if size == "paper" else (50, 500))
        ]
        nodes = 100 if size == "paper" else 50
        found += [
            Case(
                f"tables of {scheme}: {nodes} nodes, {layer}",
                {},
                {"model": "tables", "scheme": scheme, "layer": layer, "nodes": nodes, "n": 0},
            )
            for layer in LAYERS
            for scheme in ("pif", "psf", "ips")
        ]
        return found

    def judge(self, results: Results) -> list[Statement]:
        found = []
        for case in results:
            if case.facts["model"] == "dnf":
                found += self._shape(case, results)
                continue
            if case.facts["model"] == "tables":
                found += self._tables(case, results)
                continue
            draws = [value for run in results.runs(case) for value in run["draws"]]
            exact = results.median(case, "exact")
            mean = statistics.fmean(draws) if draws else math.nan
            error = statistics.stdev(draws) / math.sqrt(len(draws)) if len(draws) > 1 else math.nan
            found.append(
                Statement(
                    f"{case.label}: the mean of {len(draws)} draws is exact to 3 standard errors",
                    f"{exact:.6f}",
                    f"{mean:.6f} +- {error:.2g}",
                    # All draws may be equal, where nothing is random any more.
                    bool(draws) and abs(mean - exact) <= max(3 * error, 1e-9),
                )
            )
        return found

    def _tables(self, case: Case, results: Results) -> list[Statement]:
        found = []
        for key, formula, tolerance in (
            ("by_alpha", "formula with alpha(k) of each entry", 0.02),
            ("by_mean_alpha", "((n - 1) r M_p alpha(r / Delta))", 0.1),
        ):
            if key == "by_alpha" or case.facts["scheme"] == "pif":
                found.append(
                    Statement(
                        f"{case.label}: filters held / {formula}",
                        f"1 within {100 * tolerance:.0f} %",
                        results.band(case, key),
                        abs(results.median(case, key) - 1) <= tolerance,
                    )
                )
        return found

    def _shape(self, case: Case, results: Results) -> list[Statement]:
        curves = [dict(curve) for curve in results.curves(case)]
        if not curves:
            return [Statement(f"{case.label}: alpha falls", "from about 1 towards 0", "no run", False)]
        first = [curve[min(curve)] for curve in curves]
        last = [curve[max(curve)] for curve in curves]
        falls = all(0 < curve[k] <= 1 for curve in curves for k in curve)
        errors = [
            statistics.stdev(values) / math.sqrt(len(values))
            for k in curves[0]
            if len(values := [curve[k] for curve in curves]) > 1
        ]
        return [
            Statement(
                f"{case.label}: greatest standard error of the mean of {len(curves)} draws",
                "less than 0.005",
                f"{max(errors):.2g}" if errors else "one draw",
                max(errors) < 0.005 if errors else None,
            ),
            Statement(
                f"{case.label}: alpha at 10 and at {max(curves[0]):.0f} conjunctions",
                "from about 1 towards 0",
                f"{statistics.median(first):.3g} and {statistics.median(last):.3g}",
                falls and min(first) > 0.8 and max(last) < 0.6 * min(first),
            ),
        ]

    def _tables_panel(self, layer: str, measured: Sequence[Case], results: Results) -> Panel:
        """The entries of the tables on the curve of receivers drawn at random."""
        cases = [case for case in measured if case.facts["layer"] == layer]
        curves = {"receivers drawn at random": results.curves(cases[0], "random")} if cases else {}
        curves |= {f"entries of {case.facts['scheme']}": results.curves(case) for case in cases}
        return Panel(
            f"Tables of the schemes, {layer}",
            "alpha, in filters",
            curves,
            x="receivers behind an entry",
            percent=False,
            points=True,
        )

    def panels(self, results: Results) -> list[Panel]:
        measured = [case for case in results if case.facts["model"] == "tables"]
        return [
            *(self._tables_panel(layer, measured, results) for layer in LAYERS),
            Panel(
                "Conjunctions combined in one disjunction",
                "alpha",
                {
                    case.label: [
                        [(math.log10(k), value) for k, value in curve] for curve in results.curves(case)
                    ]
                    for case in results
                    if case.facts["model"] == "dnf"
                },
                x="conjunctions (log10)",
                percent=False,
            ),
        ]


def measure(facts: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Returns the draws of a case; of the DNF model a curve (conjunctions, alpha)."""
    import numpy as np

    from testbed.alpha import conjunctions, formulas

    if facts["model"] == "tables":
        from testbed.figures.alpha_tables import measure_tables

        return measure_tables(facts, seed)
    rng = np.random.default_rng([seed, *str(sorted(facts.items())).encode()])
    model, n = facts["model"], int(facts["n"])
    if model == "dnf":
        total = max(n, _DRAWN)
        drawn = conjunctions.draw(total, facts["names"], rng, zipf=facts["zipf"])
        return {
            "curve": [
                (k, _mean(conjunctions.alpha(drawn.part(start, k)) for start in range(0, total - k + 1, k)))
                for k in _GRID
                if k <= n
            ]
        }
    if model in ("equal", "less"):
        one = [conjunctions.one_integer_constraint(n, facts["names"], rng, model) for _ in range(20)]
        return {
            "draws": [conjunctions.alpha(each) for each in one],
            "exact": formulas.uniform(facts["kinds"], 1, n),
        }
    universe, h = facts["universe"], facts["h"]
    times = 20 if n <= 1_000 else 4
    if model == "uniform":
        draws = [formulas.sample_uniform(universe, h, n, rng) for _ in range(times)]
        return {"draws": draws, "exact": formulas.uniform(universe, h, n)}
    weights = formulas.zipf_weights(universe)
    alone = n * float((1 - (1 - weights) ** h).sum())
    drawn_sizes = [formulas.sample_weighted(weights, h, n, rng) for _ in range(times)]
    # E|P| over the expected sum: the ratio of expectations, as the formula.
    return {
        "draws": [together / alone for together, _ in drawn_sizes],
        "exact": formulas.weighted(weights, h, n),
    }


def _mean(values: Iterator[float]) -> float:
    """The mean of values that are taken until it is known well enough, or none is left."""
    taken: list[float] = []
    for value in values:
        taken.append(value)
        if len(taken) >= _DRAWS and statistics.stdev(taken) < _ERROR * math.sqrt(len(taken)):
            break
    return statistics.fmean(taken)
