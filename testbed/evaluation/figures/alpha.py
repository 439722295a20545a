"""Alpha, the disjunction advantage: Monte Carlo against exact values, and the slides' curves (part III)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from testbed.evaluation.figures import LAYERS, Points
from testbed.evaluation.figures.alpha_draws import ERROR, MERGED, UNITS, exact
from testbed.evaluation.figures.reproduction import Case, Panel, Reproduction, Results, Statement, Table

#: |M|, h and n of the generic model.
_ROWS = (
    *((10_000, 10, 10), (10_000, 10, 100), (10_000, 10, 1_000), (10_000, 10, 10_000)),
    (1_000_000, 1, 1_000_000),
)
#: Conjunctions of integer constraints, whose alpha is known exactly: constraints, names, operator, numbers
#: of conjunctions, of which several are equal.
_EXACT = {
    "one equality constraint, 50 names x 100 integers": (1, 50, "equal", (200, 2_000, 20_000)),
    "two equality constraints, 10 names x 100 integers": (2, 10, "equal", (2_000, 20_000)),
    "three equality constraints, 10 names x 100 integers": (3, 10, "equal", (20_000,)),
    "one constraint `<` on one of 500 integer names": (1, 500, "less", (200, 2_000, 20_000)),
}
#: Names whose units and merging a panel shows: the slides' |A|.
_SHOWN = 500
#: Conjunctions of a fixed number of constraints, at most.
_FIXED = 100_000


class Alpha(Reproduction, page="alpha"):
    measure = "testbed.evaluation.figures.alpha_draws:measure"
    calculates = True

    def cases(self, size: str) -> list[Case]:
        paper = size == "paper"
        most, nodes = (1_000_000, 100) if paper else (10_000, 50)
        found = [
            Case(
                f"generic, {name}: |M| {universe}, h {h}, n {n}",
                facts={"model": name.lower(), "universe": universe, "h": h, "n": n},
            )
            for name in ("uniform", "Zipf")
            for universe, h, n in _ROWS
        ]
        for label, (constraints, names, operator, numbers) in _EXACT.items():
            facts = {"model": "integers", "constraints": constraints, "names": names, "operator": operator}
            # The different conjunctions, of which those with `<` on a name all cover each other.
            facts["kinds"] = names if operator == "less" else math.comb(names, constraints) * 100**constraints
            found += [Case(f"{label}, n {n}", {}, facts | {"n": n}) for n in numbers]
        dnf = [
            (names, zipf, "", (1, 6), most)
            for zipf in (False, True)
            for names in ((50, 100, 200, 500, 1000) if paper else (50, 500))
        ]
        fixed = ("1 constraint", "2 constraints", "3 constraints")
        dnf += [(_SHOWN, False, f", {how}", (k, k), min(most, _FIXED)) for k, how in enumerate(fixed, 1)]
        for names, zipf, how, of_each, n in dnf:
            facts = {"model": "dnf", "names": names, "zipf": zipf, "constraints": of_each, "n": n}
            label = f"DNF, {'Zipf' if zipf else 'uniform'} names{how}: |A| {names}"
            found.append(Case(label, {}, facts | {"merged": not how}))
        for layer, scheme in product(LAYERS, ("pif", "psf", "ips")):
            facts = {"model": "tables", "scheme": scheme, "layer": layer, "nodes": nodes, "n": 0}
            found.append(Case(f"tables of {scheme}: {nodes} nodes, {layer}", {}, facts))
        return found

    def judge(self, results: Results) -> Iterator[Statement]:
        for case in results:
            if case.facts["model"] == "dnf":
                yield from self._shape(case, results)
            if case.facts["model"] in ("dnf", "tables"):
                continue
            draws = [value for run in results.runs(case) for value in run["draws"]]
            exact = results.median(case, "exact")
            mean = statistics.fmean(draws) if draws else math.nan
            error = statistics.stdev(draws) / math.sqrt(len(draws)) if len(draws) > 1 else math.nan
            yield Statement(
                f"{case.label}: the mean of {len(draws)} draws is exact to 3 standard errors",
                f"{exact:.6f}",
                f"{mean:.6f} +- {error:.2g}",
                # All draws may be equal, where nothing is random any more.
                bool(draws) and abs(mean - exact) <= max(3 * error, 1e-9),
            )

    def _shape(self, case: Case, results: Results) -> list[Statement]:
        curves = [dict(curve) for curve in results.curves(case, "constraints")]
        if not curves:
            return [Statement(f"{case.label}: alpha falls", "from about 1 towards 0", "no run", False)]
        first = [curve[min(curve)] for curve in curves]
        last = [curve[max(curve)] for curve in curves]
        within = all(0 < curve[k] <= 1 for curve in curves for k in curve)
        falls = within and min(first) > 0.8 and max(last) < 0.6 * min(first)
        # A fixed number of constraints is none of the slides' workload: alpha may fall later.
        fewest, most = case.facts["constraints"]
        known = [dict(curve) for curve in results.curves(case, "errors")]
        errors = [each for k in curves[0] if (each := _error(k, curves, known)) is not None]
        return [
            Statement(
                f"{case.label}: greatest standard error of the mean over {len(curves)} seeds",
                f"less than {ERROR}, or all drawn",
                f"{max(errors):.2g}" if errors else "one part",
            ),
            Statement(
                f"{case.label}: alpha at 10 and at {max(curves[0]):.0f} conjunctions",
                "from about 1 towards 0",
                f"{statistics.median(first):.3g} and {statistics.median(last):.3g}",
                falls if fewest < most or not within else None,
            ),
        ]

    def tables(self, results: Results) -> list[Table]:
        rows = []
        for case in results.where(merged=True):
            at = {
                key: statistics.median(dict(curve)[k] for curve in curves)
                for key in (*UNITS, *(f"merged_{unit}" for unit in UNITS), "undecided")
                if (curves := results.curves(case, key)) and (k := min(MERGED, max(dict(curves[0]))))
            }
            if at:
                rows.append([case.label, *(f"{value:.3g}" for value in at.values())])
        columns = ("case", "constraints", "bytes", "merged: constraints", "merged: bytes", "searches cut off")
        title = (
            f"Alpha at {MERGED:,} conjunctions by unit, covered ones dropped, and merged as well (medians)"
        )
        return [Table(title, columns, rows)]

    def panels(self, results: Results) -> list[Panel]:
        found = [
            _exact_panel("Generic model", "predicates", results, ("uniform", "zipf")),
            _exact_panel("Integer constraints", "conjunctions", results, ("integers",)),
        ]
        for zipf in (False, True):
            names = "Zipf names" if zipf else "uniform names"
            cases = results.where(model="dnf", merged=True, zipf=zipf)
            curves = {f"|A| = {case.facts['names']}": results.curves(case, "constraints") for case in cases}
            found.append(_panel(f"DNF model, {names}", curves))
            shown = [case for case in cases if case.facts["names"] == _SHOWN]
            units = {
                f"{unit}, {how}": results.curves(case, key + unit)
                for case in shown
                for key, how in (("", "covered dropped"), ("merged_", "merged"))
                for unit in UNITS
            }
            found.append(_panel(f"DNF model, {names}, |A| = {_SHOWN}", units))
        fixed = {
            f"{case.facts['constraints'][0]} constraints": results.curves(case, "constraints")
            for case in results.where(model="dnf", merged=False)
        }
        found.append(_panel(f"DNF model, uniform names, |A| = {_SHOWN}", fixed))
        for layer in LAYERS:
            cases = results.where(model="tables", layer=layer)
            curves = {"receivers drawn at random": results.curves(cases[0], "random")} if cases else {}
            curves |= {f"entries of {case.facts['scheme']}": results.curves(case) for case in cases}
            title, x = f"Tables of the schemes, {layer}", "receivers behind an entry"
            found.append(Panel.of_points(title, "alpha, in filters", curves, x))
        return found


def _error(
    k: float, curves: Sequence[Mapping[float, float]], known: Sequence[Mapping[float, float]]
) -> float | None:
    """The standard error of the mean of alpha(k) over the seeds; None: one seed with one part."""
    errors = [each[k] for each in known if k in each]
    if len(errors) == len(curves):
        return math.sqrt(sum(error**2 for error in errors)) / len(errors)
    values = [curve[k] for curve in curves]
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None


def _panel(title: str, curves: Mapping[str, Sequence[Points]]) -> Panel:
    return Panel.of_points(title, "alpha", curves, "conjunctions combined in one disjunction")


def _exact_panel(title: str, x: str, results: Results, models: Sequence[str]) -> Panel:
    """The means of the draws as points, and the formulas as lines."""
    cases = {
        case: case.label.rsplit(" n ", 1)[0].rstrip(",").replace("generic, ", "")
        for case in results
        if case.facts["model"] in models and results.runs(case)
    }
    curves = results.lines(cases, cases.__getitem__, "n", lambda run: statistics.fmean(run["draws"]))
    formulas = {}
    for case, label in cases.items():
        numbers = [n for curve in curves[label] for n, _ in curve]
        first, last = min(numbers), max(numbers)
        dense = sorted({round(first * (last / first) ** (step / 24)) for step in range(25)})
        formulas[label] = [(float(n), exact(case.facts, n)) for n in dense]
    return Panel.of_points(title, "alpha", curves, x, formulas=formulas)
