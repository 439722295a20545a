"""The real world: networks of operators, stock ticks, and the baselines of content-based routing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

from captures.accounting.direct import Direct
from captures.accounting.texts import experiment_seconds
from testbed.evaluation.figures import LAYERS
from testbed.evaluation.figures.false_negatives import messages_per_minute
from testbed.evaluation.figures.measures import settled_s
from testbed.evaluation.figures.reproduction import Case, Panel, Reproduction, Results, Statement, Table
from testbed.experiments.config import Experiment

#: Shipped topologies, with the numbers of their nodes; that in which receivers leave and join.
_NETWORKS = {"att": 25, "geant2012": 40, "dfn": 58, "telstra": 104}
_OF_CHURN = "geant2012"
_SPT, _TREE = LAYERS
_PIF, _OVERLAY, _TOPICS = f"pif, {_SPT}", f"pif, {_TREE}", f"topics, {_TREE}"
_FLOODING, _FOUR, _MANY, _LEAST = (
    f"{each}, {_SPT}" for each in ("flooding", "multicast-4", "multicast-16", "ips")
)
_STATIC = (_FLOODING, _FOUR, _MANY, _TOPICS, _OVERLAY, _PIF, _LEAST)
_CHANGING = ("flooding", "topics", "multicast-16", "pif", "pif-strict", "ips")
#: A way, the way or key of its own runs that it is compared with, the claim on crossings.
_CLAIMS = (
    (_PIF, _FLOODING, "fewer crossings than flooding"),
    (_PIF, "unicast", "fewer crossings than unicast"),
    (_PIF, _MANY, "fewer crossings than 16 groups"),
    (_PIF, _OVERLAY, "fewer crossings than on the spanning tree"),
    (_OVERLAY, _TOPICS, "fewer crossings than topics on the same tree"),
    (_MANY, _FOUR, "fewer crossings than 4 groups"),
    (_LEAST, "minimal", "the crossings of the minimal tree"),
    (_OVERLAY, "minimal", "the crossings of the minimal tree"),
)
_COSTS = {
    "crossings": "crossings / delivery",
    "wasted": "false positives (%)",
    "filters": "filters / router",
    "control": "RA frames / router",
}
#: The costs that locality of interests lowers.
_LOCAL = ("crossings", "filters", "control")
#: By when all first predicates have spread; ms of a bin after a join.
_FIRST_S, _BIN_MS = 2, 40


class World(Reproduction):
    title = "The real world"
    paper = (
        "No figure of a paper: networks of the Topology Zoo and of Rocketfuel, stock ticks, and the "
        "alternatives to content-based routing.",
    )
    deviations = (
        "`pif` on `spanning-tree` is an acyclic overlay as Siena has, with SRs in place of unsubscriptions.",
        "Ticks and interests are those of `testbed/experiments/workload/ticks.py`. `spread`: the same "
        "predicates at other routers.",
        "`multicast-K`: K groups of like predicates. `topics`: the first equality of a filter is its topic. "
        "Unicast is accounted, not run.",
        "False positive: a router neither forwards nor delivers a message from a neighbour.",
        "Churn: links of 20 ms; 60 % of the receivers leave and join, each every 20 s, without SRs. Schemes "
        "left out have the RAs of `pif` or `ips`; `drp` names receivers as `multicast-16` does.",
    )
    measure = "testbed.evaluation.figures.world:measured"
    # Deliveries that are missed are what the page judges.
    expected = ("false_negatives_after_convergence",)

    def cases(self, size: str) -> list[Case]:
        networks, changing = (_NETWORKS, _CHANGING) if size == "paper" else (("att",), ("pif", "ips"))
        return [
            *(_case(network, way, "local") for network, way in product(networks, _STATIC)),
            *(_case(network, way, "spread") for network, way in product(networks, (_PIF, _OVERLAY))),
            *(_case(_OF_CHURN, ", ".join(way), "churn") for way in product(changing, LAYERS)),
        ]

    def judge(self, results: Results) -> Iterator[Statement]:
        for case in results:
            missed = results.values(case, "missed")
            holds = bool(missed) and not any(missed)
            text = f"{case.label}: no delivery is missed, but within a second of a change"
            yield Statement(text, "0 missed", f"{sum(missed):g} missed in {len(missed)} runs", holds)
        for case in results.where(of="local"):
            network, own = case.facts["network"], case.facts["way"]
            for _, other, claim in (each for each in _CLAIMS if each[0] == own):
                rivals = results.where(of="local", network=network, way=other)
                beside = (rivals[0], "crossings") if rivals else (case, other)
                yield _ratio(f"{case.label}: {claim}", results.pairs(case, "crossings", *beside), other)
            for spread, key in product(results.where(of="spread", network=network, way=own), _LOCAL):
                text = f"{case.label}: fewer {_COSTS[key]} than with the same interests spread"
                yield _ratio(text, results.pairs(case, key, spread))
        for case in results.where(of="churn"):
            late = max(
                (own - way for own, way in results.pairs(case, "late_ms", case, "way_ms")), default=math.nan
            )
            yield Statement(
                f"{case.label}: after a join, no message is missed that is sent later than an RA takes",
                "none later",
                f"{abs(late):.3g} ms {'after it' if late > 0 else 'before it, or earlier'}",
                late <= 0,
            )
            if case.facts["way"] in (_PIF, _OVERLAY):
                (every,) = results.where(of="churn", way=case.facts["way"].replace("pif", "ips"))
                more = [*results.differences(case, "lost", every).values()]
                text = f"{case.label}: misses no more after a join than `ips`, which covers no RA"
                yield Statement.by_interval(text, "at most 0", more, high=0)

    def panels(self, results: Results) -> list[Panel]:
        found, local, one = [], results.where(of="local"), results.where(of="local", way=_PIF)
        for key, y in _COSTS.items():
            curves = results.lines(local, lambda case: case.facts["way"], "nodes", key)
            if key == "crossings":
                curves |= results.lines(one, lambda _: "unicast", "nodes", "unicast")
            found.append(Panel.of_points(y, y, curves, "nodes"))
        churn = {case.facts["way"]: results.curves(case) for case in results.where(of="churn")}
        shown = {way: churn[way] for way in _STATIC if way in churn}
        return [*found, Panel("missed after a join", "of the deliveries", shown, x="ms since the join")]

    def tables(self, results: Results) -> list[Table]:
        rows = []
        for way in _STATIC:
            cases = results.where(of="local", way=way)
            values = ([results.median(case, key) for case in cases] for key in _COSTS)
            rows.append([way, *(f"{min(each):.3g} to {max(each):.3g}" for each in values)])
        return [Table("Least and greatest median of the networks", ("", *_COSTS.values()), rows)]


def _ratio(text: str, pairs: list[tuple[float, float]], other: str = "") -> Statement:
    """Returns the statement that a number is below another one of equal seed; of `minimal`, equal to it."""
    ratios = [own / of for own, of in pairs if of]
    if other == "minimal":
        return Statement.by_interval(text, "1", ratios, 1 - 1e-9, 1, unit="of those", scale=1)
    return Statement.by_interval(text, "below 1", ratios, high=1 - 1e-9, unit="of those", scale=1)


def _case(network: str, way: str, of: str) -> Case:
    nodes, (scheme, layer), churn = _NETWORKS[network], way.split(", "), of == "churn"
    return Case.of(
        f"{network}, {way}, {of}",
        {"of": of, "network": network, "nodes": nodes, "way": way},
        topology__file=network,
        duration_s=60 if churn else 20,
        links__delay_ms=20 if churn else 1,
        workload__generator="stock-ticks-spread" if of == "spread" else "stock-ticks-local",
        workload__messages_per_minute=messages_per_minute(nodes, 25),
        workload__first_message_s=_FIRST_S,
        workload__changing_receivers_percent=60 if churn else 0,
        workload__predicate_change_interval_s=10,
        broadcast__layer=layer,
        routing__scheme=scheme,
    )


def measured(run: Direct, experiment: Experiment) -> dict[str, Any]:
    """Returns the costs of a delivery, the state of a router, and what is missed after receivers join.

    Returns:
        crossings a delivery, also of `unicast` and of the `minimal` tree; `wasted`, percent of the messages
        from neighbours that are false positives; `filters` in tables and `control` frames, a router;
        `late_ms`, from a join to the last message sent that it missed; `way_ms`, the longest way of an RA to
        a sender; `lost`, the share of deliveries that are missed within that way after a join.
    """
    summary, nodes = run.summary(), len(experiment.topology.nodes)
    deliveries = run.sql("select count(*) as n from outcomes where deliveries > 0").to_pylist()[0]["n"]
    crossed, frames, state = (summary[key] for key in ("message_crossings", "frames_by_type", "state"))
    sent_s, way_s = experiment_seconds(run.inputs.clock, "sent_ns"), settled_s(run, experiment) or 0.0
    # A message that is under way when its receiver leaves is not delivered.
    query = (
        "with changed as (select *, lead(t_s) over (partition by node order by t_s) as end_s "
        f"from predicate_changes) select 1000 * ({sent_s} - t_s) as ms, missed from changed join outcomes "
        f"using (node) where expected and filters > 0 and t_s > {_FIRST_S} and {sent_s} > t_s "
        f"and {sent_s} < coalesce(end_s, {experiment.duration_s}) - {way_s}"
    )
    joined = [(row["ms"], row["missed"]) for row in run.sql(query).to_pylist()]
    near = [missed for ms, missed in joined if ms <= 1000 * way_s]
    bins = [[missed for ms, missed in joined if ms // _BIN_MS == number] for number in range(10)]
    arrived, wasted = (summary[f"{each}_from_network"] for each in ("messages_received", "false_positives"))
    ways = {"crossings": "cbcb", "unicast": "unicast", "minimal": "minimal"}
    return {
        **{key: crossed[way] / deliveries for key, way in ways.items()},
        "wasted": 100 * wasted / arrived,
        "filters": (state["forwarding_filters"] + state["rib_filters"]) / nodes,
        "control": sum(frames.get(each, 0) for each in ("RA", "SR", "UR")) / nodes,
        "missed": summary["false_negatives_after_convergence"],
        "late_ms": max((ms for ms, missed in joined if missed), default=0.0),
        "way_ms": 1000 * way_s,
        "lost": sum(near) / max(1, len(near)),
        "curve": [(number * _BIN_MS, sum(each) / max(1, len(each))) for number, each in enumerate(bins)],
    }
