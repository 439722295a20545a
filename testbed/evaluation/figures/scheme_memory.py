"""The memory of the routing schemes by the formulas of the slides (part III)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Container, Iterator, Mapping, Sequence

from captures.accounting.schemes import Size, size_of
from captures.rundir.routing_tables import TableRow, predicate_of
from router.predicates import NOTHING, Predicate
from router.predicates.covering.algebra import PredicateBuilder
from router.predicates.covering.bitset import Bits
from router.predicates.covering.pool import POOL
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
    alone = {node: _Growing(predicate).size for node, predicate in predicates.items()}
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
    for unit in UNITS:
        sizes = {node: size[unit] for node, size in alone.items()}
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
    whole = {unit: [0] * len(predicates) for unit in UNITS}
    parts = {unit: [0] * len(predicates) for unit in UNITS}
    sizes = [_Growing(predicate).size for predicate in predicates]
    for _ in range(draws):
        union, alone = _Growing(), Counter[str]()
        for k, number in enumerate(rng.sample(range(len(predicates)), len(predicates))):
            union.add(predicates[number])
            alone += sizes[number]
            for unit in UNITS:
                whole[unit][k] += union.size[unit]
                parts[unit][k] += alone[unit]
    return {
        unit: [together / apart for together, apart in zip(whole[unit], parts[unit], strict=True)]
        for unit in UNITS
    }


class _Growing:
    """A predicate that grows, with its size.

    Attributes:
        size: by unit.
    """

    def __init__(self, predicate: Predicate = NOTHING) -> None:
        self._builder = PredicateBuilder()
        self.size: Counter[str] = Counter()
        self.add(predicate)

    def add(self, predicate: Predicate) -> None:
        before = self._builder.members
        self._builder.add(predicate)
        after = self._builder.members
        # The filters that are new, and those that are not needed any more: a large predicate changes little.
        self.size.update(_counted(after & ~before))
        self.size.subtract(_counted(before & ~after))


def _counted(members: Bits) -> dict[str, int]:
    return size_of(POOL.predicate(members))._asdict() if members else {}


def _size(receivers: int, sizes: Mapping[int, int]) -> int:
    total = 0
    while receivers:
        lowest = receivers & -receivers
        receivers ^= lowest
        total += sizes[lowest.bit_length() - 1]
    return total
