"""The interface between the protocol core and the content of messages and predicates.

The protocol core moves predicates between frames and tables. It asks whether a predicate is empty, whether it
covers another, for their union, for a predicate within two others, and which predicates a message matches.
`Content` answers. The routing schemes and pull routing are written against it, so that another form of
predicates (compared literally, encoded) replaces the plain one without a change in them.

Sets of filters are kept as sets of numbers (`Bits`), which a pool gives to filters: an operation on two large
predicates is then an operation on two integers.
"""

from __future__ import annotations

from typing import ClassVar

from router.predicates import semantics
from router.predicates.covering.bitset import Bits
from router.predicates.covering.builder import PredicateBuilder
from router.predicates.covering.pool import FilterAlgebra
from router.predicates.model import NOTHING, Message, Predicate
from router.wire.frames import EncodedMessage, Frame, FrameType
from router.wire.message import message_of


class Content:
    """Messages and predicates of one form.

    The base class is for predicates of `router.predicates.model`; a form with other classes of predicates and
    messages overrides the types of bodies and frames, `message_of` and `selects`.

    Attributes:
        pool: the filters of this form, and their algebra.
        nothing: the empty predicate.
        predicate_bodies, message_bodies: the classes of the bodies of RAs and URs, and of messages.
        message_frame, advertisement_frame, reply_frame: the types of the frames that carry them.
    """

    pool: FilterAlgebra
    nothing: Predicate = NOTHING
    predicate_bodies: ClassVar[tuple[type, ...]] = (Predicate,)
    message_bodies: ClassVar[tuple[type, ...]] = (Message, EncodedMessage)
    message_frame: ClassVar[FrameType] = FrameType.MSG
    advertisement_frame: ClassVar[FrameType] = FrameType.RA
    reply_frame: ClassVar[FrameType] = FrameType.UR
    #: Whether compiled code may read messages: they come in frames of type MSG as ATTRIBUTE TLVs, and match
    #: as the classes of `router.predicates.model` do.
    compiled: ClassVar[bool] = True
    #: Whether `widened` exists: over-simplification contradicts a content that keeps filters as they are.
    widens: ClassVar[bool] = True

    def builder(self, predicate: Predicate = NOTHING, members: Bits = 0) -> PredicateBuilder:
        """A predicate that grows, from a predicate or the set of its filters."""
        return PredicateBuilder(predicate, members, self.pool)

    def widened(self, predicate: Predicate, filters: int) -> Predicate:
        """A predicate of at most so many filters that covers `predicate` (section 3.5.6)."""
        from router.predicates.covering.oversimplify import oversimplify

        return oversimplify(predicate, filters)

    def message_of(self, body: Message | EncodedMessage) -> Message:
        """The message that a body holds.

        Raises DecodeError: it breaks a rule of the format.
        """
        return message_of(body)

    def message_in(self, frame: Frame) -> Message | EncodedMessage:
        """The body of a frame of type `message_frame`, of one of the classes `message_bodies`."""
        return frame.body  # type: ignore[return-value]  # the table of frames has checked the class

    def predicate_in(self, frame: Frame) -> Predicate:
        """The body of an advertisement or reply, of one of the classes `predicate_bodies`."""
        return frame.body  # type: ignore[return-value]  # the table of frames has checked the class

    def selects(self, predicate: Predicate, message: Message) -> bool:
        """Whether an application that declared `predicate` gets the message."""
        return semantics.matches(predicate, message)
