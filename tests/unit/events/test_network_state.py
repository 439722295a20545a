"""The links and nodes that are down."""

from __future__ import annotations

import pytest

from testbed.experiments.events.network import NetworkState
from topos.generators import ring


def test_a_link_is_up_if_neither_it_nor_one_of_its_nodes_is_down() -> None:
    topology = ring(4)
    state = NetworkState(topology)
    link = state.set_link(1, 0, up=False)
    assert (link.u, link.v) == (0, 1)
    assert [link.index for link in state.set_node(0, up=False)] == [0, 3]
    assert (state.down_links, state.down_nodes) == ({0, 3}, {0})
    state.set_link(0, 1, up=True)
    assert not state.is_up(link), "node 0 is down"
    state.set_link(0, 1, up=False)
    state.set_node(0, up=True)
    assert (state.down_links, state.down_nodes) == ({0}, set())
    state.set_link(0, 1, up=True)
    assert state.is_up(link)


def test_a_link_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="no link 0-2"):
        NetworkState(ring(4)).set_link(0, 2, up=False)
