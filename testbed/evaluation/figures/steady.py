"""The steady state of a network by calculation: tables, set-up, messages; no router and no event is run.

Every receiver has set its first predicate and all RAs have arrived. Trees, classes of nodes and the algebra
of predicates are those of controller and routers; the rules of the schemes are written a second time, so that
a simulation can be held against them.
"""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from captures.accounting.schemes import size_of
from captures.rundir import RunLayout
from captures.rundir.counters import read_routers_counters
from captures.rundir.routing_tables import by_predicate, read_routing_tables
from router.predicates import Predicate
from router.predicates.covering.algebra import PredicateBuilder
from router.predicates.parser import parse_predicate
from router.protocol.options import CONTENTS
from router.protocol.schemes import Row
from testbed.controller.classes import hops_of
from testbed.controller.trees import LAYERS, router_tables
from testbed.evaluation.figures.floor import PerfectTables
from testbed.evaluation.figures.reproduction import common
from testbed.evaluation.figures.scheme_memory import receivers_below
from testbed.experiments.config import Experiment
from testbed.experiments.config.hop_limit import load_checked
from testbed.experiments.config.load import find_experiment
from testbed.experiments.workload.generate import generate, selected
from testbed.sim.simulation import simulate
from testbed.terminal.progress import Progress

#: Time from one first predicate to the next and of a hop, us. No sum of some is equal to a sum of others:
#: the order in which RAs arrive at a router is that of a simulation with links of `LINK_MS`.
_PACE_US, _HOP_US, LINK_MS = 1_000, 1_501, 1.001
#: Columns by which rows are compared.
_KEYS = ("interface", "sources", "copies", "predicate")
#: What is calculated -> the counters of routers whose sum it is.
_COUNTED = {
    "ra_crossings": ("ras_received",),
    "received": ("messages_received", "messages_sent"),
    "false_positives": ("messages_unwanted", "messages_unmatched"),
}


class Steady:
    """The steady state of an experiment whose predicates do not change.

    Attributes:
        rows: router -> the forwarding rows of its routing table.
        ra_crossings: RAs that arrive at routers, over all links.
        messages: `received`: how many messages arrive at routers, those of their senders included;
            `false_positives`: how many of them are neither forwarded nor delivered.
    """

    def __init__(self, experiment: Experiment) -> None:
        topology, self._scheme = experiment.topology, experiment.routing.scheme
        self._depth = cache(self._depth_below)
        self._forest = LAYERS[experiment.broadcast.layer](topology, frozenset(), frozenset())
        self._classes = router_tables(topology, self._forest, subtrees=True)
        self._ports = {node: {v: k for k, v in table.neighbours} for node, table in self._classes.items()}
        self._hop_limit = experiment.protocol.hop_limit
        self._content = CONTENTS[experiment.protocol.covering]()
        first = {
            item.node: self._content.builder(parse_predicate(item.predicate))
            for item in generate(experiment).items
            if item.predicate is not None
        }
        # A predicate that no message can match is not advertised.
        self._first = {node: known for node, known in first.items() if known}
        self._set_us = [number * _PACE_US for number, known in enumerate(first.values()) if known]
        self.ra_crossings = len(self._first) * (len(topology.nodes) - 1)
        self.rows: dict[int, list[Row]] = defaultdict(list)
        if self._scheme in ("pif", "pif-classes"):
            self._advertise()
        elif self._scheme == "drp":
            for node, issuer in ((u, v) for u in self._classes for v in self._first if u != v):
                self._add(node, None, self._first[issuer], (node,))
        else:
            self._by_source()
        self.messages = self._spread(experiment)

    def _advertise(self) -> None:
        """The tables of pif, by interface or class, and the RAs that the ingress filter passes on."""
        parents, issuers = self._forest.parents, list(self._first)
        hops = hops_of(self._forest.sources, parents)[issuers]
        arrival = np.array(self._set_us)[:, None] + hops * _HOP_US
        passed = np.zeros(hops.shape, np.bool_)
        held: dict[tuple[int, int], PredicateBuilder] = defaultdict(self._content.builder)
        # By router and class: F by the hops that RAs had left, as in `SubtreeFilter`.
        filters: dict[tuple[int, int], dict[int, PredicateBuilder]] = defaultdict(dict)
        self.ra_crossings = 0
        for place in np.argsort(arrival, axis=None, kind="stable").tolist():
            number, node = divmod(place, hops.shape[1])
            issuer = issuers[number]
            if node == issuer:
                passed[number, node] = True
            elif passed[number, parents[issuer, node]]:
                self.ra_crossings += 1
                predicate, table = self._first[issuer].predicate, self._classes[node]
                own = int(table.class_of[issuer])
                parent = int(table.classes.parents[own - 1])
                held[node, own if self._scheme == "pif-classes" else parent].add(predicate)
                left = min(self._hop_limit - int(hops[number, node]), self._depth(node, own))
                passed[number, node] = self._widened(filters[node, own], left, predicate)
        for (node, key), known in held.items():
            if self._scheme == "pif":
                self._add(node, key, known, None)
                continue
            table = self._classes[node]
            assert table.subtrees is not None
            below = np.flatnonzero(table.subtrees[key - 1]) + 1
            sources = np.flatnonzero(np.isin(table.class_of, below)).tolist()
            self._add(node, int(table.classes.parents[key - 1]), known, tuple(sources))

    def _depth_below(self, node: int, own: int) -> int:
        """The bound of a router on the hops to a node below it, on the trees of a class (`Branch.depth`)."""
        table = self._classes[node]
        beyond = Counter(table.classes.parents[table.class_of - 1].tolist())
        return max((beyond[child] for child in table.classes[own - 1].children), default=0)

    def _widened(self, levels: dict[int, PredicateBuilder], left: int, predicate: Predicate) -> bool:
        """Widens F of a class; returns whether F did not cover the predicate."""
        if left not in levels:
            above = [level for level in levels if level > left]
            levels[left] = levels[min(above)].copy() if above else self._content.builder()
        if not levels[left].add(predicate):
            return False
        for level in levels:
            if level < left:
                levels[level].add(predicate)
        return True

    def _by_source(self) -> None:
        """The tables of psf and ips: an entry for each set of receivers below a router and its child."""
        shared: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        for source in self._classes:
            for place in receivers_below(self._forest.tree(source), self._first):
                shared[place].append(source)
        for (node, child, below), sources in shared.items():
            number_of, known = self._classes[node].class_of, self._content.builder()
            receivers = [each for each in self._first if below >> each & 1]
            for each in sorted(receivers, key=lambda each: (number_of[each], each)):
                known.unite(self._first[each])
            self._add(node, self._ports[node][child], known, tuple(sources))

    def _add(
        self, node: int, interface: int | None, known: PredicateBuilder, sources: tuple[int, ...] | None
    ) -> None:
        row = Row(interface, "", known.predicate, sources=sources, copies=self._scheme == "psf")
        self.rows[node].append(row)

    def _spread(self, experiment: Experiment) -> Counter[str]:
        tables, found = PerfectTables(self._forest), Counter[str]()
        for item, selecting, _ in selected(generate(experiment)):
            receivers = {node for node, _ in selecting}
            if self._scheme == "pif":
                reached, unused = tables.spread(item.node, receivers)
            else:
                below = receivers_below(self._forest.tree(item.node), receivers)
                reached, unused = 1 + sum(1 for _ in below), not receivers
            found.update(received=reached, false_positives=int(unused))
        return found


@contextmanager
def simulated(facts: Mapping[str, Any], seed: int, **more: Any) -> Iterator[tuple[Experiment, RunLayout]]:
    """Simulates 30 s of a network whose predicates do not change, in a folder that is removed at the end.

    Args:
        facts: `scheme`, `layer`, `nodes`.
        more: overrides, as of `common`.
    """
    overrides = common(
        seed=seed,
        topology__nodes=facts["nodes"],
        broadcast__layer=facts["layer"],
        routing__scheme=facts["scheme"],
        duration_s=30,
        workload__changing_receivers_percent=0,
        **more,
    )
    experiment = load_checked(find_experiment("default"), overrides)
    with tempfile.TemporaryDirectory(prefix="cbcb-figure-") as folder:
        run = simulate(experiment, Path(folder), Progress(Console(quiet=True)), "none")
        yield experiment, RunLayout(run)


def compare(facts: Mapping[str, Any], seed: int) -> dict[str, int]:
    """Returns what is simulated of a network beside what `Steady` calculates.

    Args:
        facts: as of `simulated`.

    Returns:
        what is equal, of which UNIT is filters, constraints and bytes of the forwarding rows: rows, UNIT,
        ra_crossings, received, false_positives, each as `calculated KEY` and `simulated KEY`; differing: rows
        that only one of both has.
    """
    with simulated(facts, seed, workload__first_message_s=5, links__delay_ms=LINK_MS) as (experiment, run):
        tables, counters = read_routing_tables(run), read_routers_counters(run)
    steady = Steady(experiment)
    calculated = {node: [row.as_json() for row in rows] for node, rows in steady.rows.items()}
    whole: dict[str, Mapping[int, Any]] = {"calculated": calculated, "simulated": tables}
    found, seen, size_of_row = Counter[str](), list[set[str]](), by_predicate(size_of)
    for whose, of_node in whole.items():
        rows = [(node, row) for node, each in of_node.items() for row in each if row["part"] == "forwarding"]
        for _, row in rows:
            copies = len(row["sources"]) if row["copies"] else 1
            sizes = size_of_row(row)._asdict()
            found.update({f"{whose} {unit}": copies * size for unit, size in sizes.items()})
        found[f"{whose} rows"] = len(rows)
        seen.append({repr((node, *(row[key] for key in _KEYS))) for node, row in rows})
    for key, names in _COUNTED.items():
        found[f"simulated {key}"] = sum(each[name] for each in counters.values() for name in names)
    messages = {**steady.messages, "ra_crossings": steady.ra_crossings}
    found.update({f"calculated {key}": value for key, value in messages.items()})
    return {**found, "differing": len(seen[0] ^ seen[1])}
