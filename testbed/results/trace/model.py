"""The content of a trace."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Receiver:
    """An application that the oracle has judged, or that received the message.

    Attributes:
        delay_s: wall seconds from the request to send until its first delivery; None: it did not receive the
            message.
        times: number of deliveries.
        expected, decided: the oracle's answer.
    """

    app: str
    delay_s: float | None
    times: int
    expected: bool
    decided: bool

    @property
    def missed(self) -> bool:
        return self.expected and self.delay_s is None


@dataclass(slots=True)
class Pruned:
    """The reason why a router did not forward the message through an interface of the source's tree.

    Attributes:
        predicate: p_i in the readable notation; `none`: no predicate is known behind the interface.
        known: origin of the predicate: `recording` (when the router received the message), `end` (at the
            end of the run: it may have changed) or `now` (of a live run, as `end`); None: neither exists, and
            `predicate` is None.
        matches: whether the predicate selects the message, which is a fault if it is from a recording.
        beyond: the nodes of the tree behind the interface, the neighbour first.
    """

    predicate: str | None
    known: str | None
    matches: bool | None
    beyond: list[int]


@dataclass(slots=True)
class Branch:
    """An interface through which the source's tree leaves a router.

    Attributes:
        to: the neighbour; None: not in the captures.
        sent: the router sent the message to the neighbour, by the port bitmap of its frame.
        crossed_s: time of its capture on the link, wall seconds after the request to send; None: not
            captured.
        crossings: number of captures of each of its frames; 1 is correct.
        off_tree: the neighbour drops frames from this router (reverse-path forwarding).
        pruned: the reason why it was not sent; None: it was sent.
    """

    interface: int
    to: int | None
    sent: bool
    crossed_s: float | None
    crossings: int
    off_tree: bool
    pruned: Pruned | None


@dataclass(slots=True)
class Stop:
    """A router that the message reached, or was sent to.

    Attributes:
        parent: the router before this router; None at the source.
        hop: links from the source.
        arrived_s: time of its capture on the way into the router, wall seconds after the request to send (at
            the source: 0); None: it did not arrive.
        dropped: the reason why the router dropped it, from the recording; None: not dropped, or not recorded.
        recorded: the router's recording has the message.
    """

    node: int
    parent: int | None
    hop: int
    arrived_s: float | None
    dropped: str | None = None
    recorded: bool = False
    receivers: list[Receiver] = field(default_factory=list)
    branches: list[Branch] = field(default_factory=list)


@dataclass(slots=True)
class Trace:
    """The trace of a message.

    Attributes:
        number: low half of `seq`.
        sent_s: time of sending, experiment seconds.
        epoch: epoch of its frames; None: no frame was captured.
        tree_known: the epoch's tables were captured; otherwise the trace has only links that the message
            crossed.
        stops: the routers, the source first, each router after its parent.
        unreached: receivers at nodes that the message did not reach, by node.
        names: names of the nodes that have one.
        live: the run goes on, and evidence may follow.
        judged: the oracle has judged the message.
    """

    source: int
    seq: int
    number: int
    message: str
    sent_s: float
    sent_ns: int
    epoch: int | None
    tree_known: bool
    stops: list[Stop]
    unreached: dict[int, list[Receiver]]
    names: dict[int, str] = field(default_factory=dict)
    live: bool = False
    judged: bool = True

    def host(self, node: int) -> str:
        """The host of a node, followed by its name if it has one: `r3 Berlin`."""
        return f"r{node} {self.names[node]}" if node in self.names else f"r{node}"
