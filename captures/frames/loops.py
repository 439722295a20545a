"""Compiled loops over many frames: how much each router sent, which bodies are equal, where fragments are.

Only the codec rejects frames. `captures.frames.body_checks` says which bodies the loops accept.

The loops read memory by address. To numba an item of an array is a calculation of its place, and an array as
an argument is seven numbers and a count of its users: several times slower for a few bytes here and there.
Nothing checks an address: each load stands behind a comparison with the end of its frame.

Importing this module imports numba.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from captures.frames.body_checks import MOST_ATTRIBUTES, is_well_formed_body
from captures.pcap.compiling import compiler
from router.native.memory import address_of, load_u8, load_u16, load_u32
from router.wire.addresses import (
    CONTROLLER_DESTINATION,
    CONTROLLER_SOURCE,
    ETHERNET_HEADER_LENGTH,
    ETHERTYPE,
    node_address,
)
from router.wire.format import VERSION
from router.wire.header import HEADER_LENGTH, HEADER_OFFSETS

_TYPE, _TOTAL_LENGTH = HEADER_OFFSETS["type"], HEADER_OFFSETS["total_length"]
_FRAGMENT_INDEX, _FRAGMENT_COUNT = HEADER_OFFSETS["fragment_index"], HEADER_OFFSETS["fragment_count"]
_PAYLOAD_LENGTH, _RESERVED = HEADER_OFFSETS["payload_length"], HEADER_OFFSETS["reserved"]
_CONTROLLER, _TO_CONTROLLER = (
    int.from_bytes(each, "big") for each in (CONTROLLER_SOURCE, CONTROLLER_DESTINATION)
)
_NODE_PREFIX = int.from_bytes(node_address(0)[:2], "big")

#: Captures: of no run, of a link, of a router's own link.
ANY_CAPTURE, LINK, HOST = 0, 1, 2

Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]


kernel, callee, inlined = compiler().kernel, compiler().callee, compiler().inlined


@inlined
def _is_well_formed_frame(at: int, captured: int, names: Any) -> bool:
    """Whether `captured` bytes are an Ethernet frame with a whole CBCB frame that is accepted."""
    header = at + ETHERNET_HEADER_LENGTH
    body = header + HEADER_LENGTH
    if captured < ETHERNET_HEADER_LENGTH + HEADER_LENGTH or load_u16(at + 12) != ETHERTYPE:
        return False
    # Version; no fragment: index 0 of 1; reserved bytes.
    if (
        load_u8(header) != VERSION
        or load_u32(header + _FRAGMENT_INDEX) != 1
        or load_u16(header + _RESERVED) != 0
    ):
        return False
    length = load_u16(header + _PAYLOAD_LENGTH)
    if length != load_u32(header + _TOTAL_LENGTH) or at + captured < body + length:
        return False
    return is_well_formed_body(body, body + length, load_u8(header + _TYPE), names)


@inlined
def _sender(at: int) -> Any:
    """The node whose source address a frame has; -1: the controller, -2: neither."""
    high, low = load_u16(at + 6), load_u32(at + 8)
    if high == _NODE_PREFIX and low < 2147483648:
        return low
    return -1 if high << 32 | low == _CONTROLLER else -2


@kernel
def count_well_formed(
    base: int,
    start: Any,
    captured: Any,
    length: Any,
    time_ns: Any,
    capture: int,
    u: int,
    v: int,
    bin_ns: int,
    salts: tuple[Any, Any],
    bits: int,
    slots: Any,
    groups: Any,
    known: int,
    left: Any,
) -> tuple[int, int]:
    """Counts the well-formed frames with a sender that their capture can have.

    Args:
        base: address of the bytes in which row i begins at start[i].
        capture: `LINK` (between nodes u and v), `HOST` or `ANY_CAPTURE`.
        salts: two odd numbers of 64 bits, drawn for this use: whoever makes a file must not know what falls
            into one slot.
        slots: 2**bits of them, more than `groups` has rows; -1 at first.
        groups: shape (room, 5). A row: what the frames of a group have in common (two numbers), how many they
            are, their bytes, and the first row of a group that is new.
        known: how many groups there are already.
        left: takes the rows that are not counted: other frames, and groups for which there is no room.

    Returns:
        How many groups there are now, and how many rows are in `left`.
    """
    names = np.empty(MOST_ATTRIBUTES, np.int64)
    last_slot = len(slots) - 1
    shift = np.uint64(64 - bits)
    count = 0
    bin_start = bin_end = 0
    for row in range(len(start)):
        at = base + start[row]
        sender = -2
        if time_ns[row] > -9223372036854775808 and _is_well_formed_frame(at, captured[row], names):
            sender = _sender(at)
            if capture == LINK and sender != u and sender != v:
                sender = -2
        if sender == -2:
            left[count] = row
            count += 1
            continue
        if not bin_start <= time_ns[row] < bin_end:
            bin_start = time_ns[row] // bin_ns * bin_ns
            bin_end = bin_start + bin_ns
        to_controller = capture == HOST and load_u16(at) << 32 | load_u32(at + 2) == _TO_CONTROLLER
        ends = (sender + 1) << 9 | to_controller << 8 | load_u8(at + ETHERNET_HEADER_LENGTH + _TYPE)
        # Multiply-shift: the upper bits of the sum.
        code = np.uint64(bin_start) * salts[0] + np.uint64(ends) * salts[1]
        slot = np.int64(code >> shift)
        group = slots[slot]
        while group >= 0 and (groups[group, 0] != ends or groups[group, 1] != bin_start):
            slot = (slot + 1) & last_slot
            group = slots[slot]
        if group < 0 and known == len(groups):
            left[count] = row
            count += 1
            continue
        if group < 0:
            group = known
            known += 1
            slots[slot] = group
            groups[group, 0], groups[group, 1] = ends, bin_start
            groups[group, 2] = groups[group, 3] = 0
            groups[group, 4] = row
        groups[group, 2] += 1
        groups[group, 3] += length[row]
    return known, count


@kernel
def _survey(base: int, start: Any, captured: Any, seen: Any, fragments: Any) -> int:
    """Marks in seen[256] the types; the number of rows put into `fragments`."""
    count = 0
    for row in range(len(start)):
        at = base + start[row]
        header = at + ETHERNET_HEADER_LENGTH
        if captured[row] < ETHERNET_HEADER_LENGTH + _FRAGMENT_COUNT + 2 or load_u16(at + 12) != ETHERTYPE:
            continue
        seen[load_u8(header + _TYPE)] = True
        if load_u16(header + _FRAGMENT_COUNT) != 1:
            fragments[count] = row
            count += 1
    return count


@kernel
def _group(base: int, start: Any, length: Any, kind: Any, group: Any, first: Any) -> int:
    """group[i]: number of row i's body among the distinct ones; first[g]: a row that has body g."""
    rows = len(start)
    size = 16
    while size < 2 * rows:
        size *= 2
    slots = np.full(size, -1, np.int64)
    groups = 0
    for row in range(rows):
        at = base + start[row]
        here = length[row]
        # FNV-1a, 32 bits.
        code = np.uint64(2166136261) ^ np.uint64(kind[row])
        for position in range(at, at + here):
            code = ((code ^ np.uint64(load_u8(position))) * np.uint64(16777619)) & np.uint64(0xFFFFFFFF)
        slot = np.int64(code ^ (code >> np.uint64(15))) & (size - 1)
        while True:
            found = slots[slot]
            if found < 0:
                slots[slot] = groups
                first[groups] = row
                group[row] = groups
                groups += 1
                break
            other = first[found]
            if kind[other] == kind[row] and length[other] == here:
                same = True
                position = 0
                while same and position < here:
                    same = load_u8(base + start[other] + position) == load_u8(at + position)
                    position += 1
                if same:
                    group[row] = found
                    break
            slot = (slot + 1) & (size - 1)
    return groups


def survey(raw: Bytes, start: Int64s, captured: Int64s) -> tuple[Int64s, Int64s]:
    """The numbers of the CBCB frame types, and the rows that have or claim to have a part of a body."""
    seen, fragments = np.zeros(256, np.bool_), np.empty(len(start), np.int64)
    count = _survey(address_of(raw), start, captured, seen, fragments)
    return np.flatnonzero(seen), fragments[:count]


def group_bodies(raw: Bytes, start: Int64s, length: Int64s, kind: Int64s) -> tuple[Int64s, Int64s]:
    """The number of each row's body among the distinct ones, and for each of these a row that has it."""
    group, first = np.empty(len(start), np.int64), np.empty(len(start), np.int64)
    groups = _group(address_of(raw), start, length, kind, group, first)
    return group, first[:groups]
