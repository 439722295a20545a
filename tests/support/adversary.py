"""Random networks, predicates and interleavings in search of a message that is lost, doubled or spurious.

One seed is one case. Frames of the controller are late, repeated, out of order, and of epochs that were
abandoned; links fail and return; routers restart; hop limits are short. Expectations come from an evaluation
of predicates of this module and from shortest paths of networkx, neither of which is the testbed's.
"""

from __future__ import annotations

import operator
import random
from collections import Counter
from collections.abc import Callable

import networkx as nx

from router.predicates import Constraint, Filter, Message, Operator, Predicate
from router.protocol.options import RouterOptions
from router.wire.frames import FrameType
from tests.support.protocol_network import Graph, Network, integer, path, random_graph

Link = tuple[int, int]

_COMPARE: dict[Operator, Callable[[int, int], bool]] = {
    Operator.EQ: operator.eq,
    Operator.NE: operator.ne,
    Operator.LT: operator.lt,
    Operator.GT: operator.gt,
}
#: The last is no limit for these networks.
_HOP_LIMITS = (1, 2, 3, 4, 5, 64)


def attack(seed: int, scheme: str = "pif") -> str | None:
    """Plays the case of a seed, with routers of one scheme.

    Returns the counterexample in words; None: there is none.
    """
    rng = random.Random(seed)
    nodes = rng.randint(2, 8)
    graph = random_graph(rng, nodes, rng.randrange(7))
    options = RouterOptions(
        scheme=scheme,
        hop_limit=rng.choice(_HOP_LIMITS),
        ur_reuse=rng.random() < 0.5,
        max_filters=rng.choice((None, None, 1, 2)) if scheme == "pif" else None,
        readvertise_jitter_s=rng.choice((0.0, 0.02)),
        sr_timeout_s=1.0,
        ur_freshness_s=3.0,
    )
    network = Network(graph, options, seed)
    network.reordering = rng.random() < 0.5
    controller = _Controller(network, rng)
    controller.start_epoch(())
    for _ in range(rng.randrange(5, 50)):
        _act(rng, network, controller)
    down = _some_links(rng, graph) if rng.random() < 0.3 else ()
    controller.finish(down)
    network.settle()
    return first_wrong_delivery(rng, network, graph, down, options.hop_limit)


def _act(rng: random.Random, network: Network, controller: _Controller) -> None:
    node = rng.choice(sorted(network.routers))
    what = rng.random()
    if what < 0.35:
        network.set_predicate(node, random_predicate(rng))
    elif what < 0.5:
        network.request_update(node)
    elif what < 0.58:
        controller.start_epoch(_some_links(rng, network.graph) if rng.random() < 0.7 else ())
    elif what < 0.61:
        controller.restart(node)
    elif what < 0.85:
        for _ in range(rng.randrange(2 * len(network.routers))):
            controller.step()
    else:
        network.wait(rng.choice((0.0, 0.01, 0.5)))
    for _ in range(rng.choice((0, 1, 3, 10, 40))):
        network.step()


def _some_links(rng: random.Random, graph: Graph) -> tuple[Link, ...]:
    links = list(graph.edges)
    return tuple(rng.sample(links, rng.randint(0, min(3, len(links)))))


class _Controller:
    """Hands out TABLEs and COMMITs, each at any time after it is due, and any number of times.

    A COMMIT is due once every router has acknowledged the TABLE of its epoch.
    """

    def __init__(self, network: Network, rng: random.Random) -> None:
        self._network = network
        self._rng = rng
        #: Frames on their way: node, type, epoch, oldest epoch in use.
        self._under_way: list[tuple[int, FrameType, int, int]] = []
        self._missing: set[tuple[int, FrameType]] = set()
        self._committed = 0

    def start_epoch(self, down: tuple[Link, ...]) -> None:
        """Abandons the epoch before, if it is not committed everywhere: its frames stay on their way."""
        self._network.start_epoch(down)
        self._send(FrameType.TABLE)

    def restart(self, node: int) -> None:
        """A router restarts: all routers get a new epoch."""
        self._network.forget(node)
        self.start_epoch(self._network.down)

    def _send(self, kind: FrameType) -> None:
        epoch = self._network.epoch
        for node in self._network.routers:
            self._under_way.append((node, kind, epoch, self._committed or epoch))
            self._missing.add((node, kind))
        if kind is FrameType.TABLE:
            self._missing = {(node, kind) for node in self._network.routers}

    def step(self) -> None:
        """Delivers any frame that is on its way; some come another time."""
        if not self._under_way:
            return
        position = self._rng.randrange(len(self._under_way))
        node, kind, epoch, oldest = frame = self._under_way.pop(position)
        acknowledged = self._network.tell(node, kind, epoch, oldest)
        current = epoch == self._network.epoch
        if self._rng.random() < 0.2 or (current and not acknowledged):
            self._under_way.append(frame)
        if not current or (node, kind) not in self._missing or not acknowledged:
            return
        self._missing.remove((node, kind))
        if self._missing:
            return
        if kind is FrameType.TABLE:
            self._send(FrameType.COMMIT)
        else:
            self._committed = epoch

    def finish(self, down: tuple[Link, ...]) -> None:
        """Commits a last epoch everywhere, and delivers all that is late."""
        self.start_epoch(down)
        while self._under_way:
            self.step()
            for _ in range(self._rng.choice((0, 0, 1, 5))):
                self._network.step()


def random_predicate(rng: random.Random) -> Predicate:
    """A predicate of up to two filters on the attributes a and b, whose values go from 0 to 3."""

    def constraint() -> Constraint:
        return integer(rng.choice("ab"), rng.choice(sorted(_COMPARE)), rng.randrange(4))

    def one_filter() -> Filter:
        constraints = (constraint() for _ in range(rng.choice((0, 1, 1, 1, 2, 2))))
        return Filter(tuple(dict.fromkeys(constraints)))

    return Predicate(tuple(dict.fromkeys(one_filter() for _ in range(rng.choice((0, 1, 1, 1, 2))))))


def _selects(predicate: Predicate, attributes: dict[str, int]) -> bool:
    return any(
        all(
            test.name in attributes and _COMPARE[test.operator](attributes[test.name], test.value)  # type: ignore[arg-type]
            for test in filter_
        )
        for filter_ in predicate
    )


def first_wrong_delivery(
    rng: random.Random, network: Network, graph: Graph, down: tuple[Link, ...], hop_limit: int
) -> str | None:
    """Sends some messages from each node.

    Returns the first message that did not arrive exactly once at each node that selects it and is within the
    hop limit, in words; None: there is none.
    """
    hops = _hops_on_trees(graph, down)
    for source in network.routers:
        for _ in range(3):
            attributes = {name: rng.randrange(-1, 5) for name in rng.choice(("a", "b", "ab"))}
            sent = network.send(source, Message(attributes))
            network.settle()
            expected = Counter(
                node
                for node, predicate in network.predicates.items()
                if hops[source].get(node, hop_limit + 1) <= hop_limit and _selects(predicate, attributes)
            )
            if network.delivered[sent] != expected:
                return (
                    f"hop limit {hop_limit}, links {list(graph.edges)} without {list(down)}: {attributes} of "
                    f"node {source} must reach {sorted(expected)}, and reached "
                    f"{sorted(network.delivered[sent].elements())}"
                )
    return None


def _hops_on_trees(graph: Graph, down: tuple[Link, ...]) -> dict[int, dict[int, int]]:
    """Source -> node that it reaches -> hops on the source's tree."""
    alive = graph.copy()
    alive.remove_edges_from(down)
    return {
        source: {
            node: len(path(alive, source, node)) - 1 for node in nx.node_connected_component(alive, source)
        }
        for source in alive
    }
