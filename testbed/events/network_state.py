"""Which links and nodes of a network are down."""

from __future__ import annotations

from topos.model import Link, Topology


class NetworkState:
    """The links and nodes that faults have taken down, and so the links that are up.

    Args:
        topology: of the network; everything is up to begin with.

    Attributes:
        down_nodes: the nodes that are down.
    """

    def __init__(self, topology: Topology) -> None:
        self._links = {frozenset((link.u, link.v)): link for link in topology.links}
        self._taken_down: set[int] = set()
        self.down_nodes: set[int] = set()

    def set_link(self, u: int, v: int, up: bool) -> Link:
        """Notes that a link is taken down or up; returns it.

        Raises:
            ValueError: the nodes are not joined.
        """
        link = self._links.get(frozenset((u, v)))
        if link is None:
            raise ValueError(f"no link {u}-{v}")
        (self._taken_down.discard if up else self._taken_down.add)(link.index)
        return link

    def set_node(self, node: int, up: bool) -> list[Link]:
        """Notes that a node is cut off or joined; returns its links, by index."""
        (self.down_nodes.discard if up else self.down_nodes.add)(node)
        return [link for link in self._links.values() if node in (link.u, link.v)]

    def is_up(self, link: Link) -> bool:
        """Whether neither a link nor one of its nodes is down."""
        return link.index not in self._taken_down and not {link.u, link.v} & self.down_nodes

    @property
    def down_links(self) -> set[int]:
        """Indices of the links that are down, by themselves or because of a node."""
        return {link.index for link in self._links.values() if not self.is_up(link)}
