"""The summary table of the slides on routing (part III): each row by the slides' own formula.

Runs without covering have alpha = 1. The distance d of PSF is calculated on random graphs with power-law
degrees (`power_law_graph`), of which no message is simulated.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from captures.accounting.direct import Direct
from captures.accounting.schemes import SENDERS
from captures.rundir.routing_tables import ROUTING_TABLES
from testbed.controller.trees import LAYERS, hops_on_trees
from testbed.evaluation.figures.reproduction import Case, Panel, Reproduction, Results, Statement, Table
from testbed.evaluation.figures.scheme_memory import local_predicates, predicted_by_alpha
from testbed.experiments.config import Experiment

#: Scheme -> row of the slides, and the row's formula.
_ROWS = {
    "psf": ("PSF", "(s r M_p d)"),
    "ips": ("iPS", "(n r M_p alpha(r / Delta))"),
    "pif-classes": ("iPS", "(n r M_p alpha(r / Delta))"),
    "pif": ("PIF", "(n^2 r M_p alpha(r / Delta))"),
    "drp": ("DRP", "(s r M_p)"),
}
#: Schemes of whose rows the formula has no alpha.
_WITHOUT_ALPHA = ("psf", "drp")
_ALONE, _COVERING = "alpha = 1", "covering"
#: A slide's n for n - 1 is 2 % of 50 nodes.
_TOLERANCE = 0.05
#: How much greater the residual of the other line is before a line is judged.
_MARGIN = 2

#: Exponents of the power law.
_EXPONENTS = (2.1, 2.5, 2.9, 3.5)
#: Nodes of the growth of d, at least.
_GROWS_FROM = 1_000


class Formulas(Reproduction, page="formulas"):
    measure = "testbed.evaluation.figures.formulas:measured"

    def cases(self, size: str) -> list[Case]:
        found = [
            Case.of(
                f"{scheme} for {_ROWS[scheme][0]}, {nodes} nodes, {setting}",
                {"scheme": scheme, "nodes": nodes, "setting": setting},
                topology__nodes=nodes,
                duration_s=120,
                workload__messages_per_minute=3,
                workload__receivers_percent=75,
                workload__senders_percent=20,
                workload__changing_receivers_percent=0,
                routing__scheme=scheme,
                protocol__covering="none" if setting == _ALONE else "full",
            )
            for setting in (_ALONE, _COVERING)
            for scheme in _ROWS
            if setting == _ALONE or scheme not in _WITHOUT_ALPHA
            for nodes in ((50, 100, 200) if size == "paper" else (25, 50))
        ]
        return found + [
            Case(f"power law {exponent}, {nodes:,} nodes", {}, {"exponent": exponent, "nodes": nodes})
            for exponent in _EXPONENTS
            for nodes in (100, 316, 1_000, 3_162, 10_000, 31_623, 100_000)
        ]

    def run(self, case: Case, seed: int) -> Mapping[str, Any] | None:
        if "exponent" not in case.facts:
            return None
        return {"d": mean_distance(case.facts["nodes"], case.facts["exponent"], seed)}

    def judge(self, results: Results) -> Iterator[Statement]:
        for case in results:
            if "scheme" in case.facts:
                text = f"{case.label}: filters held / {_ROWS[case.facts['scheme']][1]} of the slides"
                yield Statement.by_tolerance(text, 1, results.values(case, "slides"), _TOLERANCE)
        for exponent in _EXPONENTS:
            yield from _growth(exponent, results)

    def tables(self, results: Results) -> list[Table]:
        rows = []
        for case in results.where(scheme="psf"):
            same = {each: results.beside(case, scheme=each) for each in _ROWS}
            filters = [f"{results.median(same[each], 'filters'):,.0f}" for each in _ROWS]
            rows.append([str(case.facts["nodes"]), f"{results.median(case, 'd'):.3g}", *filters])
        d = [
            [
                str(exponent),
                *(f"{results.median(case, 'd'):.3g}" for case in results.where(exponent=exponent)),
            ]
            for exponent in _EXPONENTS
        ]
        sizes = [f"{case.facts['nodes']:,} nodes" for case in results.where(exponent=_EXPONENTS[0])]
        return [
            Table("Filters held, alpha = 1 (medians)", ("n", "d", *_ROWS), rows, on_page=False),
            Table("d on power-law graphs (medians)", ("exponent", *sizes), d, on_page=False),
        ]

    def panels(self, results: Results) -> list[Panel]:
        found = []
        for setting in (_ALONE, _COVERING):
            cases = results.where(setting=setting)
            curves = results.lines(cases, lambda case: case.label.split(",")[0], "nodes", "slides")
            title = f"Filters held / slides' formula, {setting}"
            found.append(Panel.of_points(title, "ratio", curves, "nodes", floor={"formula": 1.0}))
        cases = [case for case in results if "exponent" in case.facts]
        curves = results.lines(cases, lambda case: f"exponent {case.facts['exponent']}", "nodes", "d")
        return [*found, Panel.of_points("Power-law graphs", "d (hops)", curves, "nodes")]


def _growth(exponent: float, results: Results) -> Iterator[Statement]:
    """The growth of d against log log n and log n."""
    cases = [case for case in results.where(exponent=exponent) if case.facts["nodes"] >= _GROWS_FROM]
    nodes = np.array([case.facts["nodes"] for case in cases], dtype=float)
    logs = np.log(np.log(nodes)), np.log(nodes)
    curves = [[d for _, d in curve] for curve in results.curves_over(cases, "nodes", "d")]
    subject = f"power law, exponent {exponent}"
    ratios = [curve[-1] / curve[0] * logs[0][0] / logs[0][-1] for curve in curves]
    middle = float(np.median(ratios)) if ratios else math.nan
    yield Statement(
        f"{subject}: growth of d / log log n, so of M(PSF) / (n^2 log log n), to {nodes[-1]:,.0f} nodes",
        "bounded for all n",
        f"{middle:.3g} ({min(ratios):.3g} to {max(ratios):.3g})" if ratios else "no run",
    )
    residuals = [
        [math.sqrt(float(np.polyfit(log, curve, 1, full=True)[1][0]) / len(nodes)) for log in logs]
        for curve in curves
    ]
    better = sum(_MARGIN * by_log_log <= by_log for by_log_log, by_log in residuals)
    worse = sum(by_log_log >= _MARGIN * by_log for by_log_log, by_log in residuals)
    shown = [float(np.median(each)) for each in zip(*residuals, strict=True)]
    yield Statement(
        f"{subject}: d is a line in log log n rather than in log n",
        "at most half the residual in most seeds",
        f"half or less in {better}, twice or more in {worse} of {len(curves)}; residuals {shown[0]:.2g} and "
        f"{shown[1]:.2g} hops"
        if shown
        else "no run",
        2 * better > len(curves) if not curves or 2 * max(better, worse) > len(curves) else None,
    )


def measured(run: Direct, experiment: Experiment) -> dict[str, Any]:
    """Returns the filters of a run, also over the formula of the slides' row; d."""
    state, topology = run.summary()["state"], experiment.topology
    scheme, layer = experiment.routing.scheme, LAYERS[experiment.broadcast.layer]
    forest, nodes = layer(topology, frozenset(), frozenset()), len(topology.nodes)
    senders = frozenset(run.inputs.senders) if scheme == "drp" else frozenset(range(nodes))
    filters = state[f"{SENDERS if scheme == 'drp' else 'forwarding'}_filters"]
    predicates = local_predicates(ROUTING_TABLES.read(run.inputs.run))
    d = float(hops_on_trees(topology, layer, frozenset(), frozenset()).sum()) / (nodes * (nodes - 1))
    # n r M_p alpha(r / Delta).
    whole: float = nodes * sum(map(len, predicates.values()))
    if experiment.protocol.covering == "full":
        by_alpha = predicted_by_alpha(forest, predicates, senders, random.Random(experiment.seed))
        whole = by_alpha["pif by mean"]["filters"] * nodes / (nodes - 1)
    factor = {"psf": d, "pif": nodes, "drp": len(senders) / nodes}.get(scheme, 1)
    return {"filters": filters, "slides": filters / (whole * factor), "d": d}


Ints = npt.NDArray[np.int64]

_LEAST_DEGREE = 2
#: Graphs of a seed, and nodes of each from which distances are measured: a bit of an integer each.
_GRAPHS, _SOURCES = 4, 64


def power_law_graph(nodes: int, exponent: float, random: np.random.Generator) -> tuple[Ints, Ints]:
    """Returns a random graph: the neighbours of node v are ends[start[v]:start[v + 1]].

    The graph is drawn as in the configuration model: each node has as many ends of links as its degree, and
    the ends of all nodes are joined at random. Loops and double links are left out. The degrees are quantiles
    of their distribution: drawn degrees would move the mean distance by a tenth with the few greatest of
    them. `topos.generators.power_law`, whose graphs are networks to emulate, bounds degrees by 2 sqrt(n), and
    a bound on degrees lengthens the paths whose growth is measured.

    Args:
        exponent: the share of nodes of a degree k, from 2 to nodes - 1, is in proportion to k^-exponent.
    """
    cumulative = np.cumsum(np.arange(_LEAST_DEGREE, nodes, dtype=float) ** -exponent)
    quantiles = (np.arange(nodes) + 0.5) / nodes
    degrees = _LEAST_DEGREE + np.searchsorted(cumulative / cumulative[-1], quantiles)
    degrees[0] += degrees.sum() % 2
    joined = random.permutation(np.repeat(np.arange(nodes), degrees)).reshape(-1, 2)
    joined = joined[joined[:, 0] != joined[:, 1]]
    # Each link once from either end.
    links = np.unique(np.concatenate((joined @ [nodes, 1], joined @ [1, nodes])))
    return np.searchsorted(links, nodes * np.arange(nodes + 1)), links % nodes


def mean_hops(start: Ints, ends: Ints, sources: Ints) -> float:
    """Returns the mean hops from some nodes, at most 64, to all other nodes to which paths lead.

    A node has a bit for each source that has reached it, so memory is O(n) and a hop of all sources is one
    pass over the links.
    """
    reached = np.zeros(len(start) - 1, np.uint64)
    reached[sources] = np.uint64(1) << np.arange(len(sources), dtype=np.uint64)
    linked = np.flatnonzero(np.diff(start))
    hops = total = 0
    while True:
        new = np.bitwise_or.reduceat(reached[ends], start[linked]) & ~reached[linked]
        if not new.any():
            return total / (int(np.bitwise_count(reached).sum()) - len(sources))
        hops += 1
        total += hops * int(np.bitwise_count(new).sum())
        reached[linked] |= new


def mean_distance(nodes: int, exponent: float, seed: int) -> float:
    """Returns the mean of `mean_hops` over several graphs, from nodes drawn at random."""
    random = np.random.default_rng((seed, nodes, round(100 * exponent)))
    graphs = (power_law_graph(nodes, exponent, random) for _ in range(_GRAPHS))
    return float(np.mean([mean_hops(*graph, random.permutation(nodes)[:_SOURCES]) for graph in graphs]))
