"""A network of protocol cores in memory: links are queues, and a random source selects the next frame."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import TypeAlias

import networkx as nx

from router.predicates import Constraint, Filter, Message, Operator, Predicate, Type
from router.protocol.core.layers import make_router
from router.protocol.core.router import Layer, Router
from router.protocol.events import (
    Action,
    ControllerFrame,
    Deliver,
    Event,
    FrameReceived,
    RequestUpdate,
    Send,
    SendMessage,
    SendToController,
    SetPredicate,
    Settle,
    Started,
    Tick,
)
from router.protocol.options import RouterOptions, content_of
from router.wire.frames import BroadcastTable, Commit, Frame, FrameType
from testbed.controller.trees import LAYERS, broadcast_tables
from tests.support.tree_entries import entries_of
from topos import Link, Node, Topology

#: Edge attributes: `cost`, and `index` among the links of the topology.
Graph: TypeAlias = nx.Graph
#: More links than any network of tests has.
_LINKS = 64


def graph_of(links: list[tuple[int, int, int]]) -> Graph:
    """A graph from (u, v, cost), in order of index."""
    graph = nx.Graph()
    for index, (u, v, cost) in enumerate(links):
        graph.add_edge(u, v, cost=cost, index=index)
    return graph


def random_graph(rng: random.Random, nodes: int, extra_links: int) -> Graph:
    """A connected graph: a random tree and some links more, with small costs so that paths often tie."""
    links = {(rng.randrange(node), node) for node in range(1, nodes)}
    while nodes > 2 and extra_links > 0:
        u, v = sorted(rng.sample(range(nodes), 2))
        links.add((u, v))
        extra_links -= 1
    ordered = sorted(links)
    rng.shuffle(ordered)
    return graph_of([(u, v, rng.randint(1, 3)) for u, v in ordered])


def links_on_cycles(graph: Graph) -> list[tuple[int, int]]:
    """The links without any one of which the graph is connected."""
    bridges = {frozenset(link) for link in nx.bridges(graph)}
    return [link for link in graph.edges if frozenset(link) not in bridges]


def path(graph: Graph, source: int, node: int) -> list[int]:
    """The one shortest path, by cost and the rule for ties of the broadcast layer."""
    found: list[int] = nx.dijkstra_path(
        graph, source, node, lambda _u, _v, data: data["cost"] << _LINKS | 1 << data["index"]
    )
    return found


def topology_of(graph: Graph) -> Topology:
    """The topology of a graph; each node numbers its interfaces from 1 in order of link index."""
    used: Counter[int] = Counter()
    links: list[Link] = []
    for u, v, data in sorted(graph.edges(data=True), key=lambda edge: edge[2]["index"]):
        used.update((u, v))
        links.append(Link(u, v, data["cost"], index=len(links), u_port=used[u], v_port=used[v]))
    return Topology("graph", tuple(map(Node, range(max(graph) + 1))), tuple(links))


def tables_of(layer: str, full: Graph, alive: Graph) -> dict[int, BroadcastTable]:
    """Every node's part in the trees of `alive`, as a controller with this broadcast layer computes it.

    Interfaces keep the numbers that they have in the full graph.
    """
    topology = topology_of(full)
    down = frozenset(link.index for link in topology.links if not alive.has_edge(link.u, link.v))
    missing = frozenset(range(len(topology.nodes))) - set(full)
    return broadcast_tables(topology, LAYERS[layer](topology, down, missing), subtrees=True)


class Network:
    """Routers on a graph, set up by a controller that this class plays.

    Attributes:
        loss: probability that a frame of a router is lost on its link.
        background: is called between the frames that announce a new epoch to routers.
        options: of every router.
        reordering: frames of one link overtake each other at random.
        delivered: (source, seq) -> node -> number of deliveries of the message.
        layer: name of the broadcast layer.
        down: links that are down.
        frames: frames that crossed each directed link, by type.
    """

    def __init__(self, graph: Graph, options: RouterOptions, seed: int, matcher: str = "naive") -> None:
        self.graph = graph
        self.now = 0.0
        self.epoch = 0
        self.rng = random.Random(seed)
        self._incarnations = dict.fromkeys(sorted(graph), 1)
        self.options = options
        self._seed = seed
        self._matcher = matcher
        self._outermost: dict[int, Layer] = {}
        self.routers: dict[int, Router] = {}
        for node in sorted(graph):
            self._make_router(node)
        self.tables: Mapping[int, BroadcastTable] = {}
        self._tables_of_epoch: dict[int, Mapping[int, BroadcastTable]] = {}
        self.delivered: dict[tuple[int, int], Counter[int]] = {}
        self.frames: Counter[tuple[int, int, FrameType]] = Counter()
        self.predicates: dict[int, Predicate] = {}
        self.background: Callable[[], None] | None = None
        self.loss = 0.0
        self.reordering = False
        self.layer = "spt"
        self.down: tuple[tuple[int, int], ...] = ()
        self._alive = graph.copy()
        topology = topology_of(graph)
        self._neighbour = {node: topology.neighbours(node) for node in graph}
        self._queues: dict[tuple[int, int], deque[Frame]] = {}
        for node in self.routers:
            self.handle(node, Started())

    def handle(self, node: int, event: Event) -> list[Action]:
        actions = self._outermost[node].handle(event, self.now)
        # What the router knows of its deadlines is what a look at all its parts finds.
        router = self.routers[node]
        known, router._parts.changed = router.next_deadline(), True
        assert router.next_deadline() == known, event
        for action in actions:
            if isinstance(action, Send):
                assert action.interfaces and 0 not in action.interfaces
                for interface in action.interfaces:
                    other = self._neighbour[node][interface]
                    # A frame into a link that is down is lost.
                    if self._alive.has_edge(node, other):
                        self._queues.setdefault((node, other), deque()).append(action.frame)
                        self.frames[node, other, action.frame.type] += 1
            elif isinstance(action, Deliver):
                assert action.apps
                self.delivered.setdefault((action.source, action.seq), Counter())[node] += 1
        return actions

    def step(self) -> bool:
        """Delivers (or loses) the next frame of a random link.

        Returns False if no frame is under way.
        """
        busy = [link for link, queue in self._queues.items() if queue]
        if not busy:
            return False
        sender, receiver = self.rng.choice(busy)
        queue = self._queues[sender, receiver]
        if self.reordering:
            queue.rotate(self.rng.randrange(len(queue)))
        frame = queue.popleft()
        if self.loss and self.rng.random() < self.loss:
            return True
        self.handle(receiver, FrameReceived(sender, frame))
        return True

    def some_steps(self) -> None:
        for _ in range(self.rng.randrange(6)):
            self.step()

    def wait(self, seconds: float) -> None:
        self.now += seconds
        for node in self.routers:
            self.handle(node, Tick())

    def settle(self) -> None:
        """Runs until no frame is under way and no router has one to send."""
        while True:
            while self.step():
                pass
            waiting = [router for router in self._outermost.values() if not router.idle]
            if not waiting:
                return
            deadlines = (router.next_deadline() for router in waiting)
            self.now = max(self.now, min(at for at in deadlines if at is not None))
            for node in self.routers:
                self.handle(node, Tick())

    def settle_all(self) -> None:
        """Stops the periodic sending of all routers; runs until the network is quiet."""
        for node in self.routers:
            self.handle(node, Settle())
        self.settle()

    def new_epoch(self, down: tuple[tuple[int, int], ...] = ()) -> None:
        """Takes links down, distributes the new trees, then commits; frames move between all that."""
        self.start_epoch(down)
        self._tell_all(FrameType.TABLE)
        self._tell_all(FrameType.COMMIT)

    def start_epoch(self, down: tuple[tuple[int, int], ...] = ()) -> None:
        """Takes links down and computes the new trees; no router hears of them yet."""
        self.down = down
        self._alive = self.graph.copy()
        self._alive.remove_edges_from(down)
        for u, v in down:
            self._queues.pop((u, v), None)
            self._queues.pop((v, u), None)
        self.epoch += 1
        self.tables = self._tables_of_epoch[self.epoch] = tables_of(self.layer, self.graph, self._alive)

    def tell(self, node: int, kind: FrameType, epoch: int, oldest: int | None = None) -> bool:
        """Hands a router the TABLE or COMMIT of an epoch.

        Returns whether it was acknowledged.

        Args:
            oldest: of a COMMIT: the oldest epoch in use; by default the one before.
        """
        body: BroadcastTable | Commit = Commit(max(1, epoch - 1) if oldest is None else oldest)
        if kind is FrameType.TABLE:
            body = self._tables_of_epoch[epoch][node]
        actions = self.handle(
            node, ControllerFrame(Frame(kind, node, self._incarnations[node] << 32 | epoch, epoch, 1, body))
        )
        return any(isinstance(action, SendToController) for action in actions)

    def _tell_all(self, kind: FrameType) -> None:
        nodes = list(self.tables)
        self.rng.shuffle(nodes)
        for node in nodes:
            assert self.tell(node, kind, self.epoch)
            if self.background is not None:
                self.background()
            self.some_steps()

    def set_predicate(self, node: int, predicate: Predicate) -> None:
        self.predicates[node] = predicate
        self.handle(node, SetPredicate(1, predicate))

    def _make_router(self, node: int) -> None:
        self._outermost[node] = made = make_router(
            node,
            self.options,
            content_of(self.options.covering, self.options.privacy).matcher(self._matcher),
            self._incarnations[node],
            random.Random(f"{self._seed}/{node}"),
        )
        self.routers[node] = made.core

    def forget(self, node: int) -> None:
        """Replaces a router by one that has a greater incarnation and no table."""
        self._incarnations[node] += 1
        self._make_router(node)
        self.predicates.pop(node, None)
        self.handle(node, Started())

    def restart(self, node: int) -> None:
        """Replaces a router as `forget` does; the controller answers with a new epoch."""
        self.forget(node)
        self.new_epoch()

    def request_update(self, node: int) -> None:
        self.handle(node, RequestUpdate())

    def neighbours(self, node: int) -> Mapping[int, int]:
        """Interface -> neighbouring node, whether the link is up or not."""
        return self._neighbour[node]

    def parent_interface(self, node: int, root: int) -> int | None:
        """The interface of `node` that leads to `root` on the root's tree; None if there is no path."""
        return next((each.parent for each in entries_of(self.tables[node]) if each.source == root), None)

    def deliver(self, sender: int, receiver: int, kind: FrameType) -> None:
        """Delivers the frames of one type that wait on a link."""
        for frame in self._take(sender, receiver, kind):
            self.handle(receiver, FrameReceived(sender, frame))

    def lose(self, sender: int, receiver: int, kind: FrameType) -> None:
        """Loses the frames of one type that wait on a link."""
        self._take(sender, receiver, kind)

    def _take(self, sender: int, receiver: int, kind: FrameType) -> list[Frame]:
        queue = self._queues.get((sender, receiver), deque())
        taken = [frame for frame in queue if frame.type is kind]
        assert taken, f"no {kind.name} waits between {sender} and {receiver}"
        self._queues[sender, receiver] = deque(frame for frame in queue if frame.type is not kind)
        return taken

    def send(self, node: int, message: Message) -> tuple[int, int]:
        """Sends a message; returns (source, seq)."""
        accepted = self.handle(node, SendMessage(1, message))[0]
        identifiers = accepted.source, accepted.seq  # type: ignore[union-attr]
        self.delivered.setdefault(identifiers, Counter())
        return identifiers

    def dropped(self) -> Counter[str]:
        total: Counter[str] = Counter()
        for router in self.routers.values():
            total.update(router.counters.dropped)
        return total


def integer(name: str, operator: Operator, value: int) -> Constraint:
    return Constraint(name, Type.INTEGER, operator, value)


def one(*constraints: Constraint) -> Predicate:
    return Predicate((Filter(constraints),))
