"""Internet scale: the state of routers and the control traffic of networks of up to 100,000 routers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import pairwise, product
from statistics import median
from typing import Any

from testbed.evaluation.figures import LAYERS, Number, Points, steady
from testbed.evaluation.figures.reproduction import Case, Panel, Reproduction, Results, Statement, Table
from testbed.evaluation.figures.schemes import SCHEMES
from testbed.evaluation.figures.steady import FILTERS, KINDS, ROUTERS
from testbed.experiments.config import WorkloadOptions

#: Bytes a constraint of the compiled engine with 1,000,000 constraints (docs/explanation/matching.md).
_BYTES = 44
_MEMORY = {f"{size} GB": size * 1e9 / _BYTES for size in (1, 16)}
#: Key of what is simulated -> what it is; with the other schemes every RA reaches all routers.
_COMPARED = {
    "mean": "constraints a router",
    "max": "constraints of the fullest router",
    "RAs": "RAs of set-up",
}
_HOW = dict(zip(KINDS, ("no covering", "covering"), strict=True))
#: Changes of predicates a second and router: those of the workload of an experiment.
_RATE = (
    (WorkloadOptions.receivers_percent / 100)
    * (WorkloadOptions.changing_receivers_percent / 100)
    / WorkloadOptions.predicate_change_interval_s
)
_DOMAINS = {"flat": "flat", "merged": "domains, disjunction", "fewer": f"domains, {FILTERS} filters"}
#: Scheme -> the slides' formula of a router without covering, and the exponent of its growth with n.
_SLIDES = {"psf": ("s r M_p d / n", 1.0), "ips": ("r M_p", 1.0), "pif": ("n r M_p", 2.0)}
#: Nodes at which extrapolation ends.
_FAR = 1e8
_X = "routers"


class Scale(Reproduction, page="scale"):
    measure = f"{steady.__name__}:measure"
    calculates = True

    def cases(self, size: str) -> list[Case]:
        paper = size == "paper"
        nodes = (100, 400, 1_000, 3_000, 10_000, 30_000, 100_000) if paper else (100, 1_000, 10_000, 100_000)
        simulated = product((100, 400) if paper else (100,), LAYERS, SCHEMES)
        found = [_case("simulated", n, layer=layer, scheme=scheme) for n, layer, scheme in simulated]
        found += [_case("state", n, layer=layer) for n, layer in product(nodes, LAYERS)]
        return found + [_case("domains", n) for n in nodes]

    def judge(self, results: Results) -> Iterator[Statement]:
        for key, layer, scheme in product(_COMPARED, LAYERS, SCHEMES):
            if key != "RAs" or scheme in ("pif", "pif-classes"):
                yield _near(results, layer, scheme, key)
        for layer in LAYERS:
            yield _equal(results, layer)
            yield _sampled(results, layer)
        for scheme, (formula, exponent) in _SLIDES.items():
            curves = _curves(results, "spt", _state(scheme, "apart", "mean"))
            yield _grows(
                f"spt, {scheme}, no covering: growth of a router's mean state ({formula})", curves, exponent
            )
        for key, of_domains in (("merged", None), ("fewer", 0.5)):
            yield _grows(
                f"{_DOMAINS[key]}: growth of a router's state", _of_domains(results, key), of_domains
            )

    def panels(self, results: Results) -> list[Panel]:
        found = []
        for layer, (kind, how) in product(LAYERS, _HOW.items()):
            curves = {each: _curves(results, layer, _state(each, kind, "max")) for each in SCHEMES}
            found.append(
                Panel.of_points(
                    f"{layer}, {how}: the fullest router", "constraints", curves, _X, floor=_MEMORY
                )
            )
        changes = {"psf, ips, drp": _curves(results, LAYERS[0], lambda run: _RATE * (run["nodes"] - 1))}
        changes |= {f"pif, {each}": _curves(results, each, _advertised) for each in LAYERS}
        found.append(Panel.of_points("Changes of predicates", "RAs a router and second", changes, _X))
        domains = {label: _of_domains(results, key) for key, label in _DOMAINS.items()}
        return [*found, Panel.of_points("Domains, no covering", "constraints a router", domains, _X)]

    def tables(self, results: Results) -> list[Table]:
        feasible = []
        for scheme, (kind, how) in product(SCHEMES, _HOW.items()):
            row = [scheme, how]
            for layer in LAYERS:
                points = _medians(_curves(results, layer, _state(scheme, kind, "max")))
                row.append(f"n^{_exponent(points):.2f}" if len(points) > 1 else "-")
                row += [_feasible(points, each) for each in _MEMORY.values()]
            feasible.append(row)
        keys = ("exact table mean", "exact table max", "false positives")
        trees = [
            [str(case.facts["nodes"]), case.facts["layer"], *(results.band(case, key) for key in keys)]
            for case in results.where(what="state")
            if results.values(case, "exact table max")
        ]
        of_domains = (*_DOMAINS, "needed", "wasted")
        domains = [
            [str(case.facts["nodes"]), *(f"{results.median(case, key):.3g}" for key in of_domains)]
            for case in results.where(what="domains")
        ]
        return [
            Table(
                "Feasible: the largest n with memory for the table of the fullest router",
                ("scheme", "predicates", *(f"{a}: {b}" for a, b in product(LAYERS, ("growth", *_MEMORY)))),
                feasible,
            ),
            Table(
                "TABLE with subtrees, kB a router; false positives of pif (medians)",
                ("n", "layer", "mean", "greatest", "false positives"),
                trees,
            ),
            Table(
                "Domains: constraints a router; shares of pairs of message and domain (medians)",
                ("n", *_DOMAINS.values(), "with a receiver", f"{FILTERS} filters match in vain"),
                domains,
            ),
        ]


def _case(what: str, nodes: int, **more: str) -> Case:
    facts = {"what": what, "nodes": nodes, **more}
    return Case(", ".join([what, f"{nodes} nodes", *more.values()]), {}, facts)


def _state(scheme: str, kind: str, statistic: str) -> Number:
    """Returns what takes constraints a router from a run: of all routers if known, else of the sample."""
    key = f"{scheme} {kind} {statistic}"

    def value(run: Mapping[str, Any]) -> float | None:
        if scheme == "drp":
            return float(run["r M"])
        found = run.get(f"exact {key}", run.get(key))
        known = run["r M"] if statistic == "max" and scheme in ("psf", "ips") else 0.0
        return None if found is None else found + known

    return value


def _advertised(run: Mapping[str, Any]) -> float | None:
    """RAs of changes that come to a router in a second."""
    crossings = run.get("pif crossings", run.get("exact pif crossings"))
    return None if crossings is None else _RATE * crossings


def _curves(results: Results, layer: str, value: Number) -> list[Points]:
    return results.curves_over(results.where(what="state", layer=layer), "nodes", value)


def _of_domains(results: Results, key: str) -> list[Points]:
    return results.curves_over(results.where(what="domains"), "nodes", key)


def _medians(curves: list[Points]) -> Points:
    of: dict[float, list[float]] = {}
    for n, value in (point for curve in curves for point in curve):
        of.setdefault(n, []).append(value)
    return [(n, median(each)) for n, each in sorted(of.items())]


def _exponent(points: Points) -> float:
    """Returns the exponent of the growth between the last two points."""
    (n, before), (m, after) = points[-2:]
    return math.log(after / before) / math.log(m / n)


def _feasible(points: Points, limit: float) -> str:
    """Returns the number of nodes at which a quantity that grows comes to a limit."""
    for (n, before), above in pairwise(points):
        exponent = _exponent([(n, before), above])
        if (above == points[-1] or above[1] > limit) and exponent > 0:
            found = n * math.exp(math.log(limit / before) / exponent)
            return f"> {_FAR:.0e}" if found > _FAR else f"{'~' if found > points[-1][0] else ''}{found:.1e}"
    return "-"


def _near(results: Results, layer: str, scheme: str, key: str) -> Statement:
    """Compares calculation and simulation of the same networks, with predicates drawn for each."""
    what = _COMPARED[key]
    calculated = "exact set-up" if key == "RAs" else f"exact {scheme} united {key}"
    ratios = [
        ratio
        for case in results.where(what="simulated", layer=layer, scheme=scheme)
        for state in results.where(what="state", layer=layer, nodes=case.facts["nodes"])
        for ratio in results.ratios(state, "r M" if scheme == "drp" else calculated, case, key)
    ]
    return Statement.by_tolerance(f"{layer}, {scheme}: {what}, calculated over simulated", 1, ratios, 0.15)


def _equal(results: Results, layer: str) -> Statement:
    """Compares calculation and simulation of the same networks and predicates."""
    ratios = [
        ratio
        for case, key in product(results.where(what="simulated", layer=layer), ("mean", "max"))
        for ratio in results.ratios(case, f"apart {key}", case, f"calculated {key}")
    ]
    return Statement(
        f"{layer}, no covering: states simulated over those calculated from the same predicates",
        "1, less the filters that receivers share (2 %)",
        f"{min(ratios):.4g} to {max(ratios):.4g} in {len(ratios)}" if ratios else "no run",
        bool(ratios) and min(ratios) >= 0.98 and math.isclose(max(ratios), 1),
    )


def _sampled(results: Results, layer: str) -> Statement:
    """Where all classes are known, the mean state by both ways: sampled, or exact on a tree."""
    how, expected, least = "equal to the exact value", "all", 1.0
    cases = results.where(what="state", layer=layer)
    if layer != "spanning-tree":
        how, expected, least = "whose interval (2 standard errors) has the exact value", "85 % or more", 0.85
        # A sample of all routers is exact.
        cases = [case for case in cases if case.facts["nodes"] > ROUTERS]
    off = [
        abs(run[key] - exact) / run.get(f"{scheme} {kind} error", 1e-9 * exact)
        for run in (run for case in cases for run in results.runs(case))
        for scheme, kind in product(("pif", "psf"), KINDS)
        if (exact := run.get(f"exact {(key := f'{scheme} {kind} mean')}")) is not None
    ]
    near = sum(each <= 2 for each in off)
    return Statement(
        f"{layer}: mean states of pif and psf {how}",
        expected,
        f"{near} of {len(off)}" if off else "no run",
        bool(off) and near >= least * len(off),
    )


def _grows(text: str, curves: list[Points], predicted: float | None) -> Statement:
    found = [_exponent(points) for points in curves if len(points) > 1]
    span = ""
    if found:
        (n, _), (m, _) = max(curves, key=len)[-2:]
        span = f"(exponent) from {n:,.0f} to {m:,.0f} nodes"
    if predicted is None:
        return Statement.by_interval(text, "-", found, unit=span, judged=False)
    limits = predicted - 0.1, predicted + 0.1
    return Statement.by_interval(text, f"n^{predicted:g} within 0.1", found, *limits, unit=span)
