"""Frames as values: what the codec encodes and the protocol core reads.

Packet structures: protocol paper, figures 2 (message), 3 (RA), 6 (SR) and 7 (UR). HELLO and the
controller's TABLE, COMMIT and ACK frames are the testbed's own (docs/reference/wire-format.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

import numpy as np
import numpy.typing as npt

from router.predicates import Message, Predicate
from router.wire.format import Flags, FrameType, PublicationFlags, SubscriptionFlags
from router.wire.tree_classes import TreeClasses

#: Names of `router.wire.format` that this module passes on.
__all__ = ["Flags", "FrameType", "PublicationFlags", "SubscriptionFlags"]

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True)
def value(cls: type[_T]) -> type[_T]:
    """Makes a class a dataclass with slots that is frozen for the type checker, and for it alone.

    The constructor of a dataclass that is frozen at run time takes twice as long, or more: it calls
    `object.__setattr__` for each field. A router makes several frames, events and actions at each hop.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)


#: High half of a sequence number: the router's incarnation; low half: a counter. A restarted node's
#: numbers are therefore never mistaken for old ones.
COUNTER_BITS = 32


@dataclass(frozen=True, slots=True)
class SenderRequest:
    """Body of an SR: how long its sender waits for the reply, in microseconds (figure 6)."""

    timeout_us: int


@dataclass(frozen=True, slots=True)
class Hello:
    """Body of a HELLO from a router to the controller: I am up, send me my table."""

    incarnation: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BroadcastTable:
    """Body of a TABLE: one router's part in every broadcast tree of one epoch.

    Attributes:
        neighbours: (interface, neighbouring node) of each interface.
        classes: the router's part in the trees of each class; class 1 comes first.
        class_of: the class of each source, by source; of type `CLASS_DTYPE`, read-only. 0: the source cannot
            be reached, as a source beyond the end cannot.
        subtrees: [a - 1, b - 1] is true if the sources of class b are in the router's subtree of the trees of
            class a; read-only. None: not sent, since the routing scheme does not ask for it.
    """

    neighbours: tuple[tuple[int, int], ...]
    classes: TreeClasses
    class_of: npt.NDArray[np.uint16]
    subtrees: npt.NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        self.class_of.setflags(write=False)
        if self.subtrees is not None:
            self.subtrees.setflags(write=False)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, BroadcastTable)
            and self.neighbours == other.neighbours
            and self.classes == other.classes
            and np.array_equal(self.class_of, other.class_of)
            and _equal(self.subtrees, other.subtrees)
        )

    def __repr__(self) -> str:
        subtrees = "" if self.subtrees is None else f", subtrees={self.subtrees.astype(int).tolist()}"
        return (
            f"BroadcastTable({self.neighbours}, {self.classes}, class_of={self.class_of.tolist()}{subtrees})"
        )


def _equal(own: npt.NDArray[np.bool_] | None, other: npt.NDArray[np.bool_] | None) -> bool:
    return own is other or (own is not None and other is not None and np.array_equal(own, other))


@dataclass(frozen=True, slots=True)
class Commit:
    """Body of a COMMIT: every router has the table of the header's epoch; originate in it from now on.

    Frames of epochs older than `oldest_epoch` are no longer forwarded. Of epoch 0, it asks for an ACK alone.
    """

    oldest_epoch: int


@dataclass(frozen=True, slots=True)
class Ack:
    """Body of an ACK to the controller, or of a RECEIPT to a neighbour.

    A frame of this type, and of the header's `seq`, came in. The epoch of a RECEIPT is that of the frame. The
    epoch of an ACK is the router's own: after a TABLE the newest epoch that it has a table of, after a COMMIT
    the epoch in which it originates. They are those of the frame, unless the router took no notice of it
    because it is ahead.
    """

    acknowledged: FrameType


@dataclass(slots=True, unsafe_hash=True)
class EncodedMessage:
    """Body of a MSG as bytes; `router.wire.message.message_of` decodes it, and finds errors.

    Forwarding needs no more of a message than its bytes.

    Attributes:
        encoded: the bytes, as received or as `router.wire.message.encode_message` makes them.
        decoded: the message, once it has been decoded.
    """

    encoded: bytes
    decoded: Message | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class AddressedMessage:
    """Body of a MSG that names the nodes that it is for.

    Attributes:
        destinations: in ascending order, at least one.
    """

    destinations: tuple[int, ...]
    message: Message | EncodedMessage


@dataclass(frozen=True, slots=True)
class ClassifiedPredicate(Predicate):
    """Body of a UR that keeps classes of nodes apart.

    Attributes:
        classes: a node of each class, and the place of the first filter of its class among the filters, which
            end where those of the next class begin. Filters before the first place are of nodes of any class.
    """

    classes: tuple[tuple[int, int], ...] = ()

    def parts(self) -> Iterator[tuple[int | None, Predicate]]:
        """A node of each class with the predicate of its nodes; None with that of nodes of any class."""
        bounds = [*(first for _, first in self.classes), len(self.filters)]
        if bounds[0]:
            yield None, Predicate(self.filters[: bounds[0]])
        for (node, first), end in zip(self.classes, bounds[1:], strict=True):
            yield node, Predicate(self.filters[first:end])


@dataclass(slots=True, unsafe_hash=True)
class EncodedPredicate:
    """Body of an RA or UR as received, neither decoded nor checked, if it is long.

    The body of a SUB, PUB or FLUSH that a router refuses for its length is left so, too. Of an RA or UR,
    `router.wire.predicate.filters_of` decodes it.
    """

    frame_type: FrameType = field(compare=False)
    encoded: bytes


@value
class Subscription:
    """Body of a SUB: a subscription that travels down its home's tree (attention paper, section 4.2).

    Attributes:
        round: 0, and one more with each refresh.
        nonce: differs between the SUBs of a round.
        remaining: publications that the subscription lacks, less those that routers on the way have offered.
        lifetime_left_us: time to the end of the round, microseconds.
        freshness_us: greatest age of a publication, microseconds.
        predicate: of the subscription.
        flags: see there.
        offered: publications (source, seq) that the home has, or that routers on the way have offered.
    """

    round: int
    nonce: int
    remaining: int
    lifetime_left_us: int
    freshness_us: int
    predicate: Predicate
    flags: SubscriptionFlags = SubscriptionFlags.NONE
    offered: tuple[tuple[int, int], ...] = ()


@value
class Publication:
    """Body of a PUB or FLUSH: a publication between routers (attention paper, section 4.1).

    Attributes:
        source: the router at which it was uploaded.
        seq: its number there.
        age_us: time since the upload, microseconds.
        message: its attributes.
        flags: see there.
        homes: of a PUB: the routers that it is for, in ascending order, at least one; of a FLUSH: empty.
    """

    source: int
    seq: int
    age_us: int
    message: Message
    flags: PublicationFlags = PublicationFlags.NONE
    homes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Overload:
    """Body of an OVERLOAD: nothing more is to be sent to the subscription in this round (section 4.3.1)."""

    round: int


Body = (
    Message
    | EncodedMessage
    | AddressedMessage
    | Predicate
    | EncodedPredicate
    | SenderRequest
    | Hello
    | BroadcastTable
    | Commit
    | Ack
    | Subscription
    | Publication
    | Overload
)


@value
class Frame:
    """One protocol data unit, whole (after reassembly).

    Attributes:
        type: what it is; determines the type of `body` (MSG: Message, EncodedMessage or AddressedMessage;
            RA: Predicate or EncodedPredicate; UR: also ClassifiedPredicate).
        issuer: source node of a MSG; issuer of an RA or SR; issuer of the SR that a UR answers;
            the router itself for HELLO and ACK; the addressed router for TABLE and COMMIT; that of the frame
            that a RECEIPT answers.
        seq: sequence number (MSG, RA, PUB, FLUSH), request number (SR, UR), number of the subscription (SUB,
            OVERLOAD), controller's number (others); 64 bits.
        epoch: the version of the broadcast tables that it was sent under; 0 before any.
        hop_limit: remaining hops.
        received: of an RA, or a signed frame, that was decoded: its body as received. An RA is sent on with
            this body, so that TLVs of unknown types reach the routers behind this one.
        signature: of `router.wire.authentication`; empty: there is none.
        widened: whether this router has widened the body of an RA that goes on as received.
    """

    type: FrameType
    issuer: int
    seq: int
    epoch: int
    hop_limit: int
    body: Body
    flags: Flags = field(default=Flags.NONE)
    received: bytes | None = field(default=None, repr=False, compare=False)
    signature: bytes = field(default=b"", repr=False)
    widened: bool = field(default=False, repr=False, compare=False)
    _next: Frame | None = field(default=None, init=False, repr=False, compare=False)

    def one_hop_less(self) -> Frame:
        """The frame as its receiver sends it on: the same object however many receivers there are."""
        if self._next is None:
            sent_on = Frame(
                self.type,
                self.issuer,
                self.seq,
                self.epoch,
                self.hop_limit - 1,
                self.body,
                self.flags,
                self.received,
                self.signature,
            )
            object.__setattr__(self, "_next", sent_on)
        assert self._next is not None
        return self._next
