"""The memory of the routing schemes by the formulas of the slides (part III), on given trees."""

from __future__ import annotations

from collections.abc import Collection, Mapping

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
        tree = forest.trees[source]
        below = [0] * len(tree.parents)
        hops = [0] * len(tree.parents)
        for node in tree.order[1:]:
            hops[node] = hops[tree.parents[node]] + 1
        for node in reversed(tree.order[1:]):
            if node in sizes:
                below[node] |= 1 << node
            below[tree.parents[node]] |= below[node]
            if below[node]:
                shared.add((tree.parents[node], node, below[node]))
        reached = [node for node in tree.order[1:] if node in sizes]
        psf += sum(sizes[node] * hops[node] for node in reached)
        drp += sum(sizes[node] for node in reached)
    ips = sum(_size(receivers, sizes) for _, _, receivers in shared)
    classes = sum(size * _routers_on_paths(forest.trees[node], sources) for node, size in sizes.items())
    pif = sum(size * (len(forest.trees[node].order) - 1) for node, size in sizes.items())
    return {"psf": psf, "ips": ips, "pif": pif, "pif-classes": classes, "drp": drp}


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
