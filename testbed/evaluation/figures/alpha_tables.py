"""The disjunction advantage of what routers hold: entries of the routing tables of a simulated run.

An entry is the disjunction of the predicates of k receivers. Its alpha is its number of filters over that of
the k predicates, each simplified alone. The curve beside it is alpha(k) of receivers drawn at random.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from rich.console import Console

from captures.accounting.schemes import size_of
from captures.rundir.layout import RunLayout
from captures.rundir.routing_tables import TableRow, by_predicate, predicate_of, read_routing_tables
from router.predicates.covering.algebra import PredicateBuilder
from testbed.controller.trees import LAYERS, Forest
from testbed.evaluation.figures.reproduction import common
from testbed.evaluation.figures.scheme_memory import (
    UNITS,
    measured_alpha,
    predicted_by_alpha,
    receivers_below,
)
from testbed.experiments.config.load import load_experiment
from testbed.experiments.config.model import Experiment
from testbed.experiments.config.shipped import find_experiment
from testbed.sim.simulation import simulate
from testbed.terminal.progress import Progress


def measure_tables(facts: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Simulates the opening of a run and measures the entries of all routers.

    Args:
        facts: `scheme` (`pif`, `psf` or `ips`), `layer`, `nodes`.

    Returns:
        curve: (k, alpha) of the entries; random: (k, alpha) of receivers drawn at random, both in
        filters; by_alpha_UNIT: M held over the formula with alpha(k) of each entry; by_mean_alpha_UNIT, with
        `pif`: over (n - 1) r M_p alpha(r / Delta).
    """
    overrides = common(
        seed=seed,
        topology__nodes=facts["nodes"],
        broadcast__layer=facts["layer"],
        routing__scheme=facts["scheme"],
        duration_s=30,
        workload__senders_percent=0,
        workload__changing_receivers_percent=0,
    )
    experiment = load_experiment(find_experiment("default"), overrides)
    with tempfile.TemporaryDirectory(prefix="cbcb-alpha-") as folder:
        run = RunLayout(simulate(experiment, Path(folder), Progress(Console(quiet=True)), "none"))
        tables = read_routing_tables(run)
    return _measured(experiment, tables, random.Random(seed))


def _measured(
    experiment: Experiment, tables: Mapping[int, Sequence[TableRow]], rng: random.Random
) -> dict[str, Any]:
    forest = LAYERS[experiment.broadcast.layer](experiment.topology, frozenset(), frozenset())
    predicates = {
        node: predicate_of(row) for node, rows in tables.items() for row in rows if row.get("part") == "local"
    }
    sizes = {node: len(PredicateBuilder(predicate)) for node, predicate in predicates.items()}
    together: dict[int, int] = {}
    alone: dict[int, int] = {}
    held: Counter[str] = Counter()
    size_of_row = by_predicate(size_of)
    for node, rows in tables.items():
        for row, receivers, copies in _entries(experiment, forest, node, rows, sizes):
            size = size_of_row(row)
            held.update({unit: copies * value for unit, value in size._asdict().items()})
            k = len(receivers)
            together[k] = together.get(k, 0) + size.filters
            alone[k] = alone.get(k, 0) + sum(sizes[each] for each in receivers)
    scheme = experiment.routing.scheme
    formula = predicted_by_alpha(forest, predicates, forest.sources.tolist(), rng)
    found: dict[str, Any] = {
        "curve": [(k, together[k] / alone[k]) for k in sorted(together)],
        "random": list(enumerate(measured_alpha(list(predicates.values()), rng)["filters"], 1)),
    }
    for unit in UNITS:
        found[f"by_alpha_{unit}"] = held[unit] / formula[scheme][unit]
        if scheme == "pif":
            found[f"by_mean_alpha_{unit}"] = held[unit] / formula["pif by mean"][unit]
    return found


def _entries(
    experiment: Experiment,
    forest: Forest,
    node: int,
    rows: Sequence[TableRow],
    receivers: Mapping[int, int],
) -> Iterator[tuple[TableRow, list[int], int]]:
    """Each row of forwarding state with the receivers behind it, and how often the table holds it."""
    neighbours = experiment.topology.neighbours(node)
    below_of = cache(lambda source: _below(forest, source, node, receivers))
    for row in rows:
        interface, sources = row["interface"], row.get("sources")
        if row.get("part") != "forwarding" or interface is None:
            continue
        child = neighbours[interface]
        # With `pif` the entry is what the router itself reaches through the interface.
        below = below_of(node if sources is None else sources[0])[child]
        copies = len(sources) if sources is not None and row.get("copies") else 1
        yield row, [each for each in receivers if below >> each & 1], copies


def _below(forest: Forest, source: int, node: int, receivers: Container[int]) -> dict[int, int]:
    """Returns child of a node on the tree of a source -> the receivers behind it, as bits (1 << node)."""
    places = receivers_below(forest.tree(source), receivers)
    return {child: below for parent, child, below in places if parent == node}
