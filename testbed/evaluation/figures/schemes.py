"""Routing schemes against their formulas: memory, delivery function, traffic (slides, part III)."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, product

from captures.accounting.verdict import MESSAGE_FAILURES
from testbed.evaluation.figures import LAYERS
from testbed.evaluation.figures.reproduction import SEED, Case, Panel, Reproduction, Results, Statement
from testbed.evaluation.figures.scheme_memory import UNITS

SCHEMES = ("pif", "pif-classes", "psf", "ips", "drp")
#: Schemes that cross the links towards receivers alone, on symmetric trees, even while predicates change.
_MINIMAL = ("psf", "ips", "drp")

#: How predicates are compared and whether they change.
#: No covering, predicates that do not change: the formulas are exact.
_NONE = "no covering"
#: Covering, a fifth of the receivers changes its predicate.
_FULL = "covering, changes"
#: Covering, predicates that do not change: the tables of `pif` hold the present predicates.
_STATIC = "covering, no changes"
#: As `_FULL`, with SRs, which trim the tables of `pif` and `pif-classes`.
_ASKED = "covering, changes, SRs"

#: Shares of receivers and senders in percent: those of the protocol paper, and the whole grid.
_RECEIVERS, _SENDERS = 75, 20
_ALL_RECEIVERS, _ALL_SENDERS = (25, 50, 75, 100), (5, 20, 100)
#: A layer whose broadcasts cross all links, on which drp runs too.
_REVERSE_PATHS = "rpf"
#: Emulated routers that wait for a processor are late; what is late is not missed.
_EMULATED_WINDOW_S = 10


class Schemes(Reproduction, page="schemes"):
    measure = "testbed.evaluation.figures.measures:schemes"
    # Of a complete run, that the verdict holds is a statement of the page.
    expected = MESSAGE_FAILURES
    emulated_scale = "auto"
    sizes = ("small", "paper", "emulated")

    def cases(self, size: str) -> list[Case]:
        usual = (_RECEIVERS, _SENDERS)
        every = (_NONE, _FULL, _STATIC, _ASKED)
        grid: list[tuple[int, int, int, str, tuple[str, ...]]]
        if size == "paper":
            grid = [
                (nodes, *shares, layer, every if shares == usual else (_FULL,))
                for nodes in (50, 100, 200)
                for shares in (product(_ALL_RECEIVERS, _ALL_SENDERS) if nodes == 50 else (usual,))
                for layer in LAYERS
            ]
            grid.append((400, *usual, "spt", (_FULL,)))
        elif size == "emulated":
            grid = [(nodes, *usual, "spt", (_FULL,)) for nodes in (50, 100)]
        else:
            grid = [(25, *usual, layer, every) for layer in LAYERS]
            grid.append((50, *usual, "spt", (_NONE, _FULL)))
            others = ((25, _SENDERS), (100, _SENDERS), (_RECEIVERS, 5), (_RECEIVERS, 100))
            grid += [(25, *shares, "spt", (_FULL,)) for shares in others]
        of_setting = {_STATIC: ("pif",), _ASKED: ("pif", "pif-classes")}
        more = {"oracle__in_flight_window_s": _EMULATED_WINDOW_S} if size == "emulated" else {}
        found = [
            _case(nodes, layer, scheme, setting, receivers, senders, **more)
            for nodes, receivers, senders, layer, settings in grid
            for setting in settings
            for scheme in of_setting.get(setting, SCHEMES)
        ]
        if size in ("small", "paper"):
            nodes = 25 if size == "small" else 100
            found.append(_case(nodes, _REVERSE_PATHS, "drp", _STATIC, *usual))
        return found

    def judge(self, results: Results) -> list[Statement]:
        return [
            *_correct(results),
            *_identities(results),
            *_by_alpha(results),
            *_crossings(results),
            *_controller(results),
            *_classes(results),
        ]

    def panels(self, results: Results) -> list[Panel]:
        found = []
        shown = results.where(layer="spt", setting=_FULL, receivers=_RECEIVERS, senders=_SENDERS)
        for key, y in (("filters", "filters for the senders"), ("crossings", "crossings of messages")):
            curves = results.lines(shown, lambda case: case.facts["scheme"], "nodes", key)
            found.append(Panel.of_points(f"spt: {y}", y, curves, "nodes"))
        return found


def _case(
    nodes: int, layer: str, scheme: str, setting: str, receivers: int, senders: int, **more: object
) -> Case:
    if setting == _ASKED:
        more |= {"protocol__sr_policy": "periodic", "protocol__sr_period_s": 200}
    facts = {"nodes": nodes, "layer": layer, "receivers": receivers, "senders": senders}
    return Case.of(
        f"{nodes} nodes, {layer}, r {receivers} %, s {senders} %, {scheme}, {setting}",
        facts | {"scheme": scheme, "setting": setting},
        topology__nodes=nodes,
        duration_s=600,
        workload__messages_per_minute=3,
        workload__receivers_percent=receivers,
        workload__senders_percent=senders,
        workload__changing_receivers_percent=20 if setting in (_FULL, _ASKED) else 0,
        workload__predicate_change_interval_s=300,
        broadcast__layer=layer,
        routing__scheme=scheme,
        protocol__covering="none" if setting == _NONE else "full",
        **more,
    )


def _all(results: Results, cases: Iterable[Case], key: str) -> list[float]:
    return [value for case in cases for value in results.values(case, key)]


def _range(values: Sequence[float]) -> str:
    return f"{min(values):.4g} to {max(values):.4g} in {len(values)} runs" if values else "no run"


def _correct(results: Results) -> Iterator[Statement]:
    for scheme in SCHEMES:
        cases = results.where(scheme=scheme)
        missed, holds = (_all(results, cases, key) for key in ("missed", "holds"))
        measured = f"{sum(missed):.0f} missed, {sum(holds):.0f} of {len(holds)} verdicts hold"
        failing = ((case.label, run) for case in cases for run in results.runs(case) if not run["holds"])
        for label, run in islice(failing, 1):
            measured += f"; the first that fails: {label}, seed {run.get(SEED)}: {run['reason']}"
        yield Statement(
            f"{scheme}: delivery function correct",
            "0 missed, every verdict holds",
            measured,
            bool(holds) and min(holds) == 1 and sum(missed) == 0,
        )


def _identities(results: Results) -> Iterator[Statement]:
    """Our formulas without covering, in each unit."""
    if not results.where(setting=_NONE):
        return
    for scheme, unit in product(SCHEMES, UNITS):
        values = _all(results, results.where(scheme=scheme, setting=_NONE), f"{unit}_ratio")
        text = f"{scheme}, {_NONE}: {unit} held / formula"
        holds = bool(values) and 0.98 <= min(values) <= max(values) <= 1
        yield Statement(text, "0.98 to 1", _range(values), holds)


def _by_alpha(results: Results) -> Iterator[Statement]:
    for scheme, unit in product(("psf", "ips", "pif"), UNITS):
        for case in results.where(scheme=scheme, setting=_STATIC if scheme == "pif" else _FULL):
            text = f"{case.label}: {unit} held / formula with alpha(k) of each entry"
            yield Statement.by_tolerance(text, 1, results.values(case, f"by_alpha_{unit}"), 0.02)


def _crossings(results: Results) -> Iterator[Statement]:
    """Crossings beyond the minimal tree, by scheme and layer."""
    for scheme, layer in product(SCHEMES, (*LAYERS, _REVERSE_PATHS)):
        settings = (_NONE, _STATIC, _FULL) if scheme in _MINIMAL else (_NONE, _STATIC)
        cases = results.where(scheme=scheme, layer=layer)
        exact = [case for setting in settings for case in cases if case.facts["setting"] == setting]
        if not exact:
            continue
        values = _all(results, exact, "excess")
        minimal = scheme != "drp" and (scheme, layer) != ("pif", "spt")
        share = [
            100 * (results.median(case, "crossings") / results.median(case, "minimal") - 1)
            for case in exact
            if results.median(case, "minimal")
        ]
        more = "; no paths here part and meet again" if scheme == "drp" else ""
        if share and scheme == "pif" and not minimal:
            more = f" ({min(share):.0f} to {max(share):.0f} % more, medians)"
        changing = scheme in _MINIMAL and layer in LAYERS
        where = "all settings" if changing else "predicates that do not change"
        yield Statement(
            f"{scheme}, {layer}, {where}: crossings beyond the minimal tree once converged",
            "0" if minimal else "more than 0",
            _range(values) + more,
            bool(values) and (max(values) == 0 if minimal else sum(values) > 0),
        )


def _controller(results: Results) -> Iterator[Statement]:
    """The frames of the controller beside those that pif needs."""
    for scheme in ("psf", "ips"):
        for case in results.where(scheme=scheme, setting=_FULL):
            ratios = results.ratios(case, "controller_bytes", results.beside(case, scheme="pif"))
            text = f"{case.label}: bytes of the controller's frames and their ACKs / those of pif"
            yield Statement.by_interval(text, "less than 2", ratios, high=2, unit="times")


def _classes(results: Results) -> Iterator[Statement]:
    """The cost of pif-classes and its savings, with SRs."""
    for case in results.where(scheme="pif-classes", setting=_ASKED):
        pif = results.beside(case, scheme="pif")
        parts = []
        for key, what in (
            ("crossings", "crossings"),
            ("msg_bytes", "MSG bytes"),
            ("sr_ur_bytes", "SR and UR bytes"),
            ("ra_bytes", "RA bytes"),
            ("filters_all", "filters"),
            ("table_bytes", "TABLE bytes"),
        ):
            if ratios := results.ratios(case, key, pif):
                parts.append(f"{what} {100 * (statistics.median(ratios) - 1):+.0f} %")
        layer, nodes = case.facts["layer"], case.facts["nodes"]
        yield Statement(
            f"{nodes} nodes, {layer}, SRs: pif-classes beside pif",
            "equal" if layer == "spanning-tree" else "fewer crossings, more state",
            ", ".join(parts) or "no run",
        )
