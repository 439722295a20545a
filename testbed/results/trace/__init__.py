"""The trace of a message through a run, and the search for the message by source and number or by content."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from captures.tables.query import Database
from router.predicates import matches, type_of
from router.predicates.parser import parse_message, parse_predicate
from testbed.support.errors import InputError, reading
from testbed.terminal.numbers import counted


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
        live: the run goes on, and evidence may follow.
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


MESSAGE_ID = re.compile(r"(\d+):(\d+)")
_WHOLE = 1 << 64


@dataclass(frozen=True, slots=True)
class Listed:
    """A message in a list; see the table `messages`."""

    source: int
    seq: int
    number: int
    sent_s: float
    expected: int
    delivered: int
    missed: int
    message: str


def message_id(text: str) -> tuple[int, int]:
    """Returns source and number of a name such as 3:17; raises InputError."""
    parsed = MESSAGE_ID.fullmatch(text)
    if parsed is None:
        raise InputError(f"{text}: expected SOURCE:NUMBER, such as 3:17")
    return int(parsed[1]), int(parsed[2])


def listed(database: Database, where: str | None = None, *, missed: bool = False) -> list[Listed]:
    """Returns the messages of a run in order of time.

    Raises:
        InputError: `where` is no predicate.
    """
    rows = database.execute(
        "select source, seq, number, sent_s, deliveries_expected, delivered, missed, message "
        "from messages where missed > 0 or not ? order by sent_s, source, seq",
        [missed],
    ).fetchall()
    messages = [Listed(*row) for row in rows]
    if where is None:
        return messages
    with reading("--where"):
        predicate = parse_predicate(where)
    return [one for one in messages if matches(predicate, parse_message(one.message))]


def type_hint(where: str, texts: Iterable[str]) -> str:
    """Says that messages have an attribute in another type than the predicate asks for; empty: none has."""
    messages = [*map(parse_message, texts)]
    for constraint in (each for filter_ in parse_predicate(where) for each in filter_):
        types = Counter(type_of(each[constraint.name]) for each in messages if constraint.name in each)
        if types and constraint.type not in types:
            kind, count = types.most_common(1)[0]
            return (
                f"no message has {constraint.name} as {constraint.type.name.lower()}; "
                f"{counted(count, 'message')} with {constraint.name} as {kind.name.lower()}"
            )
    return ""


def find(database: Database, text: str) -> Listed:
    """Returns the message `SOURCE:NUMBER`: the router's count (from 1), or the whole sequence number.

    Raises:
        InputError: no message, or several, have this name; lists the candidates.
    """
    source, number = message_id(text)
    of_source = [one for one in listed(database) if one.source == source]
    found = [one for one in of_source if number in (one.number, one.seq % _WHOLE)]
    if len(found) == 1:
        return found[0]
    if found:
        # A restarted router counts from 1.
        choices = ", ".join(f"{one.source}:{one.seq % _WHOLE} (at {one.sent_s:.3f} s)" for one in found)
        raise InputError(f"{text}: {len(found)} messages: {choices}; choose one")
    if not of_source:
        raise InputError(f"{text}: node {source} sent no message")
    numbers = sorted(one.number for one in of_source)
    first, last = f"{source}:{numbers[0]}", f"{source}:{numbers[-1]}"
    raise InputError(f"{text}: no such message; node {source} sent {len(numbers)}, {first} to {last}")
