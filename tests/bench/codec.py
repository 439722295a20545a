"""One message with five attributes: the struct codec beside the Scapy layers that define the format."""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Callable

from router.predicates.model import Message
from router.wire.codec import decode, encode
from router.wire.frames import Frame, FrameType
from router.wire.layers import to_frame
from tests.support.described_frames import from_frame

_MESSAGE = Message({"class": "alert", "severity": 6, "load": 0.75, "web": True, "device": "web-server"})
_FRAME = Frame(FrameType.MSG, issuer=3, seq=17, epoch=1, hop_limit=64, body=_MESSAGE)


def _microseconds(action: Callable[[], object], times: int, rounds: int = 5) -> float:
    return statistics.median(timeit.repeat(action, number=times, repeat=rounds)) / times * 1e6


def main() -> None:
    """Prints medians of five rounds, and ratios."""
    payload = encode(_FRAME)
    layer = type(from_frame(_FRAME))
    pairs = {
        "encode": (lambda: encode(_FRAME), lambda: bytes(from_frame(_FRAME))),
        "decode": (lambda: decode(payload), lambda: to_frame(layer(payload))),
    }
    print(f"one MSG with five attributes, {len(payload)} bytes")
    print(f"{'':8} {'codec us':>9} {'Scapy us':>9} {'ratio':>6}")
    for name, (ours, scapy) in pairs.items():
        fast, slow = _microseconds(ours, 20_000), _microseconds(scapy, 200)
        print(f"{name:8} {fast:9.2f} {slow:9.1f} {slow / fast:6.0f}")
