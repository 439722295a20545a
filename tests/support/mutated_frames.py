"""Fuzzed frames: the golden vectors, changed at random."""

from __future__ import annotations

from random import Random

from router.wire.format import VERSION
from router.wire.header import HEADER_LENGTH, TYPE_NAMES
from tests.vectors.wire_vectors import FRAGMENTED, MALFORMED, SIGNED, WHOLE

_SEEDS = [
    *(vector.payload for vector in WHOLE),
    *(vector.payload for vector in MALFORMED),
    *(vector.payload for vector in SIGNED),
    *(payload for vector in FRAGMENTED for payload in vector.payloads),
]

#: Bytes at the limits of a rule: types, operators, lengths, the borders of UTF-8.
_TELLING = bytes((0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 0x7F, 0x80, 0xBF, 0xC2, 0xE0, 0xED, 0xF0, 0xF4, 0xFE, 0xFF))


def mutated(random: Random) -> bytes:
    """Returns a fuzzed Ethernet payload."""
    payload = bytearray(random.choice(_SEEDS))
    for _ in range(random.choice((0, 1, 1, 1, 2, 3, 8))):
        at = random.randrange(len(payload) + 1)
        change = random.randrange(8)
        if change == 0:
            payload[at : at + 1] = random.randbytes(1)
        elif change == 1:
            payload[at : at + 1] = bytes((random.choice(_TELLING),))
        elif change == 2 and at < len(payload):
            payload[at] ^= 1 << random.randrange(8)
        elif change == 3:
            payload[at:at] = bytes(random.choices(_TELLING, k=random.randint(1, 9)))
        elif change == 4:
            del payload[at : at + random.randint(1, 9)]
        elif change == 5:
            other = random.choice(_SEEDS)
            payload[at:] = other[random.randrange(len(other) + 1) :]
        elif change == 6:
            del payload[at:]
        else:
            _mend_header(payload)
    if random.random() < 0.6:
        _mend_header(payload)
    return bytes(payload)


def _mend_header(payload: bytearray) -> None:
    """Repairs the header to that of an unfragmented frame, so that the body is decoded."""
    here = len(payload) - HEADER_LENGTH
    if 0 <= here <= 65_535:
        payload[0] = VERSION
        payload[1] = payload[1] if payload[1] in TYPE_NAMES else 1
        payload[20:32] = here.to_bytes(4, "big") + b"\0\0\0\1" + here.to_bytes(2, "big") + b"\0\0"
