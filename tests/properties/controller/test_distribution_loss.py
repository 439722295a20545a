"""After any losses and failures, every node that is up is finally committed to one correct epoch."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, strategies as st

from captures.rundir.epochs import epochs
from router.wire.frames import COUNTER_BITS, BroadcastTable, Commit, Frame, FrameType, Hello
from router.wire.header import HOST_PORT
from testbed.controller.distribution import Timing
from testbed.controller.events import (
    Action,
    Event,
    FrameReceived,
    Log,
    PortChanged,
    SwitchConnected,
    SwitchDisconnected,
    Tick,
)
from testbed.controller.trees import broadcast_tables, spt_trees
from tests.support.controller_network import Network, acknowledgement
from tests.support.tree_entries import sources_of
from topos.generators import ring

TOPOLOGY = ring(5)
NODES = [node.id for node in TOPOLOGY.nodes]


class LossyNetwork(Network):
    """Routers behind links to the controller that lose frames, both ways."""

    def __init__(self, seed: int, loss: float) -> None:
        super().__init__(TOPOLOGY, Timing())
        self.loss = loss
        self.random = random.Random(seed)
        self.incarnation = dict.fromkeys(NODES, 1)
        self.tables: dict[int, dict[int, BroadcastTable]] = {node: {} for node in NODES}
        self.had_table: dict[int, set[int]] = {}  # by epoch
        self.committed = dict.fromkeys(NODES, 0)
        self.connected: set[int] = set()
        self.cut: set[int] = set()
        self.log: list[dict[str, Any]] = []

    def _answer(self, action: Action) -> list[Event]:
        if isinstance(action, Log):
            self.log.append({"t_ns": round(self.now * 1e9), "event": action.event, **action.fields})
        return super()._answer(action)

    def answers(self, node: int, frame: Frame) -> list[Event]:
        if node not in self.connected or node in self.cut or self.random.random() < self.loss:
            return []
        if frame.seq >> COUNTER_BITS != self.incarnation[node]:
            hello = Frame(FrameType.HELLO, node, 0, 0, 1, Hello(self.incarnation[node]))
            return [FrameReceived(node, hello)] if self.tables[node] else []
        if isinstance(frame.body, BroadcastTable):
            self.tables[node][frame.epoch] = frame.body
            self.had_table.setdefault(frame.epoch, set()).add(node)
        elif isinstance(frame.body, Commit) and frame.epoch:
            if frame.epoch not in self.tables[node]:
                return []  # it has restarted without the table; its HELLO shows this
            # The main property: an epoch is used only once every member has had its table.
            sources = set(sources_of(self.tables[node][frame.epoch]))
            assert sources <= self.had_table[frame.epoch]
            assert frame.body.oldest_epoch <= frame.epoch
            self.committed[node] = frame.epoch
        return [] if self.random.random() < self.loss else [acknowledgement(frame)]

    def say_hello(self, node: int, ago: int = 0) -> None:
        """A HELLO comes, of the present start or of one before it."""
        if node in self.connected - self.cut and self.random.random() >= self.loss:
            self.hello(node, max(1, self.incarnation[node] - ago))

    def connect_switch(self, node: int) -> None:
        self.connected.add(node)
        self.cut.discard(node)  # a switch that connects describes all its ports as up
        self.tell(SwitchConnected(node, self.ports(node)))

    def set_node(self, node: int, up: bool) -> None:
        """Disconnects a router from its switch or connects it."""
        (self.cut.discard if up else self.cut.add)(node)
        self.tell(PortChanged(node, HOST_PORT, up))

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            due = self.machine.next_deadline()
            self.now = min(end, self.now + 0.5, end if due is None else max(due, self.now))
            self.tell(Tick())
            for node in NODES:
                if not self.tables[node]:
                    self.say_hello(node)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("link"), st.integers(0, 4), st.booleans()),
        st.tuples(st.just("switch"), st.integers(0, 4), st.booleans()),
        st.tuples(st.just("restart"), st.integers(0, 4), st.just(True)),
        st.tuples(st.just("node"), st.integers(0, 4), st.booleans()),
        st.tuples(st.just("replay"), st.integers(0, 4), st.booleans()),
        st.tuples(st.just("hears"), st.integers(0, 4), st.booleans()),
        # Sometimes longer than the controller waits for a router.
        st.tuples(st.just("wait"), st.integers(1, 8) | st.integers(120, 130), st.just(True)),
    ),
    max_size=12,
)


@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.2, 0.5]), STEPS)
def test_every_live_router_ends_in_the_same_right_epoch(
    seed: int, loss: float, steps: list[tuple[str, int, bool]]
) -> None:
    network = LossyNetwork(seed, loss)
    for node in NODES:
        network.connect_switch(node)
    down_links: set[int] = set()
    in_use = 0  # the newest epoch that any router was using at a restart
    for kind, number, up in steps:
        if kind == "link":
            link = TOPOLOGY.links[number]
            (down_links.discard if up else down_links.add)(number)
            network.tell(PortChanged(link.u, link.u_port, up))
        elif kind == "switch" and up and number not in network.connected:
            network.connect_switch(number)
            link = next(link for link in TOPOLOGY.links if link.u == number)
            down_links.discard(link.index)  # a switch that connects describes all its ports as up
        elif kind == "switch" and not up:
            network.connected.discard(number)
            network.tell(SwitchDisconnected(number))
        elif kind == "restart":
            in_use = max(in_use, *network.committed.values())
            network.incarnation[number] += 1
            network.tables[number].clear()
            network.committed[number] = 0
        elif kind == "node" and number in network.connected:
            network.set_node(number, up)
        elif kind == "replay":
            network.say_hello(number, 1 + up)
        elif kind == "hears":
            (network.deaf.discard if up else network.deaf.add)(number)
        else:
            network.advance(number / 4)
    for node in NODES:
        if node not in network.connected:
            network.connect_switch(node)
            down_links -= {link.index for link in TOPOLOGY.links if link.u == node}
    network.loss = 0.0
    network.deaf.clear()
    for node in sorted(network.cut):
        network.set_node(node, True)
    network.advance(60)
    (epoch,) = set(network.committed.values())
    assert epoch > in_use, "others may have advertised in this epoch before the restarted router could hear"
    wanted = broadcast_tables(TOPOLOGY, spt_trees(TOPOLOGY, frozenset(down_links)))
    assert {node: network.tables[node].get(epoch) for node in NODES} == wanted
    assert network.machine.next_deadline() is None
    # Readers of the log reach an equal state.
    assert network.machine.settled
    followed = epochs(network.log)
    assert followed.settled
    assert (followed.down_links, followed.down_nodes) == (down_links, set())
