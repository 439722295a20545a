"""Figure 14 of the protocol paper: SRs and URs a second."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import ClassVar

from testbed.evaluation.figures import LAYERS
from testbed.evaluation.figures.reproduction import Case, Panel, Reproduction, Results, Statement

_COUNT = "count-controlled"
_POLICY, _PERIOD = "protocol.sr_policy", "protocol.sr_period_s"
_POLICIES = {
    _COUNT: {_POLICY: "count", "protocol.sr_threshold": "5", "protocol.sr_min_interval_s": "600"},
    "every 10 min": {_POLICY: "periodic", _PERIOD: "600"},
    "every 8 min": {_POLICY: "periodic", _PERIOD: "480"},
}
_REUSE, _MESSAGES, _STRICT, _EXPONENTIAL = "with reuse", "with messages", "pif-strict", "exponential timers"
_VARIANTS = {
    _REUSE: {"protocol.ur_reuse": "true"},
    _MESSAGES: {"workload.senders_percent": "20", "workload.changing_receivers_percent": "100"},
    _STRICT: {"routing.scheme": "pif-strict"},
    _EXPONENTIAL: {"protocol.timers": "exponential"},
}
#: Beside the policies, at 25 nodes.
_BESIDE = [("every 10 min", _REUSE), ("every 8 min", _REUSE), (_COUNT, _MESSAGES)]
_BESIDE += [(policy, _STRICT) for policy in _POLICIES]


class Requests(Reproduction, page="srur"):
    measure = "testbed.evaluation.figures.measures:requests"
    sizes = ("small", "paper", "emulated")
    emulated_scale = 240.0
    # Of 100 routers, 33 packets cross links in a second.
    emulated_scales: ClassVar = {100: 60}

    def cases(self, size: str) -> list[Case]:
        if size == "emulated":
            few = [(25, layer, policy) for layer in LAYERS for policy in (_COUNT, "every 10 min")]
            few += [(25, "spt", "every 8 min"), (100, "spt", "every 10 min")]
            return [*(_case(*each) for each in few), _case(25, "spt", _COUNT, _MESSAGES)]
        found = [_case(25, layer, policy) for layer in LAYERS for policy in _POLICIES]
        found += [_case(25, layer, *each) for layer in LAYERS for each in _BESIDE]
        if size == "paper":
            found += [_case(100, "spt", policy) for policy in (_COUNT, "every 8 min")]
            found += [
                _case(*each)
                for each in product((50, 100, 200, 400), LAYERS, ("every 10 min",), ("", _STRICT))
            ]
        return [*found, _case(25, "spt", "every 10 min", _EXPONENTIAL)]

    def judge(self, results: Results) -> Iterator[Statement]:
        for case in results:
            facts = case.facts
            if facts["policy"] == _COUNT:
                yield _of_counts(results, case)
            elif facts["variant"] == _REUSE:
                measured = results.band(case, "rate")
                yield Statement(f"{case.label}: packets a second", "less", measured, None)
            else:
                yield from _of_periodic(results, case)
            if facts["variant"] == _STRICT and facts["policy"] != _COUNT:
                amended = results.beside(case, variant="")
                more = results.differences(case, "frames", amended).values()
                yield Statement(
                    f"{case.label}: as many packets as with `pif`",
                    "equal",
                    f"{results.band_of(more)} more",
                    bool(more) and not any(more),
                )
        for fast in results.where(policy="every 8 min", variant=""):
            ratios = results.ratios(fast, "rate", results.beside(fast, policy="every 10 min"))
            text = "{nodes} nodes, {layer}: packets of 8 min over those of 10 min".format_map(fast.facts)
            yield Statement.by_tolerance(text, 1.25, ratios, 0.05)

    def panels(self, results: Results) -> list[Panel]:
        predicted = {f"N 2 (N - 1) / {minutes} min": _packets_per_s(25, 60 * minutes) for minutes in (8, 10)}
        return [
            Panel(
                f"{layer}, 25 nodes",
                "SR and UR packets a second",
                {
                    case.label.removeprefix(f"25 nodes, {layer}, "): results.curves(case)
                    for variant in ("", _MESSAGES)
                    for case in results.where(nodes=25, layer=layer, variant=variant)
                },
                floor=predicted,
                percent=False,
            )
            for layer in LAYERS
        ]


def _case(nodes: int, layer: str, policy: str, variant: str = "") -> Case:
    return Case.of(
        (f"{nodes} nodes", layer, policy, variant),
        {"nodes": nodes, "layer": layer, "policy": policy, "variant": variant},
        _POLICIES[policy] | _VARIANTS.get(variant, {}),
        topology__nodes=nodes,
        duration_s=5400 if nodes <= 100 else 1200,
        workload__senders_percent=0,
        workload__changing_receivers_percent=0,
        protocol__ur_reuse="false",
        broadcast__layer=layer,
    )


def _of_counts(results: Results, case: Case) -> Statement:
    frames = results.values(case, "frames") or [float("nan")]
    least, most = min(frames), max(frames)
    if case.facts["variant"] == _MESSAGES:
        return Statement(f"{case.label}: SRs and URs", "above 0", f"{least:.0f} frames at least", least > 0)
    return Statement(f"{case.label}: no traffic", "0", f"{most:.0f} frames at most", most == 0)


def _packets_per_s(nodes: int, period_s: float) -> float:
    """Returns the SRs and URs of routers that ask once in a period, without reuse, on a connected graph."""
    return nodes * 2 * (nodes - 1) / period_s


def _of_periodic(results: Results, case: Case) -> Iterator[Statement]:
    """The statements on a case whose routers ask all the time, without reuse."""
    predicted = _packets_per_s(case.facts["nodes"], float(case.overrides[_PERIOD]))
    rates, few = results.values(case, "rate"), f"{case.label}: a few packets per second (1 to 10)"
    if case.facts["variant"] == _EXPONENTIAL:
        yield Statement(few, f"{predicted:.3g}", results.band(case, "rate"))
        return
    yield Statement.by_tolerance(f"{case.label}: packets a second", predicted, rates, 0.05)
    yield Statement.by_interval(few, f"{predicted:.3g}", rates, 1, 10, unit="")
    ratios = results.ratios(case, "rate", case, "rate_before")
    yield Statement.by_tolerance(f"{case.label}: stable, the second part over the first", 1, ratios, 0.05)
