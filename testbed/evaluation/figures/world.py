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
from testbed.support.errors import InputError

#: Shipped topologies, with the numbers of their nodes; that in which receivers leave and join.
_NETWORKS = {"att": 25, "geant2012": 40, "dfn": 58, "telstra": 104}
_OF_CHURN = "geant2012"
_SPT, _TREE = LAYERS
_PIF, _OVERLAY, _STRICT = f"pif, {_SPT}", f"pif, {_TREE}", f"pif-strict, {_SPT}"
_ASKING, _MANY, _UNICAST = (f"{each}, {_SPT}" for each in ("pif + SRs", "multicast-16", "unicast"))
_STATIC = (
    *(f"flooding, {_SPT}", _UNICAST, f"multicast-4, {_SPT}", _MANY, f"topics, {_TREE}"),
    *(_OVERLAY, _PIF, f"ips, {_SPT}"),
)
_CHANGING = (
    f"flooding, {_SPT}",
    _UNICAST,
    *(f"{each}, {_TREE}" for each in ("topics", "topics + SRs")),
    *(
        f"{scheme}, {layer}"
        for scheme in ("multicast-16", "drp", "psf", "pif-strict", "pif-classes", "pif", "pif + SRs", "ips")
        for layer in LAYERS
    ),
)
_REQUESTS = {"sr_policy": "periodic", "sr_period_s": 5, "ur_freshness_s": 5}
#: Baselines that content-based routing should be below: a way -> its name. No way can exceed flooding.
_BASELINES = {
    _UNICAST: "unicast",
    f"multicast-4, {_SPT}": "4 groups",
    _MANY: "16 groups",
    f"topics, {_TREE}": "topics",
}
#: A way, the way that it is compared with, the cost, the other's name.
_CLAIMS = (
    *((way, other, "crossings", name) for way in (_PIF, _ASKING) for other, name in _BASELINES.items()),
    *((f"{each}, {_SPT}", f"{each}, {_TREE}", "crossings", "on the tree") for each in ("pif", "pif + SRs")),
    *((_ASKING, _PIF, key, "without SRs") for key in ("crossings", "wasted")),
)
_MORE = ("misses more after a join than `ips`, for the sender names the receivers", "above 0", 0, math.inf)
_NO_MORE = ("misses no more after a join than `ips`, which covers no RA", "at most 0", -math.inf, 0)
#: Of a scheme: the claim on its losses, what is predicted, the limits.
_LOSSES = {"drp": _MORE, "unicast": _MORE, "multicast-16": _MORE, "pif": _NO_MORE, "pif + SRs": _NO_MORE}
_COSTS = {
    "crossings": "crossings / delivery",
    "wasted": "false positives (%)",
    "filters": "filters / router",
    "control": "RA, SR and UR frames / router",
}
#: The costs that locality of interests lowers.
_LOCAL = ("crossings", "filters", "control")
#: By when all first predicates have spread; ms of a bin after a join.
_FIRST_S, _BIN_MS = 2, 40


class World(Reproduction, page="world"):
    measure = "testbed.evaluation.figures.world:measured"
    # Deliveries that are missed are what the page judges.
    expected = ("false_negatives_after_convergence",)

    def cases(self, size: str) -> list[Case]:
        few = ("att",), (_UNICAST, _MANY, *_CHANGING[-6:])
        networks, changing = (_NETWORKS, _CHANGING) if size == "paper" else few
        return [
            *(_case(network, way, "local") for network, way in product(networks, _STATIC)),
            *(_case(network, way, "spread") for network, way in product(networks, (_PIF, _OVERLAY))),
            *(_case(_OF_CHURN, way, "churn") for way in changing),
        ]

    def judge(self, results: Results) -> Iterator[Statement]:
        for case in (each for each in results if not each.facts["way"].startswith("flooding")):
            missed, decided = results.values(case, "missed"), results.values(case, "decided")
            found = f"{sum(missed):g} of {sum(decided):g} missed in {len(missed)} runs"
            if case.facts["way"] == _STRICT:
                text = f"{case.label}: the rules of the paper lose receivers"
                yield Statement(text, "above 0 missed", found, any(missed))
                continue
            text = f"{case.label}: no delivery is missed, but within a second of a change"
            yield Statement(text, "0 missed", found, bool(missed) and not any(missed))
            if case.facts["of"] == "churn":
                late = [own - way for own, way in results.pairs(case, "late_ms", case, "way_ms")]
                yield Statement(
                    f"{case.label}: after a join, no message is missed that is sent later than an RA takes",
                    "none later",
                    f"{max(late, default=math.nan):.3g} ms after it, or earlier",
                    bool(late) and max(late) <= 0,
                )
        for case in results:
            network, of, way = (case.facts[each] for each in ("network", "of", "way"))
            for _, other, key, name in (each for each in _CLAIMS if each[0] == way and of != "spread"):
                for baseline in results.where(of=of, network=network, way=other):
                    text = f"{case.label}: fewer {_COSTS[key]} than {name}"
                    yield _ratio(text, results.ratios(case, key, baseline))
            spread = results.where(of="spread", network=network, way=way) if of == "local" else ()
            for apart, key in product(spread, _LOCAL):
                text = f"{case.label}: fewer {_COSTS[key]} than with the same interests spread"
                yield _ratio(text, results.ratios(case, key, apart))
        churn = results.where(of="churn")
        for case, (scheme, (claim, predicted, low, high)) in product(churn, _LOSSES.items()):
            way, _, layer = case.facts["way"].partition(", ")
            for least in results.where(of="churn", way=f"ips, {layer}") if way == scheme else ():
                more = [*results.differences(case, "lost", least).values()]
                yield Statement.by_interval(f"{case.label}: {claim}", predicted, more, low, high)

    def panels(self, results: Results) -> list[Panel]:
        found, local = [], results.where(of="local")
        x = "nodes of " + ", ".join(dict.fromkeys(case.facts["network"] for case in local))
        for key, y in _COSTS.items():
            curves = results.lines(local, lambda case: case.facts["way"], "nodes", key)
            found.append(Panel.of_points(y, y, curves, x))
        for layer in LAYERS:
            cases = [case for case in results.where(of="churn") if case.facts["way"].endswith(layer)]
            shown = {case.facts["way"]: results.curves(case) for case in cases}
            title = f"missed after a join, {layer}"
            found.append(Panel(title, "of the deliveries", shown, x="ms since the join"))
        return found

    def tables(self, results: Results) -> list[Table]:
        found = []
        for of, title in {"local": "Least and greatest median of the networks", "churn": "Churn"}.items():
            rows: dict[str, list[str]] = {}
            for way, key in product(
                dict.fromkeys(case.facts["way"] for case in results.where(of=of)), _COSTS
            ):
                medians = [results.median(case, key) for case in results.where(of=of, way=way)]
                bounds = sorted({f"{min(medians):.3g}", f"{max(medians):.3g}"}, key=float)
                rows.setdefault(way, [way]).append(" to ".join(bounds))
            found.append(Table(title, ("", *_COSTS.values()), [*rows.values()], on_page=of == "local"))
        return found


def _ratio(text: str, ratios: list[float]) -> Statement:
    """Returns the statement that a number is below another one of equal seed."""
    return Statement.by_interval(text, "below 1", ratios, high=1 - 1e-9, unit="of those")


def _case(network: str, way: str, of: str) -> Case:
    nodes, (name, layer), churn = _NETWORKS[network], way.split(", "), of == "churn"
    scheme, _, requests = name.partition(" + ")
    scheme, _, groups = scheme.partition("-") if scheme.startswith("multicast") else (scheme, "", "")
    more = {"routing.groups": groups} if groups else {}
    if requests:
        more |= {f"protocol.{key}": str(value) for key, value in _REQUESTS.items()}
    return Case.of(
        f"{network}, {way}, {of}",
        {"of": of, "network": network, "nodes": nodes, "way": way},
        more,
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
        crossings a delivery, by frames, of which `unicast` has several for a message; `decided`, expected
        deliveries; `wasted`, percent of the messages from neighbours that are false positives; `filters` and
        `control` frames, a router; `late_ms`, from a join to the last message sent that it missed; `way_ms`,
        the longest way of an RA to a sender; `lost`, the share of deliveries that are missed within that way
        after a join.
    """
    summary, nodes = run.summary(), len(experiment.topology.nodes)
    way_s = settled_s(run, experiment)
    if way_s is None:
        raise InputError("the longest way of an RA is known in simulations alone, on links of one delay")
    counts = "count(*) filter (deliveries > 0) as delivered, count(*) filter (expected) as decided"
    of_all = run.sql(f"select {counts} from outcomes").to_pylist()[0]
    frames, state = summary["frames_by_type"], summary["state"]
    sent_s = experiment_seconds(run.inputs.clock, "sent_ns")
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
    return {
        "crossings": frames["MSG"] / of_all["delivered"],
        "wasted": 100 * wasted / arrived,
        "filters": (state["forwarding_filters"] + state["rib_filters"]) / nodes,
        "control": sum(frames.get(each, 0) for each in ("RA", "SR", "UR")) / nodes,
        "missed": summary["false_negatives_after_convergence"],
        "decided": of_all["decided"],
        "late_ms": max((ms for ms, missed in joined if missed), default=0.0),
        "way_ms": 1000 * way_s,
        "lost": sum(near) / max(1, len(near)),
        "curve": [(number * _BIN_MS, sum(each) / max(1, len(each))) for number, each in enumerate(bins)],
    }
