"""Trades of the slides (parts I and IV) and the protocol paper: privacy, requests, state against traffic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np

from captures.accounting.direct import Direct
from router.predicates import Constraint, Filter, Message, Operator, matches_filter
from router.predicates.encoded.encodings import ENCODINGS
from router.predicates.parser import parse_predicate
from testbed.evaluation.figures import LAYERS
from testbed.evaluation.figures.floor import spread_of, tables_of
from testbed.evaluation.figures.reproduction import SEED, Case, Panel, Reproduction, Results, Statement, Table
from testbed.experiments.config import Experiment
from testbed.experiments.config.load import find_experiment, load_experiment
from testbed.experiments.workload.generate import generate

#: What is advertised -> shares of constraints and of filters in the open; a filter has 1, 2 or 3 constraints.
_OPEN = {"2 constraints a filter": (5 / 6, 2 / 3), "1 constraint a filter": (1 / 2, 1 / 3)}
_NAMES, _RANGES = "names", "ranges"
_ADVERTISED = ("exact", *_OPEN, _NAMES, "slides", _RANGES)
_COUNTS, _UNWANTED = (80, 20, 5), (20, 5, 1)
#: Policy -> option, values.
_POLICIES = {
    "never": ("sr_threshold", (0,)),
    "periodic": ("sr_period_s", (600,)),
    "count": ("sr_threshold", _COUNTS),
    "unwanted": ("sr_threshold", _UNWANTED),
}
#: `max_filters`; in its place, 1,000 for all filters, and 0 for flooding.
_LIMITS, _ALL, _FLOODING = (2, 4, 8, 16), 1000, 0
#: Mean time between changes of a predicate, and the period of SRs, s.
_CHANGE_S, _PERIOD_S = 1200, 600
_FALSE = "false_positives"
_SHOWN = {_FALSE: "false positives", "requests": "SRs and URs", "crossings": "crossings a message"}
_STATIC, _RATE = "workload.changing_receivers_percent", "workload.messages_per_minute"
_POLICY, _PERIOD = "protocol.sr_policy", "protocol.sr_period_s"


class Trades(Reproduction):
    title = "Trades of privacy, requests and state"
    paper = (
        "Overly generic predicates: Bob declares a p' covering p; limited security. The SR/UR protocol can "
        "be expensive: URs can be reused; it can be triggered by the amount of false positives (slides, "
        "parts IV and I). Over-simplification trades some unwanted traffic for less complexity; with "
        "message rates orders of magnitude above the rate of changes, messages dominate (protocol paper, "
        "sections 3.5.6 and 4.2).",
    )
    explanation = (
        "The best guess at a filter is what is advertised, and names filters that are whole. An encoding "
        "leaves nothing in the open, and hides messages as well ([leakage](leakage-small.md) has attacks).",
        "`count` counts messages; `unwanted` counts false positives of the router. They came by tables of "
        "other routers, and its SR trims its own.",
    )
    deviations = (
        "Privacy: perfect tables, static predicates, no false matches by the hash. A wider predicate keeps "
        "the first constraints of each filter, or all names.",
        "`count` is interpolated over the logarithm of SRs and URs. Crossings given back: of those that "
        "exact tables save over flooding.",
        "Control in t = 1,200 s without reuse: C = r (n - 1) (1 + t / 1,200 s) + 2 n (n - 1) t / 600 s; L "
        "messages cross m links each with perfect tables; between SRs tables are wider. `rate 50` is "
        "1,000 times the rate of changes.",
        "[scale](scale-small.md) and [formulas](formulas.md) have the growth of state, [rules](rules.md) of "
        "RAs, [srur](srur.md) of SRs without reuse.",
    )
    measure = "testbed.evaluation.figures.trades:measured"
    captures = "none"
    sizes = ("small",)

    def cases(self, size: str) -> list[Case]:  # noqa: ARG002
        changing = {_STATIC: 100, "workload.predicate_change_interval_s": _CHANGE_S}
        found = [_case("privacy", *each, 50, 1200, {_STATIC: 0}) for each in product(LAYERS, _ADVERTISED)]
        for layer, (name, (option, values)) in product(LAYERS, _POLICIES.items()):
            more = changing | {_RATE: 2, _POLICY: name}
            found += [_case(name, layer, n, 25, 7200, more | {f"protocol.{option}": n}) for n in values]
        for layer, limit in product(LAYERS, (*_LIMITS, _ALL, _FLOODING)):
            more = {"protocol.max_filters": limit} if limit else {"routing.scheme": "flooding"}
            found.append(_case("max_filters", layer, limit, 50, 600, more | {_STATIC: 0}))
        more = {_STATIC: 0, _POLICY: "periodic", _PERIOD: 60}
        found += [_case("nodes", layer, n, n, 60, more) for layer, n in product(LAYERS, (25, 50, 100))]
        more = changing | {_POLICY: "periodic", _PERIOD: _PERIOD_S, "protocol.ur_reuse": "false"}
        return found + [_case("rate", "spt", n, 25, 1200, more | {_RATE: n}) for n in (0.5, 5, 50)]

    def run(self, case: Case, seed: int) -> Mapping[str, Any] | None:
        if case.facts["of"] != "privacy":
            return None
        experiment = load_experiment(find_experiment("default"), {**case.overrides, "seed": str(seed)})
        return advertised(experiment, case.facts["what"])

    def judge(self, results: Results) -> Iterator[Statement]:
        for layer in LAYERS:
            of = {(each.facts["of"], each.facts["what"]): each for each in results.where(layer=layer)}
            for what in (*_OPEN, _NAMES):
                yield from _of_privacy(results, of["privacy", what], of["privacy", _RANGES])
            yield from _of_requests(results, layer, of)
            for limit in _LIMITS:
                others = of["max_filters", _ALL], of["max_filters", _FLOODING]
                yield _of_state(results, of["max_filters", limit], *others)
            yield _of_growth(results, layer)
        for case in results.where(of="rate"):
            ratios = [own / formula for own, formula in results.pairs(case, "control", case, "predicted")]
            yield Statement.by_tolerance(f"{case.label}: control over C / (C + L m)", 1, ratios, 0.1)
        (case,) = results.where(of="rate", what=50)
        text = f"{case.label}: messages dominate (control at most half of all frames)"
        formula, shares = results.band(case, "predicted", 100), results.values(case, "control")
        yield Statement.by_interval(text, f"{formula} %", shares, high=0.5, unit="%")

    def tables(self, results: Results) -> list[Table]:
        scale = {"crossings": 1}
        rows = []
        for what in _ADVERTISED:
            spt, tree = results.where(of="privacy", what=what)
            columns = (spt, "crossings"), (spt, _FALSE), (tree, "crossings"), (tree, _FALSE), (tree, "read")
            rows.append(
                [what, *(f"{scale.get(key, 100) * results.median(case, key):.3g}" for case, key in columns)]
            )
        of_layers = (f"{layer}: {key}" for layer in LAYERS for key in ("crossings", "false positives (%)"))
        return [Table("Advertised predicates (medians)", ("", *of_layers, "constraints open (%)"), rows)]

    def panels(self, results: Results) -> list[Panel]:
        found = []
        for policies, y, x in (
            (("count", "unwanted"), _FALSE, "sr_threshold"),
            (("count", "unwanted"), "requests", "sr_threshold"),
            (("max_filters",), "filters", "max_filters (1,000: all)"),
            (("max_filters",), _FALSE, "max_filters (1,000: all)"),
            (("max_filters",), "crossings", "max_filters (1,000: all)"),
            (("rate",), "control", "messages a minute and sender"),
            (("nodes",), "SRs", "nodes"),
        ):
            cases = [case for case in results if case.facts["of"] in policies and case.facts["what"]]
            curves = results.lines(cases, lambda case: "{layer}, {of}".format(**case.facts), "what", y)
            percent = y in (_FALSE, "control")
            found.append(
                Panel(", ".join(policies), _SHOWN.get(y, y), curves, x=x, percent=percent, points=True)
            )
        return found


def _case(of: str, layer: str, what: float | str, nodes: int, t_s: int, more: Mapping[str, Any]) -> Case:
    network = {"topology__nodes": nodes, "duration_s": t_s, "broadcast__layer": layer}
    return Case.of(f"{layer}, {of} {what}", {"of": of, "layer": layer, "what": what}, **network, **more)


def _together(results: Results, *cases: Case) -> list[tuple[Mapping[str, Any], ...]]:
    """Returns the runs of the cases with equal seeds."""
    of_seed = [{run[SEED]: run for run in results.runs(case)} for case in cases]
    return [tuple(each[seed] for each in of_seed) for seed in sorted(set.intersection(*map(set, of_seed)))]


def _of_privacy(results: Results, case: Case, encoded: Case) -> Iterator[Statement]:
    for key, predicted in zip(("read", "whole"), _OPEN.get(case.facts["what"], ()), strict=False):
        text = f"{case.label}: share in the open, of {'constraints' if key == 'read' else 'filters'}"
        yield Statement.by_tolerance(text, predicted, results.values(case, key), 0.1)
    runs = [
        (own["read"], own["crossings"] / other["crossings"])
        for own, other in _together(results, case, encoded)
    ]
    times = results.band_of([ratio for _, ratio in runs])
    yield Statement(
        f"{case.label}: limited security (a third of constraints open, or more crossings than `{_RANGES}`)",
        "as stated",
        f"{results.band(case, 'read', 100)} % open, {times} times the crossings",
        bool(runs) and all(read >= 1 / 3 or ratio > 1 for read, ratio in runs),
    )


def _of_requests(results: Results, layer: str, of: Mapping[tuple[str, Any], Case]) -> Iterator[Statement]:
    removed = [
        # Nothing, if it asks as often.
        (never[_FALSE] - own[_FALSE])
        / (never[_FALSE] - often[_FALSE])
        * (own["requests"] < often["requests"])
        for own, never, often in _together(results, of["unwanted", 5], of["never", 0], of["periodic", 600])
    ]
    text = (
        "with fewer SRs and URs than every 10 min, removes more than half of the false positives those remove"
    )
    yield Statement.by_interval(f"{layer}, unwanted 5: {text}", "less than all", removed, 0.5, unit="%")
    for threshold in _UNWANTED:
        less = []
        for own, *counts in _together(results, of["unwanted", threshold], *(of["count", n] for n in _COUNTS)):
            known = np.log([run["requests"] for run in counts])
            other = np.interp(np.log(own["requests"]), known, [run[_FALSE] for run in counts])
            less.append(float(other) - own[_FALSE])
        text = f"{layer}, unwanted {threshold}: fewer false positives than `count` with as many SRs and URs"
        yield Statement.by_interval(text, "more: another table sent them", less, 0)


def _of_state(results: Results, case: Case, whole: Case, flooding: Case) -> Statement:
    saved, given, bound = [], [], []
    for own, exact, most in _together(results, case, whole, flooding):
        saved.append(1 - own["filters"] / exact["filters"])
        given.append((own["crossings"] - exact["crossings"]) / (most["crossings"] - exact["crossings"]))
        bound.append(max(0.0, 1 - 2 * case.facts["what"] * own["interfaces"] / exact["filters"]))
    return Statement(
        f"{case.label}: saves more of the filters than it gives back of the crossings",
        f"saves {results.band_of(bound, 100)} % at least",
        f"saves {results.band_of(saved, 100)} %, gives back {results.band_of(given, 100)} %",
        bool(saved) and all(a > b and a >= c for a, b, c in zip(saved, given, bound, strict=True)),
    )


def _of_growth(results: Results, layer: str) -> Statement:
    cases = results.where(of="nodes", layer=layer)
    nodes = np.array([case.facts["what"] for case in cases])
    growing = [[run["SRs"] for run in each] for each in _together(results, *cases)]
    fits = [np.polyfit(np.log(nodes), np.log(each), 1) for each in (*growing, nodes * (nodes - 1))]
    *found, without = [float(slope) for slope, _ in fits]
    text = f"{layer}, SRs with reuse: grow by a lesser exponent than n (n - 1)"
    predicted = "1: all URs are reused" if layer == "spanning-tree" else f"less than {without:.3g}"
    return Statement.by_interval(text, predicted, found, high=without, unit="exponent", scale=1)


def advertised(experiment: Experiment, what: str) -> dict[str, float]:
    """Returns the traffic of perfect tables of wider predicates, and the share of the predicates in the open.

    `crossings` is a mean, `false_positives` the share of figure 12; `read` is of constraints, `whole` of
    filters.
    """
    encoding = ENCODINGS[what]() if what in ENCODINGS else None

    def wider(own: Filter) -> Filter:
        if what == _NAMES:
            return Filter(tuple(Constraint(each.name, each.type, Operator.ANY) for each in own))
        return Filter(own.constraints[: int(what[0])]) if what in _OPEN else own

    items, tables, found = generate(experiment).items, tables_of(experiment), []
    own = [(item.node, each) for item in items if item.predicate for each in parse_predicate(item.predicate)]
    seen = [wider(each) for _, each in own]
    sets = [encoding.filter_strings(each) if encoding else frozenset() for _, each in own]
    for source, message in ((item.node, Message(item.attributes)) for item in items if item.attributes):
        exact = {node for node, each in own if matches_filter(each, message)}
        if encoding:
            strings = encoding.message_strings(message)
            wide = {node for (node, _), each in zip(own, sets, strict=True) if each <= strings}
        else:
            wide = {node for (node, _), each in zip(own, seen, strict=True) if matches_filter(each, message)}
        found.append(tables.spread(source, exact, wide))
    reached, wasted = np.sum(found, axis=0).tolist()
    kept = [0 if encoding else len({*a} & {*b}) for (_, a), b in zip(own, seen, strict=True)]
    sizes = [len(each.constraints) for _, each in own]
    return {
        "crossings": reached / len(found) - 1,
        _FALSE: wasted / reached,
        "read": sum(kept) / sum(sizes),
        "whole": sum(map(int.__eq__, kept, sizes)) / len(sizes),
    }


def measured(run: Direct, experiment: Experiment) -> dict[str, Any]:
    """Returns traffic and state of a run, and the share of control that a formula predicts."""
    summary, nodes, t_s = run.summary(), len(experiment.topology.nodes), experiment.duration_s
    frames, sent = summary["frames_by_type"], summary["messages_sent"]
    control = sum(frames[each] for each in ("RA", "SR", "UR"))
    tree = experiment.broadcast.layer == "spanning-tree"
    found = {
        "SRs": frames["SR"],
        "requests": frames["SR"] + frames["UR"],
        "crossings": frames["MSG"] / sent,
        "control": control / (control + frames["MSG"]),
        _FALSE: summary[_FALSE] / summary["messages_received_by_routers"],
        "filters": summary["state"]["forwarding_filters"],
        "interfaces": 2 * (nodes - 1 if tree else len(experiment.topology.links)),
    }
    if not experiment.protocol.ur_reuse:
        advertising = len(run.inputs.log.first_predicates) * (1 + t_s / _CHANGE_S)
        c = (nodes - 1) * (advertising + 2 * nodes * t_s / _PERIOD_S)
        found["predicted"] = c / (c + spread_of(experiment)[0] - sent)
    return found
