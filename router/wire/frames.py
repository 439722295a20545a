"""Frames as values: what the codec encodes and the protocol core reads.

Packet structures: protocol paper, figures 2 (message), 3 (RA), 6 (SR) and 7 (UR). HELLO and the
controller's TABLE, COMMIT and ACK frames are the testbed's own (docs/wire-format.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, IntFlag

from router.predicates.model import Message, Predicate

VERSION = 1
#: High half of a sequence number: the router's incarnation; low half: a counter. A restarted node's
#: numbers are therefore never mistaken for old ones.
COUNTER_BITS = 32


class FrameType(IntEnum):
    MSG = 1
    RA = 2
    SR = 3
    UR = 4
    HELLO = 5
    TABLE = 6
    COMMIT = 7
    ACK = 8


class Flags(IntFlag):
    NONE = 0
    #: UR: at least one downstream router is missing from it (assembled after a timeout).
    PARTIAL = 1


@dataclass(frozen=True, slots=True)
class SenderRequest:
    """Body of an SR: how long its sender waits for the reply, in microseconds (figure 6)."""

    timeout_us: int


@dataclass(frozen=True, slots=True)
class Hello:
    """Body of a HELLO from a router to the controller: I am up, send me my table."""

    incarnation: int


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """How one router takes part in T_s, the broadcast tree rooted at `source`.

    B(s, i) is `children` for i = `parent` and empty for every other interface; at the source itself
    `parent` is interface 0 (local applications). T_s holds the paths on which frames are accepted. Where a
    broadcast layer sends frames beyond it (reverse-path forwarding), the children it sends to in vain are
    named in `off_tree`.

    `downstream` numbers the set of nodes that this router's subtree of T_s holds: two sources with
    the same parent have the same number exactly when their trees hang the same nodes below this
    router. RA ingress filtering is sound between such sources only (ARCHITECTURE.md, "Where we differ").
    """

    source: int
    parent: int
    children: tuple[int, ...]
    downstream: int
    #: Those children, in their order, beyond which T_s hangs exactly the nodes that this router's own tree
    #: hangs there: where a UR may be reused and an SR answered from the table (paper, section 3.5.4).
    reusable: tuple[int, ...] = ()
    #: Those children, in their order, beyond which T_s hangs no node: the neighbour drops what comes from
    #: here (its reverse path to the source is another). An SR gets no UR from there.
    off_tree: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class BroadcastTable:
    """Body of a TABLE: one router's part in every broadcast tree of one epoch.

    `neighbours` maps interface number to the neighbouring node. Sources that cannot be reached have
    no entry.
    """

    neighbours: tuple[tuple[int, int], ...]
    entries: tuple[TreeEntry, ...]


@dataclass(frozen=True, slots=True)
class Commit:
    """Body of a COMMIT: every router has the table of the header's epoch; originate in it from now on.

    Frames of epochs older than `oldest_epoch` are no longer forwarded.
    """

    oldest_epoch: int


@dataclass(frozen=True, slots=True)
class Ack:
    """Body of an ACK to the controller: the frame of this type, epoch and seq was taken."""

    acknowledged: FrameType


class EncodedMessage:
    """Body of a MSG as it came in: neither read nor checked. See `router.wire.tlv.message_of`.

    Forwarding needs no more of a message than its bytes.
    """

    __slots__ = ("decoded", "encoded")

    def __init__(self, encoded: bytes) -> None:
        self.encoded = encoded
        #: Once it has been read.
        self.decoded: Message | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EncodedMessage) and self.encoded == other.encoded

    def __hash__(self) -> int:
        return hash(self.encoded)


Body = Message | EncodedMessage | Predicate | SenderRequest | Hello | BroadcastTable | Commit | Ack


@dataclass(frozen=True, slots=True)
class Frame:
    """One protocol data unit, whole (after reassembly).

    Attributes:
        type: what it is; determines the type of `body` (MSG: Message or EncodedMessage; RA, UR: Predicate).
        issuer: source node of a MSG; issuer of an RA or SR; issuer of the SR that a UR answers;
            the router itself for HELLO and ACK; the addressed router for TABLE and COMMIT.
        seq: sequence number (MSG, RA), request number (SR, UR), controller's number (others); 64 bits.
        epoch: the version of the broadcast tables that it was sent under; 0 before any.
        hop_limit: remaining hops.
    """

    type: FrameType
    issuer: int
    seq: int
    epoch: int
    hop_limit: int
    body: Body
    flags: Flags = field(default=Flags.NONE)
    _next: Frame | None = field(default=None, init=False, repr=False, compare=False)

    def one_hop_less(self) -> Frame:
        """The frame as its receiver sends it on: the same object however many receivers there are."""
        if self._next is None:
            following = Frame(
                self.type, self.issuer, self.seq, self.epoch, self.hop_limit - 1, self.body, self.flags
            )
            object.__setattr__(self, "_next", following)
        assert self._next is not None
        return self._next
