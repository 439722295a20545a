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
from testbed.evaluation.figures import LAYERS, Points
from testbed.evaluation.figures.floor import spread_of, tables_of
from testbed.evaluation.figures.reproduction import Case, Panel, Reproduction, Results, Statement, Table
from testbed.experiments.config import Experiment
from testbed.experiments.config.load import find_experiment, load_experiment
from testbed.experiments.workload.generate import generate

#: A filter has 1, 2 or 3 constraints.
_OPEN = ("2 constraints a filter", "1 constraint a filter")
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
_SHOWN = {
    _FALSE: "false positives",
    "crossings": "crossings a message",
    "requests": "SRs and URs",
    "read": "constraints open",
}
_STATIC, _RATE = "workload.changing_receivers_percent", "workload.messages_per_minute"
_POLICY, _PERIOD = "protocol.sr_policy", "protocol.sr_period_s"
#: Formulas of what crosses links in t = 1,200 s, and the suffix of their keys.
_CROSS, _PREDICTED = {"RAs": "r (n - 1) (1 + t / 1,200 s)", "messages": "L m"}, " predicted"


class Trades(Reproduction, page="trades"):
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
        more = changing | {_POLICY: "periodic", _PERIOD: _PERIOD_S, "protocol.ur_reuse": "false"}
        return found + [_case("rate", "spt", n, 25, 1200, more | {_RATE: n}) for n in (0.5, 5, 50)]

    def run(self, case: Case, seed: int) -> Mapping[str, Any] | None:
        if case.facts["of"] != "privacy":
            return None
        experiment = load_experiment(find_experiment("default"), {**case.overrides, "seed": str(seed)})
        return advertised(experiment, case.facts["what"])

    def judge(self, results: Results) -> Iterator[Statement]:
        for layer in LAYERS:
            (names,) = results.where(of="privacy", layer=layer, what=_NAMES)
            (ranges,) = results.where(of="privacy", layer=layer, what=_RANGES)
            times = results.ratios(names, "crossings", ranges)
            text = f"{names.label}: limited security (more crossings than `{_RANGES}`, which open nothing)"
            yield Statement.by_interval(text, "above 1", times, 1, unit="times")
            *limited, whole, flooding = results.where(of="max_filters", layer=layer)
            for case in limited:
                yield _of_state(results, case, whole, flooding)
        rates = results.where(of="rate")
        # The rate of messages changes no RA.
        for case, key in ((rates[0], "RAs"), *((case, "messages") for case in rates)):
            ratios = results.ratios(case, key, case, key + _PREDICTED)
            yield Statement.by_tolerance(f"{case.label}: {key} over {_CROSS[key]}", 1, ratios, 0.1)
        for case in rates:
            text = f"{case.label}: messages dominate (RAs, SRs and URs at most half of all frames)"
            shares, judged = [_control(run) for run in results.runs(case)], case is not rates[0]
            yield Statement.by_interval(text, "at most 50 %", shares, high=0.5, unit="%", judged=judged)

    def tables(self, results: Results) -> list[Table]:
        wider = [("privacy", each) for each in _ADVERTISED]
        asked = [(of, value) for of, (_, values) in _POLICIES.items() for value in values]
        floors = [_median(results, each, "floor") for each in results.where(of="unwanted", what=_UNWANTED[0])]
        perfect = ["perfect tables", *(cell for floor in floors for cell in ("", floor))]
        found = []
        for title, rows, keys, more in (
            ("Advertised predicates", wider, ("read", "crossings", _FALSE), []),
            ("Policies of SRs", asked, ("requests", _FALSE), [perfect]),
        ):
            cells = []
            for of, what in rows:
                columns = product(results.where(of=of, what=what), keys)
                cells.append([f"{of} {what}", *(_median(results, *column) for column in columns)])
            heads = [f"{layer}: {_SHOWN.get(key, key)}" for layer, key in product(LAYERS, keys)]
            found.append(Table(f"{title} (medians; shares in %)", ("", *heads), [*cells, *more]))
        return found

    def panels(self, results: Results) -> list[Panel]:
        asked: dict[str, list[Points]] = {}
        for layer, policy in product(LAYERS, ("count", "unwanted")):
            cases = [case for case in results.where(of=policy, layer=layer) if results.runs(case)]
            asked[f"{layer}, {policy}"] = [
                [(results.median(case, "requests"), results.median(case, _FALSE)) for case in cases]
            ]
        rates = results.lines(results.where(of="rate"), lambda _: "RAs, SRs and URs", "what", _control)
        found = [
            Panel("count, unwanted", _SHOWN[_FALSE], asked, x="SRs and URs (medians)", points=True),
            Panel("rate", "share of frames", rates, x="messages a minute and sender", points=True),
        ]
        title, x = "max_filters", "max_filters (1,000: all)"
        for y in ("filters", _FALSE, "crossings"):
            cases = [case for case in results.where(of=title) if case.facts["what"]]
            curves = results.lines(cases, lambda case: case.facts["layer"], "what", y)
            found.append(Panel(title, _SHOWN.get(y, y), curves, x=x, percent=y == _FALSE, points=True))
        return found


def _case(of: str, layer: str, what: float | str, nodes: int, t_s: int, more: Mapping[str, Any]) -> Case:
    network = {"topology__nodes": nodes, "duration_s": t_s, "broadcast__layer": layer}
    label = f"{layer}, {'flooding' if of == 'max_filters' and not what else f'{of} {what}'}"
    return Case.of(label, {"of": of, "layer": layer, "what": what}, **network, **more)


def _median(results: Results, case: Case, key: str) -> str:
    median = results.median(case, key)
    return f"{median:,.0f}" if key == "requests" else f"{median * (1 if key == 'crossings' else 100):.3g}"


def _control(run: Mapping[str, Any]) -> float:
    """Returns the share of RAs, SRs and URs among all frames on links."""
    control = run["RAs"] + run["requests"]
    return float(control / (control + run["messages"]))


def _of_state(results: Results, case: Case, whole: Case, flooding: Case) -> Statement:
    saved = [1 - kept for kept in results.ratios(case, "filters", whole)]
    crossed = results.differences(case, "crossings", whole)
    most = results.differences(flooding, "crossings", whole)
    given = [more / most[seed] for seed, more in crossed.items() if seed in most]
    return Statement(
        f"{case.label}: saves more of the filters than it gives back of the crossings",
        "some unwanted traffic",
        f"saves {results.band_of(saved, 100)} %, gives back {results.band_of(given, 100)} %: "
        f"{results.band_of(results.ratios(case, 'crossings', whole))} times the crossings",
        min(saved, default=0) > max(given, default=1),
    )


def advertised(experiment: Experiment, what: str) -> dict[str, float]:
    """Returns the traffic of perfect tables of wider predicates, and the share of the predicates in the open.

    `crossings` is a mean, `false_positives` the share of figure 12, `read` that of constraints.
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
    return {
        "crossings": reached / len(found) - 1,
        _FALSE: wasted / reached,
        "read": sum(kept) / sum(len(each.constraints) for _, each in own),
    }


def measured(run: Direct, experiment: Experiment) -> dict[str, Any]:
    """Returns traffic and state of a run, and what perfect tables and changes of predicates predict."""
    summary, t_s = run.summary(), experiment.duration_s
    frames, sent = summary["frames_by_type"], summary["messages_sent"]
    ((reached, wasted),) = spread_of(experiment, 0.0).tolist()
    advertising = len(run.inputs.log.first_predicates) * (1 + t_s / _CHANGE_S)
    return {
        "RAs": frames["RA"],
        "messages": frames["MSG"],
        "requests": frames["SR"] + frames["UR"],
        "crossings": frames["MSG"] / sent,
        _FALSE: summary[_FALSE] / summary["messages_received_by_routers"],
        "filters": summary["state"]["forwarding_filters"],
        "floor": wasted / reached,
        "RAs predicted": (len(experiment.topology.nodes) - 1) * advertising,
        "messages predicted": reached - sent,
    }
