"""Figure 13 of the protocol paper: the share of RAs over time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

from testbed.evaluation.figures import LAYERS
from testbed.evaluation.figures.reproduction import Case, Panel, Reproduction, Results, Statement
from testbed.evaluation.figures.rules import hop_limited, saves_as_ours

#: Least time between two RAs of a router, s (the authors' script: RA timer, mean 200 s).
_LIMIT_S = 200.0
_INTERVAL = "workload.predicate_change_interval_s"
_STILL = "no change"
_CHANGES = {_STILL: {}, "every 10 min": {_INTERVAL: "600.0"}, "every 5 min": {_INTERVAL: "300.0"}}
_EXPONENTIAL, _FREE, _STRICT = "exponential timers", "no limit", "pif-strict"
#: A run ends when no RA waits any more, and must end within 60 wall seconds: of exponential waits, some are
#: many times the mean.
_VARIANTS = {
    _EXPONENTIAL: {"protocol.timers": "exponential", "time_scale": "60"},
    _FREE: {"protocol.ra_min_interval_s": "0"},
    _STRICT: {"routing.scheme": "pif-strict"},
}


def issued(interval_s: float, receivers: int, variant: str = "") -> float:
    """Returns the RAs a second that receivers issue whose predicates change as a Poisson process.

    Changes come at rate l = 1 / `interval_s`. With fixed timers, a router that has issued an RA is silent for
    `_LIMIT_S`. If a change came in that time, the next RA follows at its end, else at the next change:
    `_LIMIT_S` + exp(-l `_LIMIT_S`) / l seconds from RA to RA. With exponential timers, a change waits for a
    point of a Poisson process of rate u = 1 / `_LIMIT_S`: l u / (l + u) RAs a second.
    """
    if variant == _EXPONENTIAL:
        return receivers / (_LIMIT_S + interval_s)
    limit_s = 0.0 if variant == _FREE else _LIMIT_S
    return receivers / (limit_s + interval_s * math.exp(-limit_s / interval_s))


class Advertisements(Reproduction, page="ra"):
    measure = "testbed.evaluation.figures.measures:advertisements"
    expected = ("false_negatives_after_convergence",)
    emulated_scale = 100.0
    sizes = ("small", "paper", "emulated")

    def cases(self, size: str) -> list[Case]:
        nodes = {"small": 25, "paper": 100, "emulated": 50}[size]
        changing = [changes for changes in _CHANGES if changes != _STILL]
        if size == "emulated":
            free = [_case(nodes, "spt", changes, _FREE) for changes in changing]
            return [
                *(_case(nodes, "spt", changes) for changes in _CHANGES),
                *free,
                _case(25, "spt", "every 5 min"),
            ]
        found = [_case(nodes, layer, changes) for layer in LAYERS for changes in _CHANGES]
        found += [_case(nodes, "spt", changes, _EXPONENTIAL) for changes in changing]
        found += [_case(nodes, layer, changes, _FREE) for layer in LAYERS for changes in changing]
        found += [_case(nodes, layer, changes, _STRICT) for layer in LAYERS for changes in _CHANGES]
        beside = {"small": (), "paper": (25, 50, 200, 400)}[size]
        more = product(beside, LAYERS, ("", _STRICT))
        return found + [_case(n, layer, "every 5 min", variant) for n, layer, variant in more]

    def judge(self, results: Results) -> Iterator[Statement]:
        for still in results.where(changes=_STILL):
            text = f"{still.label}: the share falls to 0 (at most 1 % after the first window)"
            shares = results.values(still, "share_after_first_window")
            yield Statement.by_interval(text, "0", shares, high=0.01, unit="%")
        for case in _of_figure(results, changes="every 5 min"):
            layer, variant = case.facts["layer"], case.facts["variant"]
            if variant == _FREE:
                continue
            where = f"{layer}, {variant or 'fixed timers'}"
            apart, free = (
                results.differences(own, "share", results.beside(own, changes="every 10 min"))
                for own in (case, results.beside(case, variant=_FREE))
            )
            text = f"{where}: 5 and 10 min nearly equal (at most 15 points apart)"
            predicted = "less than in proportion to the changes"
            yield Statement.by_interval(text, predicted, apart.values(), -0.15, 0.15)
            if variant == _STRICT:
                continue
            nearer = [free[seed] - with_limit for seed, with_limit in apart.items() if seed in free]
            text = f"{where}: nearer than without the limit"
            yield Statement.by_interval(text, "above 0", nearer, 0)
            if not variant:
                text = f"{layer}, no limit: 5 and 10 min not nearly equal (more than 15 points apart)"
                yield Statement.by_interval(text, "in proportion to the changes", free.values(), 0.15)
        for case in results:
            if case.facts["changes"] != _STILL:
                yield from _of_changing(results, case)
                if case.facts["variant"] == _STRICT:
                    yield _of_strict(results, results.beside(case, variant=""), case)

    def panels(self, results: Results) -> list[Panel]:
        return [
            Panel(
                layer,
                "RA frames / all frames",
                {
                    case.label.partition(f"{layer}, ")[2]: results.curves(case)
                    for variant in ("", _FREE)
                    for case in _of_figure(results, layer=layer, variant=variant)
                },
            )
            for layer in LAYERS
            if results.where(layer=layer)
        ]


def _case(nodes: int, layer: str, changes: str, variant: str = "") -> Case:
    return Case.of(
        (f"{nodes} nodes", layer, changes, variant),
        {"nodes": nodes, "layer": layer, "changes": changes, "variant": variant},
        _CHANGES[changes] | _VARIANTS.get(variant, {}),
        topology__nodes=nodes,
        duration_s=5400 if nodes <= 100 else 1200,
        workload__messages_per_minute=2,
        workload__changing_receivers_percent=0 if changes == _STILL else 100,
        protocol__ra_min_interval_s=_LIMIT_S,
        broadcast__layer=layer,
        time_scale=10,
    )


def _of_figure(results: Results, **facts: object) -> list[Case]:
    """Returns the cases with the figure's number of nodes, which the first case has."""
    return results.where(nodes=next(iter(results)).facts["nodes"], **facts)


def _of_changing(results: Results, case: Case) -> Iterator[Statement]:
    receivers = int(case.facts["nodes"] * 0.75 + 0.5)
    predicted = issued(float(case.overrides[_INTERVAL]), receivers, case.facts["variant"])
    rates = results.values(case, "issued_per_s")
    yield Statement.by_tolerance(f"{case.label}: RAs issued a second", predicted, rates, 0.15)
    yield Statement(
        f"{case.label}: deliveries missed while RAs wait",
        "0 but for messages under way" if case.facts["variant"] == _FREE else "above 0",
        f"{results.band(case, 'missed', 100)} % of those expected",
    )


def _of_strict(results: Results, amended: Case, case: Case) -> Statement:
    """The filter of the paper beside ours."""
    less = results.differences(amended, "share", case).values()
    if case.facts["layer"] == "spt":
        return Statement.by_interval(f"{case.label}: less than with `pif`", "above 0", less, 0)
    limited, more = hop_limited(case), results.differences(case, "missed", amended).values()
    return Statement(
        f"{case.label}: as with `pif`{', or less' * limited}, and no more is missed",
        "at least 0 points less (hop limit)" if limited else "equal",
        f"{results.band_of(less, 100)} points less, {results.band_of(more, 100)} points more missed",
        saves_as_ours(case, less, more),
    )
