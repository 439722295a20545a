"""Figure 14 of the protocol paper: SRs and URs a second."""

from __future__ import annotations

from testbed.figures.reproduction import LAYERS, Case, Panel, Reproduction, Results, Statement, common

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
        "Without message traffic, count-controlled SRs cease; SRs every 8 and 10 minutes make a "
        "stable traffic "
        "of a few packets per second in the whole network (section 4.2).",
    )
    deviations = (
        "Without reuse of URs, N routers that ask every T seconds make N x 2 (N - 1) / T crossings a second: "
        "2.0 and 2.5 at 25 nodes, 33 and 41 at 100. `A few packets per second` fits 25 nodes and not the 100 "
        "of the authors' script: the sentence is judged at 25 nodes, and shown elsewhere.",
        "The formula counts no reuse (`ur_reuse = false`); with reuse the traffic is shown beside it.",
    )
    measure = "testbed.figures.measures:requests"

    def cases(self, size: str) -> list[Case]:
        found = []
        for nodes in (25, 50, 100) if size == "paper" else (25,):
            for layer in LAYERS:
                for policy, (period_s, options) in _POLICIES.items():
                    for reuse in (False, True) if period_s is not None else (False,):
                        overrides = common(
                            topology__nodes=nodes,
                            duration_s=5400,
                            workload__senders_percent=0,
                            workload__changing_receivers_percent=0,
                            protocol__ur_reuse=str(reuse).lower(),
                            broadcast__layer=layer,
                        )
                        facts = {
                            "nodes": nodes,
                            "layer": layer,
                            "policy": policy,
                            "period_s": period_s,
                            "reuse": reuse,
                        }
                        label = f"{nodes} nodes, {layer}, {policy}" + (", with reuse" if reuse else "")
                        found.append(Case(label, overrides | options, facts))
        return found

    def judge(self, results: Results) -> list[Statement]:
        found = []
        for case in results:
            nodes, period_s = case.facts["nodes"], case.facts["period_s"]
            rate, measured = results.median(case, "rate"), results.band(case, "rate")
            if period_s is None:
                most = max(results.values(case, "frames"), default=float("nan"))
                found.append(
                    Statement(f"{case.label}: no traffic", "0", f"{most:.0f} frames at most", most == 0)
                )
            elif case.facts["reuse"]:
                found.append(Statement(f"{case.label}: packets a second", "less", measured, None))
            else:
                predicted = nodes * 2 * (nodes - 1) / period_s
                found.append(
                    Statement(
                        f"{case.label}: packets a second (to 5 %)",
                        f"{predicted:.3g}",
                        measured,
                        abs(rate / predicted - 1) <= 0.05,
                    )
                )
                found.append(
                    Statement(
                        f"{case.label}: a few packets per second (1 to 10)",
                        f"{predicted:.3g}",
                        measured,
                        1 <= rate <= 10 if nodes == 25 else None,
                    )
                )
        return found

    def panels(self, results: Results) -> list[Panel]:
        nodes = min((case.facts["nodes"] for case in results), default=0)
        return [
            Panel(
                f"{layer}, {nodes} nodes",
                "SR and UR packets a second",
                {
                    case.facts["policy"]: results.curves(case)
                    for case in results
                    if case.facts == {**case.facts, "nodes": nodes, "layer": layer, "reuse": False}
                },
                percent=False,
            )
            for layer in LAYERS
        ]
