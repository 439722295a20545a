"""The predicates of RAs and URs as a column of Arrow: taken apart by compiled code, joined by Arrow.

Only the codec rejects bodies, as in `captures.frames.messages`: it decodes every body that is accepted here,
and decides on all others. The printer makes the text of each distinct name and value once. Tests hold the
texts equal to those of whole predicates.

Importing this module imports numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from captures.frames.messages import BOOLEAN, STRING, Bytes, Int64s, Mask, is_value, may_be_skipped
from captures.pcap.blocks import gather_bytes
from captures.pcap.compiling import compiler
from router.native import address_of, is_text, load_u8, load_u16, load_u32
from router.predicates import SYMBOLS, Operator
from router.predicates.printer import format_name, format_value
from router.wire.format import Tlv
from router.wire.tlv import TLV_HEADER_LENGTH, TYPES, decode_value

FILTER = int(Tlv.FILTER)
ANY, PREFIX, SUBSTRING = (int(each) for each in (Operator.ANY, Operator.PREFIX, Operator.SUBSTRING))
#: Before a constraint: nothing, in a filter, and between filters.
_FIRST, _AND, _OR = range(3)
_CONNECTIVES = pa.array(["", " and ", " or "])
_OPERATORS = {int(operator): f" {symbol} " for operator, symbol in SYMBOLS.items()}
#: Before the value of a constraint: its type, the operator and its length.
_HEAD = 4

kernel, callee = compiler().kernel, compiler().callee


@callee
def _constraints_of(at: int, end: int, base: int, items: Any, count: int) -> int:
    """Writes the constraints of the body [at, end) to `items`, from row `count` on.

    Returns the row behind them; -1: the body is left to the codec.
    """
    connective = _FIRST
    while at < end:
        name = at + TLV_HEADER_LENGTH
        if name > end:
            return -1
        behind = name + load_u32(at + 1)
        if behind > end:
            return -1
        tlv = load_u8(at)
        at = behind
        if tlv != FILTER:
            if not may_be_skipped(tlv):
                return -1
            continue
        if name == behind:
            items[count, 0], items[count, 1:] = connective, 0
            count += 1
        while name < behind:
            value_type = name + 1 + load_u8(name)
            value = value_type + _HEAD
            if value_type == name + 1 or value > behind or not is_text(name + 1, value_type):
                return -1
            kind, operator = load_u8(value_type), load_u8(value_type + 1)
            last = value + load_u16(value_type + 2)
            if last > behind or operator == 0 or operator > ANY:
                return -1
            if operator == ANY:
                if last != value or kind == 0 or kind > BOOLEAN:
                    return -1
            elif not is_value(value, last, kind) or (PREFIX <= operator <= SUBSTRING and kind != STRING):
                return -1
            items[count, 0] = connective
            items[count, 1], items[count, 2] = name + 1 - base, value_type - name - 1
            items[count, 3], items[count, 4] = value_type - base, last - value_type
            count += 1
            connective = _AND
            name = last
        connective = _OR
    return count


@kernel
def _fill(base: int, offsets: Any, accepted: Any, first: Any, items: Any) -> int:
    """Fills the arrays from the bodies between `offsets` behind `base`; returns how many items there are.

    Args:
        accepted: takes whether each body is accepted.
        first: takes the number of each body's first item, and of all; shape (bodies + 1,).
        items: takes, for each constraint, connective, start and length of the name, and start and length of
            what follows; of a filter without constraints, the lengths are 0. Shape (any number, 5).
    """
    count = 0
    for row in range(len(accepted)):
        first[row] = count
        behind = _constraints_of(base + offsets[row], base + offsets[row + 1], base, items, count)
        accepted[row] = behind >= 0
        count = max(count, behind)
    first[len(accepted)] = count
    return count


def decode_predicates(bodies: pa.BinaryArray, *, texts: bool) -> tuple[Mask, pa.StringArray | None]:
    """Decodes the bodies of RAs or URs: which are accepted, and their predicates in the readable notation.

    Args:
        bodies: not a slice of another array.
        texts: whether the predicates are required; otherwise None is returned. A body that is not accepted
            has some text.
    """
    _, starts, contents = bodies.buffers()
    offsets, raw = np.frombuffer(starts, np.int32, len(bodies) + 1), np.frombuffer(contents, np.uint8)
    accepted, first = np.empty(len(bodies), np.bool_), np.empty(len(bodies) + 1, np.int32)
    # An item is of at least the bytes of a FILTER. Memory that is not written to costs nothing.
    items = np.empty((len(raw) // TLV_HEADER_LENGTH + 1, 5), np.int64)
    count = _fill(address_of(raw), offsets, accepted, first, items)
    if not texts:
        return accepted, None
    connective, name, name_length, rest, rest_length = np.ascontiguousarray(items[:count].T)
    constraints = pc.binary_join_element_wise(
        _CONNECTIVES.take(pa.array(connective)),
        _formatted(raw, name, name_length, lambda name: format_name(name.decode()) if name else "*"),
        _formatted(raw, rest, rest_length, _condition),
        "",
    )
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(first), constraints), "")
    return accepted, pc.if_else(pc.equal(joined, ""), "none", joined)


def _formatted(raw: Bytes, start: Int64s, length: Int64s, text: Callable[[bytes], str]) -> pa.StringArray:
    """The texts of pieces of the data; each distinct piece is formatted once."""
    distinct = gather_bytes(raw.data, start, length).dictionary_encode()
    return pa.array(map(text, distinct.dictionary.to_pylist()), pa.string()).take(distinct.indices)


def _condition(constraint: bytes) -> str:
    """The text of a constraint without its name."""
    if not constraint:
        return ""
    kind, operator = constraint[0], constraint[1]
    if operator == ANY:
        return f" any {TYPES[kind].name.lower()}"
    return _OPERATORS[operator] + format_value(decode_value("", kind, constraint, _HEAD, len(constraint)))
