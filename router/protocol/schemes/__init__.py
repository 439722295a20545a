"""Routing schemes, and flooding: what RAs and URs mean, and where a message goes.

The protocol paper's forwarding function (section 3.3) is (B(source, incoming interface) with I0) intersected
with F_C(m). A scheme decides what stands in the place of F_C, and how its tables come about.
`router.protocol.options.SCHEMES` has the schemes by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, ClassVar

from router.options import NoOptions
from router.predicates import Filter, Predicate
from router.predicates.encoded import BloomPredicate
from router.predicates.printer import format_predicate
from router.protocol.broadcast import Branch, EpochTable
from router.protocol.context import Context, Part
from router.protocol.events import Action, Send
from router.protocol.routing import RoutingTable
from router.records import MessageFrames
from router.wire import private
from router.wire.frames import Frame
from router.wire.header import LOCAL_INTERFACE

_LOCAL = frozenset({LOCAL_INTERFACE})


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where a message goes on to: link interfaces, and whether p0 selects it."""

    interfaces: frozenset[int]
    local: bool


class TablePart(StrEnum):
    """The part of a router's memory that a row is of."""

    #: The predicate of the local applications, p0.
    LOCAL = "local"
    #: What messages are matched against to find where they go: the M(Fwd) of the slides.
    FORWARDING = "forwarding"
    #: What the forwarding state is made of, if it is kept beside it: the predicates of other nodes.
    RIB = "rib"


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a routing table.

    Attributes:
        interface: the interface that messages leave by; 0: the local applications; None: the row is about no
            single interface (such as the predicate of a remote node).
        scope: the messages that the row is about, in words; empty: all messages.
        predicate: a message that matches it leaves by the interface.
        part: the part of the table.
        sources: the sources of the messages that the row is about; None: all.
        copies: whether the table holds the predicate for each of the sources separately.
    """

    interface: int | None
    scope: str
    predicate: Predicate
    part: TablePart = TablePart.FORWARDING
    sources: tuple[int, ...] | None = None
    copies: bool = False

    def as_json(self, filter_text: Callable[[Filter], str] | None = None) -> dict[str, Any]:
        """The row with its predicate in the readable notation; an encoded one also as bytes.

        Args:
            filter_text: formats a filter, as of `format_predicate`.
        """
        encoded = {}
        if isinstance(self.predicate, BloomPredicate):
            encoded["encoded"] = private.encode_predicate(self.predicate).hex()
        return {
            "interface": self.interface,
            "scope": self.scope,
            "predicate": format_predicate(self.predicate, filter_text),
            **encoded,
            "part": self.part.value,
            "sources": None if self.sources is None else list(self.sources),
            "copies": self.copies,
        }


def rows_by_interface(routing: RoutingTable) -> Iterator[Row]:
    """The rows of a table whose entries are interfaces."""
    for interface, predicate in routing.entries():
        part = TablePart.LOCAL if interface == LOCAL_INTERFACE else TablePart.FORWARDING
        yield Row(interface, "", predicate, part)


class Scheme(Part, ABC):
    """A routing scheme at one router; `RouterOptions.scheme_options` is an object of `options`.

    As a `Part` it hears of a new epoch before every other part: it must then forget what its tables hold for
    epochs and interfaces that are gone.

    Args:
        context: of the router.
        routing: a table of predicates with a matcher, whose entry for interface 0 is p0. The scheme chooses
            what its other entries are: interfaces, or numbers that stand for an interface and a class of
            messages.
    """

    __slots__ = ("context", "routing")

    #: The dataclass of its options (`router.options.option`): the keys of [routing] beside `scheme`.
    options: ClassVar[type] = NoOptions
    #: Whether the controller must send which nodes are in a router's subtrees (`frames.BroadcastTable`).
    needs_subtrees: ClassVar[bool] = False
    #: Whether routers ask for updates of their tables.
    sends_requests: ClassVar[bool] = True
    #: Why tables are not over-simplified (`max_filters`), as a relative clause; empty: they may be.
    stays_exact: ClassVar[str] = ""
    #: See `MessageFrames`.
    message_frames: ClassVar[MessageFrames] = "one"
    #: Whether it reads the constraints of filters, which encoded filters do not show.
    reads_filters: ClassVar[bool] = False

    def __init__(self, context: Context, routing: RoutingTable) -> None:
        self.context = context
        self.routing = routing
        context.tables.need_subtrees = self.needs_subtrees

    def parts(self) -> Sequence[Part]:
        """The parts of the router that the scheme needs: how predicates spread, their timers and frames."""
        return ()

    def announced(self, local: Predicate) -> Predicate:
        """The predicate of an RA, which covers p0: by default p0 itself."""
        return local

    @property
    def message_bodies(self) -> tuple[type, ...]:
        """The classes of the bodies of messages that routers with this scheme send each other."""
        return self.context.content.message_bodies

    @abstractmethod
    def outputs(self, branch: Branch, frame: Frame) -> Outputs:
        """Where a message goes.

        Args:
            branch: this router's part in the tree of the frame's issuer.
            frame: as it came in; at the source, as it is issued.

        Raises:
            DecodeError: the message breaks a rule of the format.
        """

    def deciding_entries(
        self,
        table: EpochTable,  # noqa: ARG002
        branch: Branch,  # noqa: ARG002
    ) -> Sequence[tuple[int, int | None]] | None:
        """How compiled code may decide about messages on a branch (`router.forwarding`), as `outputs` does.

        Args:
            table: that the branch is of.

        Returns:
            Children of the branch, in ascending order, each with an entry of the routing table: a message
            that matches the predicate of one of a child's entries goes there (None: every message does). For
            a scheme whose `outputs` are such children and whether p0 selects the message, and whose `sends`
            is the default. None: only `outputs` can decide.
        """
        return None

    def sends(self, outputs: Outputs, frame: Frame) -> list[Action]:
        """The frames that carry a message on: by default the same one to all interfaces.

        Args:
            frame: as it leaves, one hop less.
        """
        return [Send(outputs.interfaces, frame)]

    @abstractmethod
    def rows(self) -> Iterable[Row]:
        """The routing table, in the order of interfaces and scopes; empty predicates are left out."""


# A router has few sets of interfaces, and many messages.


@lru_cache(maxsize=4096)
def with_local(children: frozenset[int]) -> frozenset[int]:
    """The interfaces, and that of the local applications."""
    return children | _LOCAL


@lru_cache(maxsize=4096)
def outputs_of(matched: frozenset[int]) -> Outputs:
    """The outputs of a message that matches the predicates of these interfaces."""
    return Outputs(matched - _LOCAL, LOCAL_INTERFACE in matched)


class Flooding(Scheme):
    """Pure broadcast, the baseline of content-based routing: a message goes to B(source, incoming interface).

    Every message crosses every edge of its source's tree; p0 alone decides about delivery. No predicate
    leaves its node: there are no RAs, SRs and URs, and no table beside p0.
    """

    sends_requests = False
    stays_exact = "which has no tables to over-simplify"

    def outputs(self, branch: Branch, frame: Frame) -> Outputs:
        body = self.context.content.message_in(frame)
        return Outputs(branch.children, bool(self.routing.match(body, among=_LOCAL)))

    def deciding_entries(self, table: EpochTable, branch: Branch) -> Sequence[tuple[int, int | None]] | None:  # noqa: ARG002
        return [(child, None) for child in sorted(branch.children)]

    def rows(self) -> Iterable[Row]:
        return rows_by_interface(self.routing)
