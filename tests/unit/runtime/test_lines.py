"""Lines of a stream: bytes that come in any pieces, and lines that are too long."""

from __future__ import annotations

import random
import socket

from router.runtime.lines import LineSocket, LineTooLongError

_LIMIT = 5
_TOO_LONG = f"line longer than {_LIMIT} bytes"


def _fed(pieces: list[bytes]) -> list[bytes | str]:
    """The lines of a stream that comes in these pieces; of those that are too long, the error."""
    ours, theirs = socket.socketpair()
    with ours:
        lines = LineSocket(theirs, _LIMIT)
        found = [line for piece in pieces for line in lines.feed(piece)]
        lines.close()
    return [str(line) if isinstance(line, LineTooLongError) else line for line in found]


def test_the_pieces_of_a_stream_make_no_difference() -> None:
    rng = random.Random(1)
    for _ in range(500):
        stream = bytes(rng.choices(b"ab\n", (3, 3, 2), k=rng.randrange(60)))
        cuts = sorted(rng.randrange(len(stream) + 1) for _ in range(rng.randrange(12)))
        pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
        *ended, rest = stream.split(b"\n")
        expected: list[bytes | str] = [_TOO_LONG if len(line) > _LIMIT else line for line in ended]
        # The end of a line that is too long need not have come.
        assert _fed(pieces) == expected + ([_TOO_LONG] if len(rest) > _LIMIT else [])
