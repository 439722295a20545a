"""Which messages were delivered, so that a repeated one is not delivered a second time.

A message is known by its source and its number. The last `MESSAGES` that were delivered are remembered, and
no others: a ring of entries in the order of their deliveries. The entries of one bucket form a list, newest
first, which ends at the first entry that the ring has overwritten. Numbers are not compared with greater
numbers: a message that others overtook is delivered, and a forged number shuts no source out.

The consecutive numbers of a source take consecutive buckets, in blocks, so that few messages touch few
pages. Where a block begins depends on random factors: nobody can choose messages that share a bucket.
"""

from __future__ import annotations

from secrets import randbits

import numpy as np
import numpy.typing as npt

#: Messages that are remembered, and buckets.
MESSAGES = 1 << 14
#: Lower bits of a number: its place in its block.
BLOCK_BITS = 14
#: Places in `Delivered.words`: how many messages were added so far, the factors of source and block, the
#: newest entry of each bucket (0: none), the entries.
ADDED, SOURCE_FACTOR, BLOCK_FACTOR, BUCKETS = range(4)
ENTRIES = BUCKETS + MESSAGES
#: Of the n-th entry, that of the n-th message: source, number, and the next older entry of its bucket.
SOURCE, NUMBER, BEFORE, ENTRY_WORDS = range(4)
#: A product of 64 bits is shifted by so many bits: what is left numbers the buckets.
SHIFT = 64 - 14


class Delivered:
    """The messages that this router delivered last.

    Attributes:
        words: uint64. Compiled code delivers too (`router.forwarding.delivered`).
    """

    def __init__(self) -> None:
        # A page that no message touches takes no memory.
        self.words: npt.NDArray[np.uint64] = np.zeros(ENTRIES + ENTRY_WORDS * MESSAGES, np.uint64)
        self._items = items = self.words.data
        items[SOURCE_FACTOR], items[BLOCK_FACTOR] = randbits(64) | 1, randbits(64) | 1

    def __contains__(self, message: tuple[int, int]) -> bool:
        source, number = message
        items = self._items
        entry = items[self._bucket(source, number)]
        forgotten = max(0, items[ADDED] - MESSAGES)
        while entry > forgotten:
            at = ENTRIES + ENTRY_WORDS * (entry % MESSAGES)
            if items[at + NUMBER] == number and items[at + SOURCE] == source:
                return True
            entry = items[at + BEFORE]
        return False

    def add(self, source: int, number: int) -> None:
        """Adds a message that is not there."""
        items, bucket = self._items, self._bucket(source, number)
        items[ADDED] = entry = items[ADDED] + 1
        at = ENTRIES + ENTRY_WORDS * (entry % MESSAGES)
        items[at + SOURCE], items[at + NUMBER], items[at + BEFORE] = source, number, items[bucket]
        items[bucket] = entry

    def _bucket(self, source: int, number: int) -> int:
        """The place of a message's bucket."""
        items = self._items
        begin = source * items[SOURCE_FACTOR] + (number >> BLOCK_BITS) * items[BLOCK_FACTOR]
        return BUCKETS + ((begin >> SHIFT) + number) % MESSAGES
