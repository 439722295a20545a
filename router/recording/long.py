"""Long contents of recordings, which are written in parts, and bodies that a recording has already.

What a turn of a router records must not take longer than a turn: a body of 16 MiB takes 40 ms to write, the
JSON of 7,000 filters with ranges on five attributes 100 ms to make.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence

from router.protocol.events import Event, FrameReceived
from router.wire.frames import Frame

#: Bytes of a content that is written at once, and of a part of a longer body. Of frames that came in with a
#: longer body, the body has a number. A part of the format: another value is another version.
LONG = 65_536
#: Bytes of the bodies that are kept beside the last.
_KEPT = 1024 * 1024

#: The content of a record; in parts, each made when it is asked for, if it is long.
Content = bytes | Iterator[bytes | memoryview]


def content_of(pieces: Sequence[bytes]) -> Content:
    """The content that consists of these pieces."""
    if sum(map(len, pieces)) <= LONG:
        return b"".join(pieces)
    return _parts(pieces)


def _parts(pieces: Iterable[bytes]) -> Iterator[memoryview]:
    for piece in pieces:
        view = memoryview(piece)
        for start in range(0, len(view), LONG):
            yield view[start : start + LONG]


class ReceivedBodies:
    """The long bodies of frames that came in lately, by number.

    A frame that goes on with the body with which it came in is recorded by the number. The router that
    records and the router that replays keep the same bodies.
    """

    def __init__(self) -> None:
        self._count = self._bytes = 0
        self._kept: OrderedDict[int, bytes] = OrderedDict()

    def came(self, event: Event) -> None:
        """An event is to be recorded, or replayed."""
        body = event.frame.received if isinstance(event, FrameReceived) else None
        if body is None or len(body) <= LONG:
            return
        self._count += 1
        while self._kept and self._bytes > _KEPT:
            _, forgotten = self._kept.popitem(last=False)
            self._bytes -= len(forgotten)
        self._kept[self._count] = body
        self._bytes += len(body)

    def number_of(self, frame: Frame) -> int | None:
        """The number of the body of a frame, from 1; None: it is short, did not come in, or is forgotten."""
        if self._kept and frame.received is not None:
            for number, body in self._kept.items():
                if body is frame.received:
                    return number
        return None
