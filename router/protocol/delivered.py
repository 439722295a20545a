"""Which messages were delivered, so that a repeated one is not delivered a second time.

A message is known by its source and its number; a table has a slot for the pair. Numbers are not compared
with greater numbers: a message that others overtook is delivered, and a forged number shuts no source out.
The consecutive numbers of a source take consecutive slots. A pair is forgotten when another pair takes its
slot, after up to `SLOTS` deliveries.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

#: A power of two.
SLOTS = 16_384
#: Spreads the sources over the slots: an odd number, so that as many sources begin at as many places.
SPREAD = 2_654_435_761


class Delivered:
    """The messages that this router delivered last.

    Attributes:
        slots: uint64 [SLOTS, 2]: source + 1 (0: none), and number. Compiled code delivers too
            (`router.forwarding.delivery`).
    """

    def __init__(self) -> None:
        # A page that no message touches takes no memory.
        self.slots: npt.NDArray[np.uint64] = np.zeros((SLOTS, 2), np.uint64)
        self._items = self.slots.reshape(-1).data

    def __contains__(self, message: tuple[int, int]) -> bool:
        source, seq = message
        place = 2 * ((seq + source * SPREAD) % SLOTS)
        return bool(self._items[place] == source + 1 and self._items[place + 1] == seq)

    def add(self, source: int, seq: int) -> None:
        place = 2 * ((seq + source * SPREAD) % SLOTS)
        self._items[place], self._items[place + 1] = source + 1, seq
