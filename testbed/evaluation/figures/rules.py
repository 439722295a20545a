"""Losses by rules of the protocol paper: the filter of RAs (section 3.5.1), rewritten paths (4.1)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import product
from typing import Any

import networkx as nx
import numpy as np
import numpy.typing as npt

from captures.accounting.direct import Direct
from captures.accounting.texts import experiment_seconds
from router.protocol.options import RouterOptions
from testbed.controller.trees import spt_trees
from testbed.evaluation.figures import LAYERS
from testbed.evaluation.figures.false_negatives import messages_per_minute
from testbed.evaluation.figures.reproduction import Case, Panel, Reproduction, Results, Statement, Table
from testbed.experiments.config import Experiment
from testbed.experiments.config.load import find_experiment, load_experiment

#: Second of the first message (by then each RA has crossed the network), and messages of all senders.
_FIRST_S, _MESSAGES = 5, 500
#: Period of SRs, and the second from which on each router has asked and been answered.
_PERIOD_S, _REPAIRED_S = 600, 660
_SCHEMES, _COSTS = ("pif-strict", "pif"), ("unit costs", "distance costs")
#: What a case is of -> what a share counts that is not 0, and the claim.
_CLAIMS = {
    "static": ("lost", "all receivers get each message after the set-up"),
    "SRs": (
        "lost",
        "all receivers get each message after a period of SRs, in networks that lose without SRs",
    ),
    "trees": ("of sources without", "a tree for each source ({})"),
}
#: The paper's rule, what it loses, the shipped experiment of the loss.
EXAMPLES = (
    ("filter", "router without the covering RA", "covered"),
    ("filter, hop limits", "router that only the dropped RA reaches", "trap-hop-limit"),
    ("filter, after an SR", "predicate widened after its trimming", "trap-widening-after-trimming"),
    ("UR replaces p_i", "RA since the SR", "trap-advertisement-between-request-and-reply"),
    ("UR replaces p_i", "router whose UR is lost, or late", "trap-partial-reply"),
)


class Rules(Reproduction, page="rules"):
    measure = "testbed.evaluation.figures.rules:measured"
    captures = "none"
    # Deliveries that are missed are what the page judges.
    expected = ("false_negatives_after_convergence",)

    def cases(self, size: str) -> list[Case]:
        nodes, asked = ((25, 50, 100, 200, 400), (100, 200)) if size == "paper" else ((25, 50), (50,))
        trees = product(_COSTS, ("rewritten paths", "ties broken by weights"))
        found = [_case(n, "static", *each) for each in product(LAYERS, _SCHEMES) for n in nodes]
        found += [_case(n, "SRs", "spt", "pif-strict", f"SRs every {_PERIOD_S} s") for n in asked]
        found += [_case(n, "trees", *each) for each in trees for n in nodes]
        return found + [
            Case(f"{base}, {scheme}", {"routing.scheme": scheme}, {"of": "example", "base": base})
            for (*_, base), scheme in product(EXAMPLES, _SCHEMES)
        ]

    def run(self, case: Case, seed: int) -> Mapping[str, Any] | None:
        if case.facts["of"] != "trees":
            return None
        overrides = {**case.overrides, "seed": str(seed)}
        topology = load_experiment(find_experiment("default"), overrides).topology
        if "weights" in case.label:
            return {"lost": without_tree(spt_trees(topology).parents)}
        graph = nx.Graph()
        graph.add_weighted_edges_from((link.u, link.v, link.cost) for link in topology.links)
        before = (nx.dijkstra_predecessor_and_distance(graph, node)[0] for node in range(len(graph)))
        found = [[next(iter(of[node]), -1) for node in range(len(graph))] for of in before]
        return {"lost": without_tree(np.array(found))}

    def judge(self, results: Results) -> Iterator[Statement]:
        static = {(case.facts["nodes"], case.facts["rule"]): case for case in results.where(of="static")}
        for case in (case for of in _CLAIMS for case in results.where(of=of)):
            lost = results.values(case, "lost")
            if case.facts["of"] == "SRs":
                without = static[case.facts["nodes"], "spt, pif-strict"]
                lost = [own for own, control in results.pairs(case, "lost", without) if control]
            lack, claim = _CLAIMS[case.facts["of"]]
            share = results.band_of(lost, 100)
            yield Statement(
                f"{case.label}: {claim.format(case.facts['rule'])}",
                "all",
                f"{share} % {lack}, in {sum(map(bool, lost))} of {len(lost)} networks",
                # SRs have nothing to repair where no network loses.
                None if results.runs(case) and not lost else bool(lost) and not any(lost),
            )
        for (nodes, rule), case in static.items():
            if rule == f"spanning-tree, {_SCHEMES[0]}":
                yield _on_tree(results, case, static[nodes, rule.replace(*_SCHEMES)])

    def panels(self, results: Results) -> list[Panel]:
        found = []
        for title, of, key, y in (
            ("Lost for good", "static", "lost", "lost / expected deliveries"),
            ("Saved by the filter", "static", "saved", "saved / all RA frames"),
            ("Broadcast trees", "trees", "lost", "sources whose paths are no tree"),
        ):
            curves = results.lines(results.where(of=of), lambda case: case.facts["rule"], "nodes", key)
            found.append(Panel(title, y, curves, x="nodes", points=True))
        trade: dict[str, list[list[tuple[float, float]]]] = {}
        for case in filter(results.runs, results.where(of="static")):
            point = 100 * results.median(case, "saved"), results.median(case, "lost")
            trade.setdefault(case.facts["rule"], [[]])[0].append(point)
        x = "RA frames saved, % (medians)"
        found.append(Panel("The trade", "lost / expected deliveries", trade, x=x, points=True))
        asked = {case.label: results.curves(case) for case in results.where(of="SRs")}
        return [*found, Panel("With SRs", "lost / expected deliveries", asked)]

    def tables(self, results: Results) -> list[Table]:
        cells: dict[str, list[str]] = {}
        for case in results.where(of="static"):
            place = case.label.rpartition(", ")[0]
            cells.setdefault(place, [place]).extend(
                f"{100 * results.median(case, key):.3g}" for key in ("lost", "saved")
            )
        columns = [f"{scheme}: {key} (%)" for scheme in _SCHEMES for key in ("lost", "saved")]
        return [
            Table("Deliveries lost, and RA frames saved", ("case", *columns), [*cells.values()]),
            Table(
                "Each loss in a small network: `cbcb simulate EXPERIMENT --set routing.scheme=pif-strict`",
                ("rule", "loses", "EXPERIMENT", *(f"{scheme}: lost (%)" for scheme in _SCHEMES)),
                [
                    (*texts, f"`{base}`", *(results.band(of, "lost", 100) for of in results.where(base=base)))
                    for *texts, base in EXAMPLES
                ],
            ),
        ]


def hop_limited(case: Case) -> bool:
    """Whether the hop limit may stop an RA: our filter may then keep one that the paper's drops (ADR 2)."""
    return bool(case.facts["nodes"] > RouterOptions().hop_limit + 1)


def saves_as_ours(case: Case, saved: Collection[float], lost: Collection[float]) -> bool:
    """Whether the paper's filter loses nothing on a tree, and saves as ours does; more by the hop limit."""
    return bool(saved) and not any(lost) and (min(saved) >= 0 if hop_limited(case) else not any(saved))


def _on_tree(results: Results, strict: Case, amended: Case) -> Statement:
    """Returns the statement on what the paper's filter saves beyond ours on a tree, beside what it loses."""
    more = results.differences(strict, "saved", amended).values()
    lost = results.values(strict, "lost")
    return Statement(
        f"{strict.label.removesuffix(f', {_SCHEMES[0]}')}: "
        "the paper's filter loses nothing, and saves the RA frames that `pif` saves",
        "at least 0 points more (hop limit)" if hop_limited(strict) else "0 points more",
        f"{results.band_of(more, 100)} points more saved, {results.band_of(lost, 100)} % lost",
        saves_as_ours(strict, more, lost),
    )


def _case(nodes: int, of: str, *rule: str) -> Case:
    facts = {"of": of, "nodes": nodes, "rule": ", ".join(rule)}
    label, asked = f"{nodes} nodes, {facts['rule']}", of == "SRs"
    if of == "trees":
        return Case.of(label, facts, topology__nodes=nodes, topology__cost=rule[0].split()[0])
    duration_s = 2 * _REPAIRED_S if asked else 25
    return Case.of(
        label,
        facts,
        {"protocol.sr_policy": "periodic", "protocol.sr_period_s": str(_PERIOD_S)} if asked else {},
        topology__nodes=nodes,
        duration_s=duration_s,
        workload__messages_per_minute=messages_per_minute(nodes, _MESSAGES / (duration_s - _FIRST_S)),
        workload__first_message_s=_FIRST_S,
        workload__changing_receivers_percent=0,
        broadcast__layer=rule[0],
        routing__scheme=rule[1],
    )


def measured(run: Direct, experiment: Experiment) -> dict[str, Any]:
    """Returns the share of deliveries that are lost, also by the minute, and of RA frames that are saved."""
    second = experiment_seconds(run.inputs.clock, "sent_ns")
    from_s = _FIRST_S if experiment.protocol.sr_policy == "never" else _REPAIRED_S
    outcomes = "avg(missed::int) as share from outcomes where expected and sent_ns is not null"
    lost = run.sql(f"select {outcomes} and {second} >= {from_s}").to_pylist()[0]["share"]
    minutes = run.sql(f"select 60 * ceil({second} / 60) as t, {outcomes} group by all order by all")
    # Without a filter each RA crosses all links of its tree.
    frames = len(run.inputs.log.first_predicates) * (len(experiment.topology.nodes) - 1)
    saved = 1 - run.summary()["frames_by_type"]["RA"] / frames
    return {"lost": lost, "saved": saved, "curve": [[*row.values()] for row in minutes.to_pylist()]}


def without_tree(parents: npt.NDArray[Any]) -> float:
    """Returns the share of sources whose paths are no tree after the paper's rewriting (section 4.1).

    For u < v the path from v to u becomes the reverse of the path from u to v.

    Args:
        parents: int [n, n], by source and node: the node before it on the path; -1: the source itself.
    """
    nodes = np.arange(len(parents))
    lacking = 0
    for source in nodes:
        root, here, reverse = np.minimum(nodes, source), np.maximum(nodes, source), nodes < source
        steps: set[int] = set()
        while len(here):
            there = parents[root, here]
            first, second = np.where(reverse, (here, there), (there, here))
            steps |= {*(first * len(nodes) + second)[there >= 0].tolist()}
            root, here, reverse = (each[there >= 0] for each in (root, there, reverse))
        # A tree enters each node but its source once.
        lacking += len(steps) >= len(nodes)
    return lacking / len(nodes)
