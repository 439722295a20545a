"""The memory of the routing schemes by the formulas of the slides (part III), on given trees."""

from __future__ import annotations

import random
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence

from router.predicates.covering.builder import PredicateBuilder
from router.predicates.model import Predicate
from testbed.controller.trees import Forest, Tree


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
    psf = drp = 0
    shared: set[tuple[int, int, int]] = set()
    for source in sources:
        for parent, node, below in receivers_below(forest.trees[source], sizes):
            psf += _size(below, sizes)
            shared.add((parent, node, below))
        drp += sum(sizes[node] for node in forest.trees[source].order[1:] if node in sizes)
    ips = sum(_size(receivers, sizes) for _, _, receivers in shared)
    classes = sum(size * _routers_on_paths(forest.trees[node], sources) for node, size in sizes.items())
    pif = sum(size * (len(forest.trees[node].order) - 1) for node, size in sizes.items())
    return {"psf": psf, "ips": ips, "pif": pif, "pif-classes": classes, "drp": drp}


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
) -> dict[str, float]:
    """Returns scheme -> forwarding state in filters, with covering, by alpha measured on the predicates.

    An entry for k receivers has alpha(k) of the sum of their filters. alpha is that of the run's own
    predicates, at the k of each entry: receivers are drawn at random, whereas those of an entry are
    neighbours. `pif by mean` is the slides' formula with n - 1 for n: (n - 1) r M_p alpha(r / Delta), where
    Delta is the mean number of interfaces.

    Args:
        predicates: of the receivers; none is empty.
    """
    sizes = {node: len(PredicateBuilder(predicate)) for node, predicate in predicates.items()}
    alpha = measured_alpha(list(predicates.values()), rng)

    def state(entries: Iterable[int]) -> float:
        return sum(_size(entry, sizes) * alpha[entry.bit_count() - 1] for entry in entries)

    psf = [place for source in sources for place in receivers_below(forest.trees[source], sizes)]
    pif = [
        below
        for node, tree in forest.trees.items()
        for parent, _, below in receivers_below(tree, sizes)
        if parent == node
    ]
    total, nodes = sum(sizes.values()), len(forest.trees)
    interfaces = 2 * len(forest.links) / nodes
    mean = min(max(1.0, len(sizes) / interfaces), float(len(sizes)))
    low = int(mean)
    high = min(low + 1, len(sizes))
    between = alpha[low - 1] + (mean - low) * (alpha[high - 1] - alpha[low - 1])
    return {
        "psf": state(below for _, _, below in psf),
        "ips": state(below for _, _, below in set(psf)),
        "pif": state(pif),
        "pif by mean": (nodes - 1) * total * between,
    }


def measured_alpha(predicates: Sequence[Predicate], rng: random.Random, draws: int = 40) -> list[float]:
    """Returns alpha(1), alpha(2), ... in filters: of k predicates drawn at random, the mean of M of the
    disjunction over the mean of the sum of M."""
    whole, parts = [0] * len(predicates), [0] * len(predicates)
    for _ in range(draws):
        union, alone = PredicateBuilder(), 0
        for k, predicate in enumerate(rng.sample(predicates, len(predicates))):
            union.add(predicate)
            alone += len(PredicateBuilder(predicate))
            whole[k] += len(union)
            parts[k] += alone
    return [together / apart for together, apart in zip(whole, parts, strict=True)]


def _routers_on_paths(tree: Tree, sources: Collection[int]) -> int:
    """How many nodes are on the paths from sources to the root of a tree, without the root."""
    reached = set(tree.order)
    on_paths: set[int] = set()
    for source in sources:
        node = source
        while node in reached and node != tree.order[0] and node not in on_paths:
            on_paths.add(node)
            node = tree.parents[node]
    return len(on_paths)


def _size(receivers: int, sizes: Mapping[int, int]) -> int:
    total = 0
    while receivers:
        lowest = receivers & -receivers
        receivers ^= lowest
        total += sizes[lowest.bit_length() - 1]
    return total
