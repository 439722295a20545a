"""Python's garbage collector in a router process: bounded in each turn of the loop.

Reference counts free what a router drops; its events leave no cycles (`tests/unit/protocol/test_cycles.py`).
A full collection visits each object of the tables: 33 ms for 6,000 filters (docs/predicate-algebra.md).

The interpreter looks at young objects when 700 more have been allocated than freed since the last time. While
a router replaces old objects by new ones, filters in a cache for instance, that number does not grow, and the
young objects do: collections of 300,000 took 86 ms. A router therefore looks at them after each turn.
"""

from __future__ import annotations

import gc

#: Collections of a generation before one of the next.
_NEVER = 2**31 - 1


def bound_collections() -> None:
    """Lets the garbage collector look at young objects only."""
    young, _, _ = gc.get_threshold()
    gc.set_threshold(young, _NEVER, _NEVER)


def end_turn() -> None:
    """Frees the cycles that a turn has left; the objects that it has kept are not looked at any more."""
    gc.collect(0)
