"""Networks in memory whose routers set predicates and request updates; the check of their tables."""

from __future__ import annotations

from itertools import product

from hypothesis import strategies as st

from router.predicates.model import NOTHING, Message, Predicate, matches
from router.protocol.options import RouterOptions
from tests.support.predicate_cases import PREDICATES
from tests.support.protocol_network import Network
from tests.support.router_tables import about

#: Two messages of this list differ for any two predicates of `PREDICATES` that do not match the same.
PROBES = [
    Message({name: value for name, value in (("a", a), ("b", b)) if value is not None})
    for a, b in product((None, *range(-1, 5)), repeat=2)
]

OPTIONS = RouterOptions(sr_timeout_s=1.0, ur_freshness_s=3.0)

#: What a router does at a time: set a predicate, or ask (None).
STEPS = st.lists(st.tuples(st.integers(0, 8), st.none() | PREDICATES), max_size=14)


def selected(predicate: Predicate) -> list[bool]:
    return [matches(predicate, message) for message in PROBES]


def behind(network: Network, node: int, neighbour: int, source: int | None = None) -> list[int]:
    """The nodes behind the link from `node` to `neighbour`, from the tables of the controller alone.

    Args:
        source: those on the tree of this node; None: on the tree of `node`.
    """
    interface = next(i for i, other in network.routers[node].interfaces().items() if other == neighbour)
    found = [
        root for root in network.routers if root != node and network.parent_interface(node, root) == interface
    ]
    if source is None:
        return found
    table = network.tables[node]
    assert table.subtrees is not None
    below = table.subtrees[table.class_of[source] - 1]
    return [root for root in found if below[table.class_of[root] - 1]]


def table_errors(network: Network, exact: bool) -> list[str]:
    """Returns the places where a table lacks a node's predicate, or (`exact`) has more than all
    predicates.

    A table that keeps classes of nodes apart is compared for each source of messages.
    """
    wrong = []
    for node, router in network.routers.items():
        sources: list[int | None] = [None]
        if network.options.scheme == "pif-classes":
            class_of = network.tables[node].class_of
            sources = [each for each in network.routers if each < class_of.size and class_of[each]]
        for source in sources:
            table = about(router.rows(), source)
            for interface, neighbour in router.interfaces().items():
                has = selected(table.get(interface, NOTHING))
                nodes = behind(network, node, neighbour, source)
                wanted = [selected(network.predicates.get(other, NOTHING)) for other in nodes]
                wants = [any(column) for column in zip(*wanted, strict=True)] or [False] * len(PROBES)
                for message, has_it, wants_it in zip(PROBES, has, wants, strict=True):
                    if wants_it and not has_it:
                        wrong.append(f"{node}, of {source}: behind {neighbour} {dict(message)} is missing")
                    elif exact and has_it and not wants_it:
                        wrong.append(f"{node}, of {source}: behind {neighbour} {dict(message)} is too much")
    return wrong


def play(network: Network, steps: list[tuple[int, Predicate | None]]) -> None:
    nodes = len(network.routers)
    for node, predicate in steps:
        if predicate is None:
            network.request_update(node % nodes)
        else:
            network.set_predicate(node % nodes, predicate)
        network.some_steps()
