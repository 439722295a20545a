"""The memory of the routing schemes by the formulas of the slides (part III)."""

from __future__ import annotations

import random
from collections.abc import Collection, Container, Iterator, Mapping, Sequence

import numpy as np

from captures.accounting.schemes import Size, size_of
from captures.rundir.routing_tables import TableRow, predicate_of
from router.predicates import Predicate
from router.predicates.covering.algebra import PredicateBuilder
from testbed.controller.trees import Forest, Tree

#: Units of M.
UNITS = Size._fields


def local_predicates(tables: Mapping[int, Sequence[TableRow]]) -> dict[int, Predicate]:
    """The predicates of the applications of each receiver."""
    return {
        node: predicate_of(row) for node, rows in tables.items() for row in rows if row.get("part") == "local"
    }


def predicted(forest: Forest, sizes: Mapping[int, int], sources: Collection[int]) -> dict[str, int]:
    """Returns scheme -> forwarding state of all routers without covering, for messages of `sources`.

    - `psf`: sum over v in S, x in R of M(pred(x)) distance(v, x)
    - `ips`: each predicate once for all sources with the same receivers below a router and its child
    - `pif`: each predicate once at every router but the receiver's that reaches it
    - `pif-classes`: each predicate once at every router but the receiver's on the path from a source to it;
      for messages of all nodes as many as `pif`
    - `drp`: each predicate once at every sender, but the sender's own

    Args:
        sizes: receiver -> M of its predicate, in any unit.
    """
    trees = {source: forest.tree(source) for source in {*sources, *sizes}}
    found = {
        scheme: sum(_size(below, sizes) for _, _, below in entries)
        for scheme, entries in _of_sources(forest, sources, sizes).items()
    }
    # The routers on the paths from sources to a receiver are those with a source below them on its tree.
    return found | {
        "pif": sum(size * (len(trees[node].order) - 1) for node, size in sizes.items()),
        "pif-classes": sum(
            size * sum(1 for _ in receivers_below(trees[node], sources)) for node, size in sizes.items()
        ),
        "drp": sum(sizes.get(node, 0) for source in sources for node in trees[source].order[1:]),
    }


def _of_sources(
    forest: Forest, sources: Collection[int], receivers: Container[int]
) -> dict[str, Collection[tuple[int, int, int]]]:
    """Scheme -> the entries of all routers: `receivers_below` of each source, or once for equal ones."""
    psf = [place for source in sources for place in receivers_below(forest.tree(source), receivers)]
    return {"psf": psf, "ips": set(psf)}


def receivers_below(tree: Tree, receivers: Container[int]) -> Iterator[tuple[int, int, int]]:
    """Each link of a tree with receivers behind it: parent, child, and the receivers as bits (1 << node)."""
    below = [0] * len(tree.parents)
    for node in reversed(tree.order[1:]):
        if node in receivers:
            below[node] |= 1 << node
        below[tree.parents[node]] |= below[node]
        if below[node]:
            yield tree.parents[node], node, below[node]


def predicted_by_alpha(
    forest: Forest, predicates: Mapping[int, Predicate], sources: Collection[int], rng: random.Random
) -> dict[str, dict[str, float]]:
    """Returns scheme -> unit -> forwarding state with covering, by alpha measured on the predicates.

    An entry for k receivers has alpha(k) of the sum of their M, in the same unit. alpha is that of the run's
    own predicates, at the k of each entry: receivers are drawn at random, whereas those of an entry are
    neighbours. `pif by mean` is the slides' formula with n - 1 for n: (n - 1) r M_p alpha(r / Delta), where
    Delta is the mean number of interfaces.

    Args:
        predicates: of the receivers; none is empty.
    """
    alone = {node: _alone(predicate) for node, predicate in predicates.items()}
    alpha = measured_alpha(list(predicates.values()), rng)
    entries = _of_sources(forest, sources, alone)
    entries["pif"] = [
        place
        for node in forest.sources.tolist()
        for place in receivers_below(forest.tree(node), alone)
        if place[0] == node
    ]
    nodes = len(forest.sources)
    interfaces = 2 * len(forest.links) / nodes
    mean = min(max(1.0, len(alone) / interfaces), float(len(alone)))
    low = int(mean)
    high = min(low + 1, len(alone))
    found: dict[str, dict[str, float]] = {scheme: {} for scheme in (*entries, "pif by mean")}
    for number, unit in enumerate(UNITS):
        sizes = {node: size[number] for node, size in alone.items()}
        of_unit = alpha[unit]
        for scheme, those in entries.items():
            state = (_size(below, sizes) * of_unit[below.bit_count() - 1] for _, _, below in those)
            found[scheme][unit] = sum(state)
        between = of_unit[low - 1] + (mean - low) * (of_unit[high - 1] - of_unit[low - 1])
        found["pif by mean"][unit] = (nodes - 1) * sum(sizes.values()) * between
    return found


def measured_alpha(
    predicates: Sequence[Predicate], rng: random.Random, draws: int = 40
) -> dict[str, list[float]]:
    """Returns unit -> alpha(1), alpha(2), ...: of k predicates drawn at random, the mean of M of the
    disjunction over the mean of the sum of M."""
    sizes = np.array([_alone(predicate) for predicate in predicates]).reshape(-1, len(UNITS))
    whole, parts = np.zeros_like(sizes), np.zeros_like(sizes)
    for _ in range(draws):
        union, order = PredicateBuilder(), rng.sample(range(len(predicates)), len(predicates))
        for k, number in enumerate(order):
            union.add(predicates[number])
            whole[k] += size_of(union.predicate)
        parts += np.cumsum(sizes[order], axis=0)
    return dict(zip(UNITS, (whole / parts).T.tolist(), strict=True))


def _alone(predicate: Predicate) -> Size:
    """The size of a predicate as a router holds it."""
    return size_of(PredicateBuilder(predicate).predicate)


def _size(receivers: int, sizes: Mapping[int, int]) -> int:
    total = 0
    while receivers:
        lowest = receivers & -receivers
        receivers ^= lowest
        total += sizes[lowest.bit_length() - 1]
    return total
