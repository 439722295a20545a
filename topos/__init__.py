"""Topologies: nodes, undirected links, and the numbering of router interfaces; loaders and seeded generators.

Standard library only: plain Mininet (the system's Python) loads it through `mn --custom`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from router.options import Option, Unit, option, options_of, percent, setting

#: A link with a bandwidth is a token bucket (TBF), emulated and simulated: bytes that may leave at once, at
#: least one full frame, and the longest wait of a frame, in seconds.
TBF_BURST_BYTES = 16_384
TBF_LATENCY_S = 0.4


class TopologyError(ValueError):
    """A topology that cannot be used; the message names file, line or field and what was expected."""


@dataclass(frozen=True)
class Node:
    """A node.

    None means: wherever a drawing puts it; no name. A name is unique in its topology.
    """

    id: int = field(metadata=option("Number of the node; without any, its place.", low=0))
    x: float | None = setting(None, "Abscissa of the node in drawings.")
    y: float | None = setting(None, "Ordinate of the node in drawings.")
    name: str | None = setting(None, "Name of the node, by which links and events may name it.")


@dataclass(frozen=True, kw_only=True)
class LinkProperties:
    """[links]: for links that declare nothing of their own."""

    loss_percent: float | None = percent(None, "Frames lost in each direction, at random.")
    bandwidth_mbps: float | None = setting(
        None, "Bandwidth in each direction.", low=0, above_low=True, unit=Unit.MBIT_PER_SECOND
    )
    delay_ms: float | None = setting(
        None, "Delay of one direction; an emulation needs sch_netem.", low=0, unit=Unit.MILLISECONDS
    )
    jitter_ms: float | None = setting(
        None, "Greatest deviation from `delay_ms`, at random; at most it.", low=0, unit=Unit.MILLISECONDS
    )
    reorder_percent: float | None = percent(
        None, "Frames that are not delayed, and so overtake; needs `delay_ms`."
    )
    duplicate_percent: float | None = percent(None, "Frames that arrive twice, at random.")


#: The properties of a link that a run may change while it is in use.
PROPERTIES = {each.key: each for each in options_of(LinkProperties)}


@dataclass(frozen=True)
class LinkSpec(LinkProperties):
    """An undirected link between nodes `u` and `v`, before it has an index and ports.

    None means: not limited, not delayed, not lossy.
    """

    u: int = field(metadata=option("An end of the link.", low=0, node=True))
    v: int = field(metadata=option("The other end.", low=0, node=True))
    cost: int = setting(
        1, "Broadcast trees minimise its sum; the costs of all links add up to at most 2^62 - 1.", low=1
    )


@dataclass(frozen=True, kw_only=True)
class Link(LinkSpec):
    """A link of a topology.

    Attributes:
        index: position in the topology's list of links; breaks ties between equal-cost paths.
        u_port, v_port: interface number of this link at `u` and at `v` (equal to the switch port).
    """

    index: int
    u_port: int
    v_port: int

    @property
    def lossy(self) -> bool:
        """Whether other frames arrive than are sent, on purpose: the link loses or doubles some."""
        return bool(self.loss_percent or self.duplicate_percent)


@dataclass(frozen=True)
class Topology:
    """A connected, simple, undirected graph.

    Node ids are 0..n-1; links are sorted by index. `notes` are sentences about what the loader of a file left
    out.
    """

    name: str
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    notes: tuple[str, ...] = field(default=(), compare=False)

    def __hash__(self) -> int:
        # Without the links, of which there are thousands: a cache of trees is asked for each pair of nodes.
        return hash((self.name, len(self.nodes), len(self.links)))

    @property
    def ids(self) -> dict[str, int]:
        """Name -> id, of the nodes that have a name."""
        return {node.name: node.id for node in self.nodes if node.name is not None}

    def label(self, node: int) -> str:
        """The number of a node, followed by its name if it has one: `3 Berlin`."""
        name = self.nodes[node].name
        return str(node) if name is None else f"{node} {name}"

    def cut(self, shares: Iterable[Iterable[int]]) -> frozenset[Link]:
        """The links between machines, by the nodes of each machine; none: a machine has them all."""
        at = {node: number for number, share in enumerate(shares) for node in share}
        return frozenset(link for link in self.links if at.get(link.u) != at.get(link.v))

    def neighbours(self, node: int) -> dict[int, int]:
        """Interface number -> neighbouring node, of one node."""
        found: dict[int, int] = {}
        for link in self.links:
            if link.u == node:
                found[link.u_port] = link.v
            elif link.v == node:
                found[link.v_port] = link.u
        return found


def checked(where: str, option: Option, value: object) -> Any:
    """Returns the value of an option; `where` begins the error.

    Raises:
        TopologyError: the value is not valid.
    """
    try:
        return option.convert(value)
    except ValueError as error:
        raise TopologyError(f"{where}{option.key}: {error}") from None


def unknown(kind: str, name: str, known: Iterable[str], listed: str = "") -> str:
    """Says that `name` is not a known `kind` ("key", "generator"), and what was probably meant.

    Args:
        listed: text of the known names, where a list of them all would be long.

    >>> unknown("key", "time_scal", ["time_scale", "seed"])
    "unknown key 'time_scal'; did you mean 'time_scale'?"
    """
    choices = sorted(known)
    near = get_close_matches(name, choices, n=1)
    if near:
        return f"unknown {kind} '{name}'; did you mean '{near[0]}'?"
    return f"unknown {kind} '{name}'; expected one of: {listed or ', '.join(choices)}"
