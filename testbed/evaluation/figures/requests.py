"""Figure 14 of the protocol paper: SRs and URs a second."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from testbed.evaluation.figures.reproduction import (
    LAYERS,
    Case,
    Panel,
    Reproduction,
    Results,
    Statement,
    band_of,
    common,
)

_POLICIES: dict[str, tuple[float | None, dict[str, str]]] = {
    "count-controlled": (
        None,
        {
            "protocol.sr_policy": "count",
            "protocol.sr_threshold": "5",
            "protocol.sr_min_interval_s": "600",
        },
    ),
    "every 10 min": (600.0, {"protocol.sr_policy": "periodic", "protocol.sr_period_s": "600"}),
    "every 8 min": (480.0, {"protocol.sr_policy": "periodic", "protocol.sr_period_s": "480"}),
}


class Requests(Reproduction):
    title = "Figure 14: SR and UR traffic"
    paper = (
        "Without message traffic, count-controlled SRs cease; SRs every 8 and 10 minutes make a stable "
        "traffic of a few packets per second in the whole network (section 4.2).",
    )
    deviations = (
        "Without reuse of URs, N routers that ask every T seconds make N x 2 (N - 1) / T crossings a "
        "second on every connected graph: 2.0 and 2.5 at 25 nodes, 33 and 41 at 100. `A few packets per "
        "second` fits 25 nodes and not the 100 of the authors' script: it is judged at 25 nodes. Reuse is "
        "shown beside it.",
        "CBCBSIM sends SRs to those children alone whose entry is not empty, fewer than the formula; here, "
        "as in the paper's text, routers ask all children.",
        "One case has the exponential timers of the authors' simulator. Its number of SRs is random, with "
        "a standard deviation of a tenth (25 routers, 2,400 s, periods of 600 s), and is not judged.",
        "2,400 s are a whole number of periods of 480 and of 600 s. The windows of 240 s of the picture "
        "differ by more: routers ask at random phases.",
    )
    measure = "testbed.evaluation.figures.measures:requests"

    def cases(self, size: str) -> list[Case]:
        found = []
        for nodes in (25, 50, 100) if size == "paper" else (25,):
            for layer in LAYERS:
                for policy, (period_s, _) in _POLICIES.items():
                    reuses = (False, True) if period_s is not None else (False,)
                    found += [_case(nodes, layer, policy, reuse, "fixed") for reuse in reuses]
        return [*found, _case(25, "spt", "every 10 min", False, "exponential")]

    def judge(self, results: Results) -> Iterator[Statement]:
        periodic: dict[tuple[int, str], dict[str, Case]] = {}
        for case in results:
            nodes, period_s = case.facts["nodes"], case.facts["period_s"]
            if period_s is None:
                most = max(results.values(case, "frames"), default=float("nan"))
                yield Statement(f"{case.label}: no traffic", "0", f"{most:.0f} frames at most", most == 0)
            elif case.facts["reuse"]:
                measured = results.band(case, "rate")
                yield Statement(f"{case.label}: packets a second", "less", measured, None)
            else:
                yield from _of_periodic(results, case)
                if case.facts["timers"] == "fixed":
                    periodic.setdefault((nodes, case.facts["layer"]), {})[case.facts["policy"]] = case
        for (nodes, layer), cases in periodic.items():
            slow, fast = cases["every 10 min"], cases["every 8 min"]
            ratios = [of_8 / of_10 for of_8, of_10 in results.pairs(fast, "rate", slow) if of_10]
            yield Statement(
                f"{nodes} nodes, {layer}: packets of 8 min over those of 10 min (to 5 %)",
                "1.25",
                band_of(ratios),
                bool(ratios) and abs(median(ratios) / 1.25 - 1) <= 0.05,
            )

    def panels(self, results: Results) -> list[Panel]:
        nodes = min((case.facts["nodes"] for case in results), default=0)
        return [
            Panel(
                f"{layer}, {nodes} nodes",
                "SR and UR packets a second",
                {
                    case.facts["policy"]: results.curves(case)
                    for case in results.where(nodes=nodes, layer=layer, reuse=False, timers="fixed")
                },
                percent=False,
            )
            for layer in LAYERS
        ]


def _case(nodes: int, layer: str, policy: str, reuse: bool, timers: str) -> Case:
    period_s, options = _POLICIES[policy]
    overrides = common(
        topology__nodes=nodes,
        duration_s=5400,
        workload__senders_percent=0,
        workload__changing_receivers_percent=0,
        protocol__ur_reuse=str(reuse).lower(),
        broadcast__layer=layer,
    )
    label = f"{nodes} nodes, {layer}, {policy}" + (", with reuse" if reuse else "")
    if timers != "fixed":
        overrides["protocol.timers"] = timers
        label += f", {timers} timers"
    facts = {"nodes": nodes, "layer": layer, "policy": policy, "period_s": period_s}
    return Case(label, overrides | options, {**facts, "reuse": reuse, "timers": timers})


def _of_periodic(results: Results, case: Case) -> list[Statement]:
    """The statements on a case whose routers ask all the time, without reuse."""
    nodes = case.facts["nodes"]
    predicted = nodes * 2 * (nodes - 1) / case.facts["period_s"]
    rate, before = results.median(case, "rate"), results.median(case, "rate_before")
    few = Statement(
        f"{case.label}: a few packets per second (1 to 10)",
        f"{predicted:.3g}",
        results.band(case, "rate"),
        1 <= rate <= 10 if nodes == 25 and case.facts["timers"] == "fixed" else None,
    )
    if case.facts["timers"] != "fixed":
        return [few]
    return [
        Statement(
            f"{case.label}: packets a second (to 5 %)",
            f"{predicted:.3g}",
            results.band(case, "rate"),
            abs(rate / predicted - 1) <= 0.05,
        ),
        few,
        Statement(
            f"{case.label}: stable (the second 2,400 s as the first, to 5 %)",
            "equal",
            f"{results.band(case, 'rate')} and {results.band(case, 'rate_before')}",
            bool(before) and abs(rate / before - 1) <= 0.05,
        ),
    ]
