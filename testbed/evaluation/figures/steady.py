"""The steady state of networks of up to 100,000 routers, from the numbers of receivers behind each entry.

Predicates are drawn independently of the topology, so an entry of k receivers has the mean size of the
disjunction of k predicates (`Interests`), and the state follows from the numbers of receivers. On a spanning
tree they are exact. On shortest-path trees they are those of sampled routers and senders; up to `EXACT` nodes
the classes of all routers give them as well.
"""

from __future__ import annotations

import math
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from captures.accounting.schemes import size_of
from captures.rundir import RunLayout
from captures.rundir.measures import read_routers_counters
from captures.rundir.routing_tables import ROUTING_TABLES, by_predicate
from router.predicates.covering.algebra import PredicateBuilder
from router.predicates.covering.widening import oversimplify
from router.wire.table import encode_table
from testbed.controller.classes import NO_PARENT, Adjacency, below
from testbed.controller.trees import LAYERS, Forest, broadcast_tables, parents_from, spanning_links
from testbed.evaluation.figures.floor import PerfectTables
from testbed.evaluation.figures.reproduction import common
from testbed.experiments.config import Experiment, WorkloadOptions
from testbed.experiments.config.hop_limit import load_checked
from testbed.experiments.config.load import find_experiment
from testbed.experiments.drawing import draw_message, draw_predicate
from testbed.sim.simulation import simulate
from testbed.terminal.progress import Progress
from topos import Topology
from topos.generators import power_law

_Array = npt.NDArray[Any]

#: Nodes up to which the classes of all routers are computed.
EXACT = 1_000
#: Senders and routers that are sampled on shortest-path trees; routers of the most links come on top.
SENDERS, ROUTERS, HUBS = 200, 100, 3
#: Predicates that are united, in so many orders, and that are held against them.
MOST, _ORDERS, _TESTED = 4_096, 2, 200
#: So many are united in so many orders as well, because the sizes of few predicates vary.
_FEW, _MORE_ORDERS = 128, 40
#: Domains and messages of which the false positives of aggregated predicates are counted.
_DOMAINS, _MESSAGES = 20, 200
#: Filters that a border advertises at most for its domain.
FILTERS = 40
#: Constraints are counted without covering, and with it.
KINDS = ("apart", "united")
_OPTIONS = WorkloadOptions()


class Interests:
    """Predicates of the protocol paper's workload (section 4.1), and their disjunctions.

    Args:
        most: predicates that are united, a power of 2; an entry of more receivers counts as large.

    Attributes:
        alone: constraints of a predicate, the mean.
    """

    def __init__(self, seed: int, most: int = MOST) -> None:
        rng = Random(f"{seed}/interests")
        drawn = [draw_predicate(rng, _OPTIONS) for _ in range(most + _TESTED)]
        self.alone = float(np.mean([size_of(PredicateBuilder(each).predicate).constraints for each in drawn]))
        points: dict[int, list[tuple[float, float]]] = defaultdict(list)
        for length in [most] * _ORDERS + [min(_FEW, most)] * _MORE_ORDERS:
            known = PredicateBuilder()
            for k, each in enumerate(rng.sample(drawn[:most], length), 1):
                known.add(each)
                if not k & (k - 1):
                    fresh = sum(not known.covers(other) for other in drawn[most:]) / _TESTED
                    points[k].append((size_of(known.predicate).constraints, fresh))
        self._united = sorted(points)
        self._held, self._fresh = np.array([np.mean(points[k], axis=0) for k in self._united]).T
        self._held[0] = self.alone

    def sizes(self, receivers: _Array) -> _Array:
        """Returns float64 [kinds, entries]: the constraints of entries of so many receivers."""
        return np.stack([self.alone * receivers, np.where(receivers > 0, self._at(receivers, self._held), 0)])

    def fresh(self, receivers: _Array) -> _Array:
        """Returns the probability that so many predicates do not cover another one."""
        return np.where(receivers > 0, self._at(receivers, self._fresh), 1.0)

    def _at(self, receivers: _Array, values: _Array) -> _Array:
        return np.interp(receivers, self._united, values)


interests = cache(Interests)


class Large:
    """A network with receivers (75 %) and senders (20 %) at random, and what its routers hold.

    Attributes:
        found: `SCHEME KIND mean`, `max` (of all routers, or of a sample), `error` (standard error of the
            mean): constraints a router, for messages of the senders; of RAs with `pif`: `pif crossings` of a
            change, `set-up` of the first predicates of all receivers.
    """

    def __init__(self, topology: Topology, seed: int, interests: Interests) -> None:
        self.nodes, self._topology, self._interests = len(topology.nodes), topology, interests
        self._rng = np.random.default_rng([seed, self.nodes])
        self.receivers, self.senders = np.zeros((2, self.nodes), np.int64)
        for chosen, share in ((self.receivers, 0.75), (self.senders, 0.2)):
            chosen[self._rng.permutation(self.nodes)[: round(share * self.nodes)]] = 1
        self.found: dict[str, float] = {}

    def _put(self, scheme: str, mean: _Array, most: _Array) -> None:
        for kind, *values in zip(KINDS, mean.tolist(), most.tolist(), strict=True):
            self.found |= zip((f"{scheme} {kind} mean", f"{scheme} {kind} max"), values, strict=True)

    def spanning_tree(self) -> None:
        """The state of all routers on the spanning tree."""
        adjacency = Adjacency.of(self.nodes, spanning_links(self.nodes, self._topology.links))
        (parents,), degree = parents_from(adjacency, np.array([0])), np.diff(adjacency.first)
        child = np.flatnonzero(parents != NO_PARENT)
        # Both directions of each link: the router that sends, and what is beyond the link.
        router = np.concatenate([parents[child], child])
        behind, sending = (below(parents[None], each)[child] for each in (self.receivers, self.senders))
        receivers = np.concatenate([behind, self.receivers.sum() - behind])
        senders = np.concatenate([self.senders.sum() - sending, sending])
        sizes = self._interests.sizes(receivers)
        for scheme, copies in (("pif", 1), ("pif-classes", 1), ("psf", senders), ("ips", senders > 0)):
            state = [np.bincount(router, each, self.nodes) for each in copies * sizes]
            self._put(scheme, np.mean(state, axis=1), np.max(state, axis=1))
        # A router passes on what the receivers behind the link do not cover, and what is its own.
        passed = (receivers * (degree[router] - 1) * self._interests.fresh(receivers)).sum()
        self.found["pif crossings"] = float((passed + self.receivers @ degree) / self.receivers.sum())

    def shortest_paths(self) -> None:
        """The state on shortest-path trees, of sampled routers and senders."""
        adjacency = Adjacency.of(self.nodes, self._topology.links)
        drawn = self._rng.permutation(self.nodes)[:ROUTERS]
        hubs = np.argsort(-np.diff(adjacency.first), kind="stable")[:HUBS]
        held = []
        for root in [*drawn, *hubs]:
            (parents,) = parents_from(adjacency, np.array([root]))
            held.append(
                self._interests.sizes(below(parents[None], self.receivers)[parents == root]).sum(axis=1)
            )
        self._sample("pif", np.array(held[: len(drawn)]), np.max(held, axis=0))
        senders = self._rng.permutation(np.flatnonzero(self.senders))
        senders = senders[: min(SENDERS, len(senders) // 2)]
        means, total = [], np.zeros((2, self.nodes))
        for source in senders:
            (parents,) = parents_from(adjacency, np.array([source]))
            child = np.flatnonzero(parents != NO_PARENT)
            sizes = self._interests.sizes(below(parents[None], self.receivers)[child]) * self.senders.sum()
            means.append(sizes.sum(axis=1) / self.nodes)
            total += [np.bincount(parents[child], each, self.nodes) for each in sizes]
        self._sample("psf", np.array(means), total.max(axis=1) / len(senders))

    def _sample(self, scheme: str, values: _Array, most: _Array) -> None:
        self._put(scheme, values.mean(axis=0), most)
        for kind, error in zip(KINDS, values.std(axis=0, ddof=1) / math.sqrt(len(values)), strict=True):
            self.found[f"{scheme} {kind} error"] = float(error)

    def classes(self, forest: Forest) -> None:
        """The state of all routers, by the classes of their TABLEs; kB of the TABLE bodies with subtrees."""
        state = {scheme: np.zeros((2, self.nodes)) for scheme in ("pif", "pif-classes", "psf", "ips")}
        crossings, set_up, table_kb = 0.0, 0.0, []
        # Of the first predicates of so many receivers, those that the ones before them do not cover.
        passed = np.append(0.0, np.cumsum(self._interests.fresh(np.arange(self.receivers.sum()))))
        for node, table in broadcast_tables(self._topology, forest, subtrees=True).items():
            assert table.subtrees is not None
            table_kb.append(len(encode_table(table)) / 1e3)
            parent, children = table.classes.parents, np.diff(table.classes.first.astype(np.int64))
            own = parent == 0
            count, sending = (
                np.bincount(table.class_of, each, len(parent) + 1)[1:].astype(np.int64)
                for each in (self.receivers, self.senders)
            )
            crossings += (count * children * np.where(own, 1, self._interests.fresh(count))).sum()
            set_up += (children * np.where(own, count, passed[count])).sum()
            asked, some = table.subtrees[sending > 0], sending[sending > 0]
            for port in np.unique(parent[~own]):
                behind = np.flatnonzero((parent == port) & (count > 0))
                beyond, here = asked[:, behind], count[behind]
                for scheme, receivers in (
                    ("pif", here.sum(keepdims=True)),
                    ("pif-classes", here),
                    ("psf", np.repeat(beyond @ here, some)),
                    ("ips", np.unique(beyond, axis=0) @ here),
                ):
                    state[scheme][:, node] += self._interests.sizes(receivers).sum(axis=1)
        for scheme, rows in state.items():
            self._put(scheme, rows.mean(axis=1), rows.max(axis=1))
        self.found["pif crossings"] = float(crossings / self.receivers.sum())
        self.found |= {"table mean": float(np.mean(table_kb)), "table max": max(table_kb), "set-up": set_up}

    def unwanted(self, forest: Forest) -> float:
        """Returns the share of false positives among the messages at routers, with tables of `pif`."""
        rng, tables, found = Random(f"{self.nodes}/messages"), PerfectTables(forest), np.zeros(2)
        receivers, senders = (np.flatnonzero(each).tolist() for each in (self.receivers, self.senders))
        held = {node: PredicateBuilder(draw_predicate(rng, _OPTIONS)) for node in receivers}
        for _ in range(_MESSAGES):
            message, source = draw_message(rng, _OPTIONS), rng.choice(senders)
            found += tables.spread(source, {node for node, each in held.items() if each.matches(message)})
        return float(found[1] / found[0])


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
        workload__senders_percent=0,
        **more,
    )
    experiment = load_checked(find_experiment("default"), overrides)
    with tempfile.TemporaryDirectory(prefix="cbcb-figure-") as folder:
        run = simulate(experiment, Path(folder), Progress(), "none")
        yield experiment, RunLayout(run)


def _simulated_state(facts: Mapping[str, Any], seed: int) -> dict[str, float]:
    """Returns what routers hold and receive in the simulated network of a case.

    Returns:
        `mean` and `max`: constraints a router, for messages of the senders of `Large`; `RAs`: of all routers;
        `apart KEY`: without covering, where `calculated mean` and `max` follow from the predicates of
        receivers.
    """
    scheme, nodes, found = facts["scheme"], facts["nodes"], dict[str, float]()
    topology = f'{{ generator = "power_law", nodes = {nodes}, cost = "unit" }}'
    interests, constraints_of = Interests(seed, most=1), by_predicate(lambda each: size_of(each).constraints)
    # Receivers are weighed by their constraints.
    interests.alone = 1.0
    for prefix, covering in (("", "full"), ("apart ", "none")):
        with simulated(facts, seed, topology=topology, protocol__covering=covering) as (experiment, run):
            tables = ROUTING_TABLES.read(run)
            if not prefix:
                found["RAs"] = sum(each["ras_received"] for each in read_routers_counters(run).values())
        large = Large(experiment.topology, seed, interests)
        held, own = np.zeros((2, nodes), np.int64)
        for node, row in ((node, row) for node, rows in tables.items() for row in rows):
            if row.get("part") == "forwarding":
                sources = row.get("sources") if scheme in ("psf", "ips") else None
                asked = 1 if sources is None else int(large.senders[sources].sum())
                held[node] += constraints_of(row) * (asked if row.get("copies") else min(asked, 1))
            elif row.get("part") == "local":
                own[node] += constraints_of(row)
        found |= {f"{prefix}mean": float(held.mean()), f"{prefix}max": float(held.max())}
    large.receivers = own
    large.classes(LAYERS[facts["layer"]](experiment.topology, frozenset(), frozenset()))
    # With drp a router holds the predicates of all others.
    others = own.sum() - own
    drp = {"drp apart mean": float(others.mean()), "drp apart max": float(others.max())}
    calculated = {**drp, **large.found}
    return found | {f"calculated {key}": calculated[f"{scheme} apart {key}"] for key in ("mean", "max")}


def measure(facts: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Returns what is calculated of a case.

    Args:
        facts: `what` is `simulated`, `domains`, or `state`; `nodes`, `layer`; `scheme` of what is simulated.

    Returns:
        of `state`, `nodes` and `Large.found`; `exact KEY` of the classes of all routers; `r M`, constraints
        of the predicates of all receivers; `false positives` of `pif` with perfect tables.
    """
    nodes = int(facts["nodes"])
    if facts["what"] != "state":
        return _simulated_state(facts, seed) if facts["what"] == "simulated" else _domains(nodes, seed)
    topology = power_law(nodes, seed, cost="unit")
    known = interests(seed)
    large, layer = Large(topology, seed, known), str(facts["layer"])
    (large.spanning_tree if layer == "spanning-tree" else large.shortest_paths)()
    found = {"nodes": nodes, "r M": int(large.receivers.sum()) * known.alone, **large.found}
    if nodes <= EXACT:
        forest = LAYERS[layer](topology, frozenset(), frozenset())
        large.classes(forest)
        found |= {f"exact {key}": value for key, value in large.found.items()}
        found["false positives"] = large.unwanted(forest)
    return found


def _domains(nodes: int, seed: int) -> dict[str, float]:
    """Returns the state with domains of sqrt(n) routers, each with a predicate for all of its receivers.

    Returns:
        constraints a router without covering, of flat tables and of domains whose predicate is the
        disjunction (`merged`) or has few filters (`fewer`); shares of the pairs of a message and a domain:
        `needed`, some receiver matches; `wasted`, the few filters alone.
    """
    size = math.isqrt(nodes)
    rng, alone = Random(f"{seed}/{nodes}/domains"), interests(seed).alone
    messages, receivers = [draw_message(rng, _OPTIONS) for _ in range(_MESSAGES)], round(0.75 * size)
    merged, fewer, needed, wasted = 0.0, 0.0, 0, 0
    for _ in range(_DOMAINS):
        border = PredicateBuilder()
        for _ in range(receivers):
            border.add(draw_predicate(rng, _OPTIONS))
        few = PredicateBuilder(oversimplify(border.predicate, FILTERS))
        merged += size_of(border.predicate).constraints / _DOMAINS
        fewer += size_of(few.predicate).constraints / _DOMAINS
        matched = [border.matches(message) for message in messages]
        needed += sum(matched)
        wasted += sum(few.matches(message) for message in messages) - sum(matched)
    others, pairs = nodes / size - 1, _MESSAGES * _DOMAINS
    return {
        "flat": round(0.75 * nodes) * alone,
        "merged": receivers * alone + others * merged,
        "fewer": receivers * alone + others * fewer,
        "needed": needed / pairs,
        "wasted": wasted / pairs,
    }
