"""The RAs and URs of this router whose predicate is too large for one turn.

To put 50,000 filters in order and to encode them takes some 10 ms. A frame with many is therefore made in
steps, in turns of their own, and is sent with the last. The router goes on meanwhile; what the frame says was
decided before the first step.

**A frame that is made takes longer on its link, and nothing more.** Frames of this router that come up
meanwhile overtake it. An RA that overtakes a UR is not missed: whoever waits for the UR adds each RA to it
that comes in before it (`replies`, `requests`). An RA that is overtaken by a UR widens tables, no more.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator, Hashable
from dataclasses import dataclass

from router.predicates.model import Predicate
from router.protocol.events import Action
from router.protocol.parts import Part
from router.wire.codec import encode_predicate_in_steps
from router.wire.frames import FrameType

#: Filters of a predicate that is sent in the turn in which that is decided, and of a part that is encoded in
#: one turn.
AT_ONCE, _ENCODED = 2_000, 2_000


@dataclass(slots=True)
class _Made:
    """A frame in the making.

    Attributes:
        steps: return its predicate and its body.
        finish: is called with them; returns what is to be done.
    """

    steps: Generator[None, None, tuple[Predicate, bytes]]
    finish: Callable[[Predicate, bytes], list[Action]]


class Outgoing(Part):
    """Makes frames with large predicates, one step in a turn."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[Hashable, _Made] = OrderedDict()

    @property
    def idle(self) -> bool:
        """True if no frame is being made."""
        return not self._waiting

    @property
    def busy(self) -> bool:
        """See `Part`."""
        return bool(self._waiting)

    def __contains__(self, key: Hashable) -> bool:
        """Whether the frame of this key is being made."""
        return key in self._waiting

    def make(
        self,
        key: Hashable,
        frame_type: FrameType,
        predicate: Generator[None, None, Predicate],
        finish: Callable[[Predicate, bytes], list[Action]],
    ) -> None:
        """Makes a frame after those that wait; it takes the place of one with the same key.

        Args:
            key: names what the frame is for.
            frame_type: its type.
            predicate: makes its predicate, in steps.
            finish: see `_Made`.
        """
        self.forget(key)
        self._waiting[key] = _Made(_steps(frame_type, predicate), finish)

    def forget(self, key: Hashable) -> None:
        """The frame of this key, if there is one, will not be made."""
        self._waiting.pop(key, None)

    def step(self, now: float) -> list[Action]:  # noqa: ARG002
        """See `Part`."""
        key, made = next(iter(self._waiting.items()))
        try:
            next(made.steps)
        except StopIteration as end:
            del self._waiting[key]
            return made.finish(*end.value)
        return []


def _steps(
    frame_type: FrameType, predicate: Generator[None, None, Predicate]
) -> Generator[None, None, tuple[Predicate, bytes]]:
    made = yield from predicate
    yield
    return made, (yield from encode_predicate_in_steps(frame_type, made, _ENCODED))
