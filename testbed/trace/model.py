"""What a trace says."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Receiver:
    """An application that the oracle speaks of, or that got the message.

    Attributes:
        delay_s: wall seconds from the request to send until its first delivery; None: it did not get it.
        times: how often it did.
        expected, decided: by the oracle.
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
    """Why a router did not send the message on through an interface of the source's tree.

    Attributes:
        predicate: p_i in the readable notation; `none`: nothing known behind the interface.
        known: whence it is: `recording` (as the router had it when it took the message) or `end` (as the run
            ended with it: it may have changed); None: neither is there, and `predicate` is None.
        matches: whether it selects the message; of a recording that would be a fault.
        beyond: the nodes that the tree has behind the interface, the neighbour first.
    """

    predicate: str | None
    known: str | None
    matches: bool | None
    beyond: list[int]


@dataclass(slots=True)
class Branch:
    """An interface through which the source's tree leaves a router.

    Attributes:
        to: the neighbour; None: the captures do not name it.
        sent: the router sent it there, by the port bitmap of its frame.
        crossed_s: when it was captured on the link, wall seconds after the request to send; None: never.
        crossings: how often each of its frames was; 1 is right.
        off_tree: the neighbour drops what comes from here (reverse-path forwarding).
        pruned: why it was not sent; None: it was.
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
        parent: the router before it; None at the source.
        hop: links from the source.
        arrived_s: when it was captured on its way into the router, wall seconds after the request to send
            (at the source: 0); None: it did not get there.
        dropped: why the router dropped it, as its recording says; None: it did not, or nothing is recorded.
        recorded: the router's recording holds the message.
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
    """One message.

    Attributes:
        number: low half of `seq`.
        sent_s: when it was sent, experiment seconds.
        epoch: that its frames carry; None: no frame of it was captured.
        tree_known: the epoch's tables were captured; otherwise only links that it crossed appear.
        stops: the routers, the source first, each after the one that it came from.
        unreached: receivers at nodes that it did not reach, by node.
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
