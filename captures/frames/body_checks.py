"""Compiled checks of one body: whether the codec is certain to decode it.

Only the codec rejects bodies. The checks accept the bodies that make up most captures: MSG, RA, UR and the
frames of one number, with or without TLVs of unknown types. The codec decodes every body that the checks
accept (tests hold the two together), and decides on all others.

Addresses are not checked: each load follows a comparison with the end of the body.

Importing this module imports numba.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from captures.pcap.compiling import compiler
from router.native.memory import load_u8, load_u16, load_u32
from router.predicates.model import STRING_MAX_BYTES, Operator, Type
from router.wire.format import FrameType, Names, Tlv
from router.wire.header import FRAME_FORMATS, SIZES, TLV_FORMATS, TYPE_NAMES
from router.wire.tlv import NEVER_SKIPPED, TLV_HEADER_LENGTH

MSG, RA, UR = int(FrameType.MSG), int(FrameType.RA), int(FrameType.UR)
STRING, INTEGER, DOUBLE, BOOLEAN = (int(each) for each in Type)
ANY = int(Operator.ANY)
_PREFIX, _SUBSTRING = int(Operator.PREFIX), int(Operator.SUBSTRING)
ATTRIBUTE, FILTER = int(Tlv.ATTRIBUTE), int(Tlv.FILTER)
#: A message with more attributes is left to the codec: comparing each name with each would take long.
MOST_ATTRIBUTES = 32

#: Frames whose body is one number in one TLV.
NUMBERS = (FrameType.SR, FrameType.HELLO, FrameType.COMMIT, FrameType.ACK, FrameType.RECEIPT)
#: Frame type -> TLV of the number (0: no such frame), bytes of the number, and whether it is a frame type.
_NUMBER_TLV, _NUMBER_SIZE = np.zeros(256, np.int64), np.zeros(256, np.int64)
_NAMES_A_TYPE = np.zeros(256, np.bool_)
for _frame in NUMBERS:
    ((_tlv, _),) = FRAME_FORMATS[_frame].tlvs
    (_field,) = TLV_FORMATS[_tlv].fields
    _NUMBER_TLV[_frame], _NUMBER_SIZE[_frame] = _tlv, SIZES[_field.layout]
    _NAMES_A_TYPE[_frame] = _field.names is Names.FRAME_TYPES
assert set(_NUMBER_SIZE.tolist()) <= {0, 1, 4}
_IS_FRAME_TYPE = np.isin(np.arange(256), list(TYPE_NAMES))

callee, inlined = compiler().callee, compiler().inlined


@callee
def _sequence_length(at: int, end: int) -> int:
    """The bytes of the UTF-8 sequence at `at`, whose first byte is not ASCII; 0: malformed."""
    first = load_u8(at)
    if first < 0xC2 or first > 0xF4:
        return 0
    length = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    if at + length > end:
        return 0
    for position in range(at + 1, at + length):
        if load_u8(position) & 0xC0 != 0x80:
            return 0
    second = load_u8(at + 1)
    # Longer than necessary; surrogates; behind the last code point.
    if (first == 0xE0 and second < 0xA0) or (first == 0xED and second > 0x9F):
        return 0
    if (first == 0xF0 and second < 0x90) or (first == 0xF4 and second > 0x8F):
        return 0
    return length


@callee
def _is_text(at: int, end: int) -> bool:
    """Whether bytes are UTF-8."""
    while at < end:
        if load_u8(at) < 128:
            at += 1
            continue
        length = _sequence_length(at, end)
        if length == 0:
            return False
        at += length
    return True


@inlined
def _is_value(at: int, end: int, value_type: int) -> bool:
    size = end - at
    if value_type == STRING:
        return size <= STRING_MAX_BYTES and _is_text(at, end)
    if value_type == INTEGER:
        return size == 8
    if value_type == DOUBLE:
        # All ones in the exponent: infinite, or no number.
        return size == 8 and not (load_u8(at) & 0x7F == 0x7F and load_u8(at + 1) & 0xF0 == 0xF0)
    return value_type == BOOLEAN and size == 1 and load_u8(at) <= 1


@callee
def _is_new_name(name: int, names: Any, known: int) -> bool:
    """Whether the name at `name` (its length first) is none of the `known` ones before it."""
    for number in range(known):
        other = names[number]
        position = 0
        while position <= load_u8(name) and load_u8(other + position) == load_u8(name + position):
            position += 1
        if position > load_u8(name):
            return False
    return True


@callee
def _may_be_skipped(tlv: int) -> bool:
    """Whether a TLV type is unknown: a function of its own, so that the loops over known TLVs stay short."""
    return tlv not in NEVER_SKIPPED


@callee
def attributes_of(at: int, end: int, names: Any) -> int:
    """How many attributes the body [at, end) of a MSG has; -1: it is left to the codec.

    Args:
        names: room for `MOST_ATTRIBUTES` numbers; takes the address of each name's length. The length of its
            TLV is the u32 before.
    """
    known = 0
    while at < end:
        name = at + TLV_HEADER_LENGTH
        if name > end:
            return -1
        behind = name + load_u32(at + 1)
        if behind > end:
            return -1
        tlv = load_u8(at)
        at = behind
        if tlv != ATTRIBUTE:
            if not _may_be_skipped(tlv):
                return -1
            continue
        if name == behind or load_u8(name) == 0 or known == MOST_ATTRIBUTES:
            return -1
        value_type = name + 1 + load_u8(name)
        if value_type >= behind:
            return -1
        if not _is_text(name + 1, value_type) or not _is_new_name(name, names, known):
            return -1
        if not _is_value(value_type + 1, behind, load_u8(value_type)):
            return -1
        names[known] = name
        known += 1
    return known


@callee
def is_predicate(at: int, end: int) -> bool:
    """Whether the body [at, end) of an RA or UR is accepted."""
    while at < end:
        start = at + TLV_HEADER_LENGTH
        if start > end:
            return False
        behind = start + load_u32(at + 1)
        if behind > end:
            return False
        tlv = load_u8(at)
        if tlv != FILTER:
            if not _may_be_skipped(tlv):
                return False
            at = behind
            continue
        at = start
        while at < behind:
            value_type = at + 1 + load_u8(at)
            value = value_type + 4
            if load_u8(at) == 0 or value > behind or not _is_text(at + 1, value_type):
                return False
            operator = load_u8(value_type + 1)
            at = value + load_u16(value_type + 2)
            if at > behind:
                return False
            if operator == ANY:
                if at != value or load_u8(value_type) == 0 or load_u8(value_type) > BOOLEAN:
                    return False
                continue
            if operator == 0 or operator > ANY or not _is_value(value, at, load_u8(value_type)):
                return False
            if _PREFIX <= operator <= _SUBSTRING and load_u8(value_type) != STRING:
                return False
    return True


@callee
def number_in(at: int, end: int, frame_type: int) -> int:
    """The number in the body [at, end) of a frame type of `NUMBERS`; -1: it is left to the codec."""
    number = -1
    while at < end:
        start = at + TLV_HEADER_LENGTH
        if start > end:
            return -1
        behind = start + load_u32(at + 1)
        if behind > end:
            return -1
        tlv = load_u8(at)
        at = behind
        if tlv == _NUMBER_TLV[frame_type]:
            if number >= 0 or behind - start != _NUMBER_SIZE[frame_type]:
                return -1
            number = load_u32(start) if behind - start == 4 else load_u8(start)
        elif not _may_be_skipped(tlv):
            return -1
    if number >= 0 and _NAMES_A_TYPE[frame_type] and not _IS_FRAME_TYPE[number]:
        return -1
    return number


@callee
def is_number(frame_type: int) -> bool:
    """Whether a frame type is one of `NUMBERS`."""
    return bool(_NUMBER_TLV[frame_type] != 0)


@inlined
def is_well_formed_body(at: int, end: int, type_: int, names: Any) -> bool:
    """Whether the body [at, end) of a frame of type `type_` is accepted; `names` as in `attributes_of`."""
    if type_ == MSG:
        return attributes_of(at, end, names) >= 0
    if type_ in (RA, UR):
        return is_predicate(at, end)
    return is_number(type_) and number_in(at, end, type_) >= 0
