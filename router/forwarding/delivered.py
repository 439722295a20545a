"""The messages that were delivered, in compiled code: `router.protocol.delivered`, where the format is.

`delivered` is the address of `Delivered.words`.
"""

from __future__ import annotations

from router.forwarding.compiler import callee
from router.native.compiler import I64, Address, Flag
from router.native.memory import long_at, put_long
from router.protocol.delivered import (
    ADDED,
    BEFORE,
    BLOCK_BITS,
    BLOCK_FACTOR,
    BUCKETS,
    ENTRIES,
    ENTRY_WORDS,
    MESSAGES,
    NUMBER,
    SHIFT,
    SOURCE,
    SOURCE_FACTOR,
)

_LAST = MESSAGES - 1
#: The bits of a number that name its block: a shift of int64 extends the sign.
_BLOCK = (1 << 64 - BLOCK_BITS) - 1


@callee
def was_delivered(delivered: Address, source: I64, number: I64) -> Flag:
    """Whether a message is noted."""
    entry = long_at(delivered, _bucket(delivered, source, number))
    forgotten = max(0, long_at(delivered, ADDED) - MESSAGES)
    while entry > forgotten:
        at = ENTRIES + ENTRY_WORDS * (entry & _LAST)
        if long_at(delivered, at + NUMBER) == number and long_at(delivered, at + SOURCE) == source:
            return True
        entry = long_at(delivered, at + BEFORE)
    return False


@callee
def note_delivered(delivered: Address, source: I64, number: I64) -> None:
    """Notes a message that is not noted."""
    bucket = _bucket(delivered, source, number)
    entry = long_at(delivered, ADDED) + 1
    at = ENTRIES + ENTRY_WORDS * (entry & _LAST)
    put_long(delivered, ADDED, entry)
    put_long(delivered, at + SOURCE, source)
    put_long(delivered, at + NUMBER, number)
    put_long(delivered, at + BEFORE, long_at(delivered, bucket))
    put_long(delivered, bucket, entry)


@callee
def _bucket(delivered: Address, source: I64, number: I64) -> I64:
    block = (number >> BLOCK_BITS) & _BLOCK
    begin = source * long_at(delivered, SOURCE_FACTOR) + block * long_at(delivered, BLOCK_FACTOR)
    return BUCKETS + (((begin >> SHIFT) + number) & _LAST)
