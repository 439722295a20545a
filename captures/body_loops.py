"""Compiled loops over the bodies of many frames: which surely decode, and which are the same.

The codec decides what is wrong with a body. That nothing is wrong can be said without it for the bodies
that make up most captures, those of MSG, RA, UR and SR frames in ASCII: `surely_good` is true of a body only
if the codec decodes it (tests hold the two together).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from captures.packets.compiling import Loop
from router.predicates.model import Operator, Type
from router.wire.frames import FrameType
from router.wire.tlv import Tlv

_MSG, _RA, _SR, _UR = (int(kind) for kind in (FrameType.MSG, FrameType.RA, FrameType.SR, FrameType.UR))
_ATTRIBUTE, _FILTER, _TIMEOUT = int(Tlv.ATTRIBUTE), int(Tlv.FILTER), int(Tlv.TIMEOUT)
_STRING, _INTEGER, _DOUBLE, _BOOLEAN = (int(kind) for kind in Type)
_PREFIX, _SUBSTRING, _ANY = int(Operator.PREFIX), int(Operator.SUBSTRING), int(Operator.ANY)
#: A message with more attributes is left to the codec: comparing each name with each would take long.
_MOST_ATTRIBUTES = 32

Int64s = npt.NDArray[np.int64]


def _surely_good(data: Any, start: Any, length: Any, kind: Any, good: Any) -> None:
    """good[i] = 1 if the body data[start[i]:start[i]+length[i]] of a frame of type kind[i] surely decodes."""
    names = np.empty(_MOST_ATTRIBUTES, np.int64)
    for row in range(len(start)):
        at = start[row]
        end = at + length[row]
        number = kind[row]
        good[row] = 0
        if number == _SR:
            if (
                end - at == 9
                and data[at] == _TIMEOUT
                and data[at + 1] | data[at + 2] | data[at + 3] == 0
                and data[at + 4] == 4
            ):
                good[row] = 1
            continue
        if number != _MSG and number != _RA and number != _UR:
            continue
        known = 0
        fine = True
        while fine and at < end:
            if end - at < 5 or data[at + 1] != 0:
                fine = False
                break
            tlv = data[at]
            following = at + 5 + (data[at + 2] << 16 | data[at + 3] << 8 | data[at + 4])
            at += 5
            if following > end or (tlv != _ATTRIBUTE if number == _MSG else tlv != _FILTER):
                fine = False
                break
            # A message's TLV is one attribute, a predicate's any number of constraints.
            if number == _MSG and at == following:
                fine = False
            while fine and at < following:
                name_length = data[at]
                name = at
                at += 1 + name_length
                if name_length == 0 or at + (1 if number == _MSG else 4) > following:
                    fine = False
                    break
                for position in range(name + 1, at):
                    if data[position] >= 128:
                        fine = False
                value_type = data[at]
                if number == _MSG:
                    at += 1
                    value_end = following
                    for other in range(known):
                        same = data[names[other]] == name_length
                        position = 1
                        while same and position <= name_length:
                            same = data[names[other] + position] == data[name + position]
                            position += 1
                        if same:
                            fine = False
                    if known == _MOST_ATTRIBUTES:
                        fine = False
                    else:
                        names[known] = name
                        known += 1
                else:
                    operator = data[at + 1]
                    value_end = at + 4 + (data[at + 2] << 8 | data[at + 3])
                    at += 4
                    if value_end > following or operator == 0 or operator > _ANY:
                        fine = False
                        break
                    if _PREFIX <= operator <= _SUBSTRING and value_type != _STRING:
                        fine = False
                    if operator == _ANY:
                        if value_end != at or value_type == 0 or value_type > _BOOLEAN:
                            fine = False
                        continue
                size = value_end - at
                if value_type == _STRING:
                    if size > 65535:
                        fine = False
                    for position in range(at, value_end):
                        if data[position] >= 128:
                            fine = False
                elif value_type == _INTEGER:
                    if size != 8:
                        fine = False
                elif value_type == _DOUBLE:
                    # All ones in the exponent: infinite, or no number.
                    if size != 8 or (data[at] & 0x7F == 0x7F and data[at + 1] & 0xF0 == 0xF0):
                        fine = False
                elif value_type == _BOOLEAN:
                    if size != 1 or data[at] > 1:
                        fine = False
                else:
                    fine = False
                at = value_end
            at = following
        if fine:
            good[row] = 1


def _group(data: Any, start: Any, length: Any, kind: Any, group: Any, first: Any) -> int:
    """group[i]: number of the body of row i among the distinct ones; first[g]: a row that has body g."""
    rows = len(start)
    size = 16
    while size < 2 * rows:
        size *= 2
    slots = np.full(size, -1, np.int64)
    groups = 0
    for row in range(rows):
        at = start[row]
        here = length[row]
        # FNV-1a, 32 bits.
        code = np.uint64(2166136261) ^ np.uint64(kind[row])
        for position in range(at, at + here):
            code = ((code ^ np.uint64(data[position])) * np.uint64(16777619)) & np.uint64(0xFFFFFFFF)
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
                    same = data[start[other] + position] == data[at + position]
                    position += 1
                if same:
                    group[row] = found
                    break
            slot = (slot + 1) & (size - 1)
    return groups


_SURELY_GOOD, _GROUP = Loop(_surely_good), Loop(_group)


def surely_good(
    raw: npt.NDArray[np.uint8], start: Int64s, length: Int64s, kind: Int64s
) -> npt.NDArray[np.bool_]:
    """Which bodies raw[start:start+length] of frames of these type numbers decode for certain."""
    good = np.empty(len(start), np.uint8)
    _SURELY_GOOD.compiled(raw, start, length, kind, good)
    return good.astype(np.bool_)


def group_bodies(
    raw: npt.NDArray[np.uint8], start: Int64s, length: Int64s, kind: Int64s
) -> tuple[Int64s, Int64s]:
    """The number of each row's body among the distinct ones, and for each of these a row that has it."""
    group, first = np.empty(len(start), np.int64), np.empty(len(start), np.int64)
    groups = _GROUP.compiled(raw, start, length, kind, group, first)
    return group, first[:groups]
