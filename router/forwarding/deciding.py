"""Which messages are ordinary, and where they go, in compiled code.

A frame is decided here if it is an ordinary message: whole, of a held epoch, from the neighbour that its tree
comes from, with hops left, to interfaces of one page of addresses.

`state` is the address of the row of a router (`layout`), `frame` that of an Ethernet frame, `row` that of the
class of a source.
"""

from __future__ import annotations

import numpy as np

from router.forwarding import layout
from router.matching.compiled import CLOSED, COMPILER as MATCHING, Search
from router.matching.compiled.matching import TABLE_SEARCH, match_at
from router.native import (
    I64,
    Address,
    Compiler,
    Flag,
    Tuple,
    byte_at,
    int_at,
    load_u8,
    load_u16,
    load_u32,
    long_at,
    put_byte,
    put_long,
    real_at,
    short_at,
)
from router.wire.format import MAX_BODY_LENGTH, VERSION, Flags, FrameType
from router.wire.header import ETHERNET_HEADER_LENGTH as ETHERNET, HEADER_LENGTH, HEADER_OFFSETS, node_address

#: Matching is compiled into the data plane.
COMPILER = Compiler(
    "forwarding",
    "router.forwarding.*",
    "router.clock.meter",
    "router.wire.header",
    "router.recording",
    "router.system",
    *MATCHING.sources,
)
kernel, callee = COMPILER.kernel, COMPILER.callee

#: What an interface that matches has in `layout.OPEN`: each message is the first search there.
_FIRST_TURN = 1
_MESSAGE, _SIGNED = int(FrameType.MSG), int(Flags.SIGNED)
#: Offset of the source address in an Ethernet frame, and the first two bytes of a router's address.
SOURCE, _ROUTERS = 6, int.from_bytes(node_address(0)[:2], "big")
#: Offsets in the header of a frame.
_TYPE, _FLAGS, HOP_LIMIT, _ISSUER, _EPOCH, _TOTAL_LENGTH, _INDEX, _FRAGMENTS, LENGTH, _RESERVED = (
    HEADER_OFFSETS[name]
    for name in (
        "type",
        "flags",
        "hop_limit",
        "issuer",
        "epoch",
        "total_length",
        "fragment_index",
        "fragment_count",
        "payload_length",
        "reserved",
    )
)
#: Steps of searches in a call of `forward`, some 1 ms, from which on the rest of the batch is the core's: it
#: looks at the clock between two messages.
_BATCH_STEPS = 100_000
#: Pages of an output set that is empty, and of one that one frame cannot address.
_NO_PAGE, SEVERAL = -1, -2


@callee
def class_of_message(state: Address, frame: Address, size: I64) -> Address:
    """The row of the class of a message's source, or 0: the frame is the core's."""
    if size < ETHERNET + HEADER_LENGTH or load_u16(frame + SOURCE) != _ROUTERS:
        return 0
    at = frame + ETHERNET
    total = load_u32(at + _TOTAL_LENGTH)
    if (
        load_u8(at) != VERSION
        or load_u8(at + _TYPE) != _MESSAGE
        or load_u8(at + _FLAGS) & _SIGNED
        or load_u8(at + HOP_LIMIT) < 2
        or load_u16(at + _INDEX) != 0
        or load_u16(at + _FRAGMENTS) != 1
        or load_u16(at + LENGTH) != total
        or load_u16(at + _RESERVED) != 0
        or total > MAX_BODY_LENGTH
        or total > size - ETHERNET - HEADER_LENGTH
        or total > long_at(state, layout.BODY_ROOM)
        or total + HEADER_LENGTH > long_at(state, layout.MTU)
    ):
        return 0
    source, epoch = load_u32(at + _ISSUER), load_u32(at + _EPOCH)
    rows = long_at(state, layout.EPOCHS)
    for _ in range(long_at(state, layout.EPOCH_COUNT)):
        if long_at(rows, layout.EPOCH) == epoch:
            if source == long_at(state, layout.NODE) or source >= long_at(rows, layout.EPOCH_SOURCES):
                return 0
            number = short_at(long_at(rows, layout.EPOCH_CLASS_OF), source)
            if number == 0:
                return 0
            row = long_at(rows, layout.EPOCH_CLASSES) + 8 * layout.CLASS_WIDTH * number
            return row if long_at(row, layout.CLASS_SENDER) == load_u32(frame + SOURCE + 2) else 0
        rows += 8 * layout.EPOCH_WIDTH
    return 0


@callee
def outputs(state: Address, row: Address, body: Address, size: I64) -> Tuple:
    """Page and bits of the interfaces that a message goes to, and whether p0 selects the message.

    The page `SEVERAL`: the message is the core's.
    """
    dense, entries = long_at(state, layout.DENSE), long_at(state, layout.DENSE_SIZE)
    open_, local = long_at(state, layout.OPEN), int_at(dense, 0)
    first, end, limit = long_at(row, layout.CLASS_FIRST), long_at(row, layout.CLASS_END), 0
    if local:
        put_byte(open_, local, 0)
        limit = 1
    for child in range(first, end, 8 * layout.CHILD_WIDTH):
        number = _number_of(child, dense, entries)
        if number > 0 and byte_at(open_, number) == CLOSED:
            put_byte(open_, number, 0)
            limit += 1
    put_byte(open_, 0, 0)
    found = match_at(body, size, long_at(state, layout.TABLE), open_, limit, 0)
    put_byte(open_, 0, CLOSED)
    page, bits = _NO_PAGE, 0
    for child in range(first, end, 8 * layout.CHILD_WIDTH):
        number = _number_of(child, dense, entries)
        if number < 0 or byte_at(open_, number) == _FIRST_TURN:
            if page != _NO_PAGE and page != long_at(child, layout.CHILD_PAGE):
                page = SEVERAL
                break
            page = long_at(child, layout.CHILD_PAGE)
            bits |= long_at(child, layout.CHILD_BIT)
    if found < 0:
        page = SEVERAL
    selected = byte_at(open_, local) == _FIRST_TURN
    put_byte(open_, local, CLOSED)
    for child in range(first, end, 8 * layout.CHILD_WIDTH):
        put_byte(open_, max(0, _number_of(child, dense, entries)), CLOSED)
    return page, bits, selected


@callee
def steps_spent(state: Address) -> I64:
    """The steps of all searches so far (`Search.SPENT`)."""
    return long_at(long_at(long_at(state, layout.TABLE), TABLE_SEARCH), Search.SPENT)


@callee
def is_long(state: Address, before: I64) -> Flag:
    """Whether the searches since `steps_spent` returned `before` have taken long."""
    return steps_spent(state) - before > _BATCH_STEPS


@callee
def count_through(state: Address, row: Address, page: I64, bits: I64) -> Flag:
    """Counts a message at its interfaces; False: nothing was counted, since the core has to know."""
    counted, size = long_at(state, layout.COUNTED), long_at(state, layout.COUNTED_SIZE)
    if not counted:
        return True
    first_child, end = long_at(row, layout.CLASS_FIRST), long_at(row, layout.CLASS_END)
    for counting in range(2):
        before = 0
        for child in range(first_child, end, 8 * layout.CHILD_WIDTH):
            interface = long_at(child, layout.CHILD_INTERFACE)
            # A child has a row for each entry that decides about it, one behind the other.
            first = interface != before
            before = interface
            if (
                first
                and long_at(child, layout.CHILD_PAGE) == page
                and bits & long_at(child, layout.CHILD_BIT)
            ):
                if counting:
                    put_long(counted, interface, long_at(counted, interface) + 1)
                elif interface >= size or _core_has_to_know(state, interface):
                    return False
    return True


@callee
def _core_has_to_know(state: Address, interface: I64) -> Flag:
    """Whether another message through an interface makes something due, now or at a moment of its own."""
    over = long_at(long_at(state, layout.COUNTED), interface) - long_at(state, layout.COUNT_LIMIT)
    due = real_at(long_at(state, layout.COUNT_DUE), interface)
    if over < 0 or due == np.inf:
        return False
    # The core knows the moment once the count is above the limit.
    return over == 0 or real_at(state, layout.NOW) >= due


@callee
def _number_of(child: Address, dense: Address, entries: I64) -> I64:
    """The matcher's number for a child's predicate; 0: none, it is empty; -1: messages always go there."""
    entry = long_at(child, layout.CHILD_ENTRY)
    if entry < 0:
        return np.int64(-1)
    return int_at(dense, entry) if entry < entries else np.int64(0)


@callee
def is_due(state: Address) -> Flag:
    """Whether a count of messages makes something due with the next message."""
    counted, limit = long_at(state, layout.COUNTED), long_at(state, layout.COUNT_LIMIT)
    if counted:
        due, now = long_at(state, layout.COUNT_DUE), real_at(state, layout.NOW)
        for interface in range(long_at(state, layout.COUNTED_SIZE)):
            if long_at(counted, interface) > limit and now >= real_at(due, interface):
                return True
    return False
