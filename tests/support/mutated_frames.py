"""Fuzzed frames: the golden vectors, changed at random."""

from __future__ import annotations

from random import Random

from router.wire.format import VERSION
from router.wire.header import HEADER_LENGTH, TYPE_NAMES
from tests.fuzz import inputs
from tests.vectors.wire_vectors import FRAGMENTED, MALFORMED, SIGNED, WHOLE

_SEEDS = [
    *(vector.payload for vector in WHOLE),
    *(vector.payload for vector in MALFORMED),
    *(vector.payload for vector in SIGNED),
    *(payload for vector in FRAGMENTED for payload in vector.payloads),
]


def mutated(random: Random) -> bytes:
    """Returns a fuzzed Ethernet payload; most have the header of an unfragmented frame."""
    payload = bytearray(inputs.mutated(random, _SEEDS, (0, 1, 1, 1, 2, 3, 8)))
    size = len(payload) - HEADER_LENGTH
    if random.random() < 0.6 and size >= 0:
        payload[0] = VERSION
        payload[1] = payload[1] if payload[1] in TYPE_NAMES else 1
        payload[20:32] = size.to_bytes(4, "big") + b"\0\0\0\1" + size.to_bytes(2, "big") + b"\0\0"
    return bytes(payload)
