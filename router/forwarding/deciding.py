"""Where a message goes, in compiled code.

`state` is the address of the row of a router (`layout.State`), `row` that of the class of a source.
"""

from __future__ import annotations

import numpy as np

from router.forwarding.compiler import callee
from router.forwarding.layout import (
    CHILD_BIT,
    CHILD_ENTRY,
    CHILD_INTERFACE,
    CHILD_PAGE,
    CHILD_WIDTH,
    CLASS_END,
    CLASS_FIRST,
    State,
)
from router.matching.compiled.layout import Search
from router.matching.compiled.matching import TABLE_SEARCH, match_at
from router.native.compiler import I64, Address, Flag, Tuple
from router.native.memory import byte_at, int_at, long_at, put_byte, put_long, real_at

_TABLE, _DENSE, _DENSE_SIZE = int(State.TABLE), int(State.DENSE), int(State.DENSE_SIZE)
_OPEN, _MARK = int(State.OPEN), int(State.MARK)
_COUNTED, _COUNTED_SIZE, _COUNT_LIMIT, _COUNT_DUE, _NOW = (
    int(State.COUNTED),
    int(State.COUNTED_SIZE),
    int(State.COUNT_LIMIT),
    int(State.COUNT_DUE),
    int(State.NOW),
)
_FOUND, _SPENT = int(Search.FOUND), int(Search.SPENT)
#: Steps of searches in a batch, some 1 ms, from which on the rest of the batch is the core's: it looks at the
#: clock between two messages.
_BATCH_STEPS = 100_000
#: Pages of an output set that is empty, and of one that one frame cannot address.
_NO_PAGE, SEVERAL = -1, -2


@callee
def outputs(state: Address, row: Address, body: Address, size: I64) -> Tuple:
    """Page and bits of the interfaces that a message goes to, and whether p0 selects the message.

    The page `SEVERAL`: the message is the core's.
    """
    dense, entries = long_at(state, _DENSE), long_at(state, _DENSE_SIZE)
    open_, mark = long_at(state, _OPEN), long_at(state, _MARK)
    first, end, limit = long_at(row, CLASS_FIRST), long_at(row, CLASS_END), 0
    local = int_at(dense, 0)
    if local:
        put_byte(open_, local, 1)
        limit = 1
    for child in range(first, end, 8 * CHILD_WIDTH):
        number = _number_of(child, dense, entries)
        if number > 0 and not byte_at(open_, number):
            put_byte(open_, number, 1)
            limit += 1
    table = long_at(state, _TABLE)
    found = match_at(body, size, table, open_, limit, 0)
    names = long_at(long_at(table, TABLE_SEARCH), _FOUND)
    for at in range(found):
        put_byte(mark, int_at(names, at), 1)
    page, bits = _NO_PAGE, 0
    for child in range(first, end, 8 * CHILD_WIDTH):
        number = _number_of(child, dense, entries)
        if number < 0 or byte_at(mark, number):
            if page != _NO_PAGE and page != long_at(child, CHILD_PAGE):
                page = SEVERAL
                break
            page = long_at(child, CHILD_PAGE)
            bits |= long_at(child, CHILD_BIT)
    if found < 0:
        page = SEVERAL
    selected = byte_at(mark, local)
    put_byte(open_, local, 0)
    for child in range(first, end, 8 * CHILD_WIDTH):
        put_byte(open_, max(0, _number_of(child, dense, entries)), 0)
    for at in range(found):
        put_byte(mark, int_at(names, at), 0)
    return page, bits, selected


@callee
def steps_spent(state: Address) -> I64:
    """The steps of all searches so far (`Search.SPENT`)."""
    return long_at(long_at(long_at(state, _TABLE), TABLE_SEARCH), _SPENT)


@callee
def is_long(state: Address, before: I64) -> Flag:
    """Whether the searches since `steps_spent` returned `before` have taken long."""
    return steps_spent(state) - before > _BATCH_STEPS


@callee
def count_through(state: Address, row: Address, page: I64, bits: I64) -> Flag:
    """Counts a message at its interfaces; False: nothing was counted, since the core has to know."""
    counted, size = long_at(state, _COUNTED), long_at(state, _COUNTED_SIZE)
    if not counted:
        return True
    for counting in range(2):
        before = 0
        for child in range(long_at(row, CLASS_FIRST), long_at(row, CLASS_END), 8 * CHILD_WIDTH):
            interface = long_at(child, CHILD_INTERFACE)
            # A child has a row for each entry that decides about it, one behind the other.
            first = interface != before
            before = interface
            if first and long_at(child, CHILD_PAGE) == page and bits & long_at(child, CHILD_BIT):
                if counting:
                    put_long(counted, interface, long_at(counted, interface) + 1)
                elif interface >= size or _core_has_to_know(state, interface):
                    return False
    return True


@callee
def _core_has_to_know(state: Address, interface: I64) -> Flag:
    """Whether another message through an interface makes something due, now or at a moment of its own."""
    over = long_at(long_at(state, _COUNTED), interface) - long_at(state, _COUNT_LIMIT)
    due = real_at(long_at(state, _COUNT_DUE), interface)
    if over < 0 or due == np.inf:
        return False
    # The core knows the moment once the count is above the limit.
    return over == 0 or real_at(state, _NOW) >= due


@callee
def _number_of(child: Address, dense: Address, entries: I64) -> I64:
    """The matcher's number for a child's predicate; 0: none, it is empty; -1: messages always go there."""
    entry = long_at(child, CHILD_ENTRY)
    if entry < 0:
        return np.int64(-1)
    return int_at(dense, entry) if entry < entries else np.int64(0)
