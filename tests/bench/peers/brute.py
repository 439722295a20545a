"""A scan of all filters: what the other peers are compared with."""

from __future__ import annotations

from typing import Any

from router.native import I64, Array, Tuple
from tests.bench.peers import Boxes, Peer, accepts, kernel, scratch, spread


@kernel
def _search(state: Tuple, slots: Array, keys: Array, found: Array) -> I64:
    boxes, space = state
    spread(space, slots, keys)
    count, number = boxes[1], 0
    for filter_ in range(len(count)):
        if count[filter_] >= 0 and accepts(boxes, filter_, space):
            found[number] = filter_
            number += 1
    return number


class Brute(Peer):
    """Verifies the rows of every filter."""

    search = staticmethod(_search)

    def __init__(self, boxes: Boxes) -> None:
        super().__init__(boxes)
        self._space = scratch(boxes.slots)

    @property
    def state(self) -> tuple[Any, ...]:
        return self.boxes.state, self._space

    def _insert(self, number: int) -> None:
        """The rows are the index."""

    _delete = _insert
