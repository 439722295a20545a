"""Bodies as columns of Arrow, by compiled code: the attributes of messages, the predicates of RAs and URs.

Only the codec rejects bodies. The compiled code accepts most bodies, with or without TLVs of unknown types.
The codec decodes every body that is accepted here, to the same values (tests hold the two together), and
decides on all others.

Predicates are taken apart by compiled code and joined by Arrow; the printer makes the text of each distinct
name and value once.

Addresses are not checked: each load follows a comparison with the end of the body. To numba an item of an
array is a calculation of its place: several times slower for a few bytes here and there.

Importing this module imports numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from captures.frames.columns import ATTRIBUTES, NUMBER, VALUE
from captures.pcap.blocks import gather_bytes
from captures.pcap.compiling import compiler
from router.native import address_of, is_text, load_u8, load_u16, load_u32, load_u64, put_byte
from router.predicates import STRING_MAX_BYTES, SYMBOLS, Operator, Type
from router.predicates.printer import format_name, format_value
from router.wire.format import Tlv
from router.wire.tlv import NEVER_SKIPPED, TLV_HEADER_LENGTH, TYPES, decode_value

STRING, INTEGER, DOUBLE, BOOLEAN = (int(each) for each in Type)
ATTRIBUTE = int(Tlv.ATTRIBUTE)
#: A message with more attributes is left to the codec: comparing each name with each would take long.
MOST_ATTRIBUTES = 32
#: An attribute takes at least so many bytes: header of the TLV, name of one letter, type.
_LEAST_ATTRIBUTE = 8

Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

kernel, callee = compiler().kernel, compiler().callee


@callee
def is_value(at: int, end: int, value_type: int) -> bool:
    size = end - at
    if value_type == STRING:
        return size <= STRING_MAX_BYTES and is_text(at, end)
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
def may_be_skipped(tlv: int) -> bool:
    """Whether a TLV type is unknown: a function of its own, so that the loop over known TLVs stays short."""
    return tlv not in NEVER_SKIPPED


@callee
def _end_of_tlv(at: int, end: int) -> int:
    """Where the TLV at `at` ends; -1: beyond `end`."""
    value = at + TLV_HEADER_LENGTH
    if value > end:
        return -1
    behind = value + load_u32(at + 1)
    return behind if behind <= end else -1


@callee
def _attributes_of(at: int, end: int, names: Any) -> int:
    """How many attributes the body [at, end) has; -1: it is left to the codec.

    Args:
        names: room for `MOST_ATTRIBUTES` numbers; takes the address of each name's length. The length of its
            TLV is the u32 before.
    """
    known = 0
    while at < end:
        behind = _end_of_tlv(at, end)
        if behind < 0:
            return -1
        tlv, name = load_u8(at), at + TLV_HEADER_LENGTH
        at = behind
        if tlv != ATTRIBUTE:
            if not may_be_skipped(tlv):
                return -1
            continue
        if name == behind or load_u8(name) == 0 or known == MOST_ATTRIBUTES:
            return -1
        value_type = name + 1 + load_u8(name)
        if value_type >= behind:
            return -1
        if not is_text(name + 1, value_type) or not _is_new_name(name, names, known):
            return -1
        if not is_value(value_type + 1, behind, load_u8(value_type)):
            return -1
        names[known] = name
        known += 1
    return known


@callee
def _copy(at: int, end: int, out: int, to: int) -> int:
    for position in range(end - at):
        put_byte(out, to + position, load_u8(at + position))
    return to + end - at


@kernel
def _fill(
    base: int,
    start: Any,
    length: Any,
    required: bool,
    accepted: Any,
    first_attribute: Any,
    name_start: Any,
    names: int,
    value_type: Any,
    bits: Any,
    string_start: Any,
    strings: int,
) -> int:
    """Fills the buffers from the bodies of `length` bytes at base + start; a length below 0 is of no body.

    Attributes of all rows are numbered through. Returns how many there are.

    Args:
        required: whether attributes are filled in; bodies are checked in any case.
        accepted: takes whether each row's body is accepted.
        first_attribute: takes the number of each row's first attribute, and of all; shape (rows + 1,).
        name_start: takes where each attribute's name starts in the bytes at `names`, and where the last ends.
        value_type: takes the type of each attribute's value.
        bits: takes the value of an integer, a boolean or a double (its bits); 0 of a string.
        string_start: as `name_start`, for `strings`; empty where the value is no string.
    """
    at_names = np.empty(MOST_ATTRIBUTES, np.int64)
    attribute = name_end = string_end = 0
    for row in range(len(start)):
        first_attribute[row] = attribute
        accepted[row] = False
        if length[row] < 0:
            continue
        at = base + start[row]
        count = _attributes_of(at, at + length[row], at_names)
        accepted[row] = count >= 0
        for index in range(count if required else 0):
            name = at_names[index]
            kind = name + 1 + load_u8(name)
            behind = name + load_u32(name - 4)
            name_start[attribute] = name_end
            name_end = _copy(name + 1, kind, names, name_end)
            string_start[attribute] = string_end
            of_type = load_u8(kind)
            value_type[attribute] = of_type
            if of_type == STRING:
                bits[attribute] = 0
                string_end = _copy(kind + 1, behind, strings, string_end)
            else:
                bits[attribute] = load_u8(kind + 1) if of_type == BOOLEAN else load_u64(kind + 1)
            attribute += 1
    first_attribute[len(start)] = attribute
    name_start[attribute], string_start[attribute] = name_end, string_end
    return attribute


def decode_messages(
    data: bytes | memoryview, start: Int64s, length: Int64s, *, attributes: bool = True
) -> tuple[Mask, pa.MapArray | None]:
    """Decodes the bodies data[start:start+length] of messages: which are accepted, and column `attributes`.

    Args:
        length: bytes of each body; below 0: it is the body of no MSG, and not accepted.
        attributes: whether the column is required; otherwise it is None. It is null of other bodies.
    """
    rows = len(start)
    # The buffers have room for whatever the bodies hold; memory that is not written to costs nothing.
    room = int(np.maximum(length, 0).sum()) if attributes else 0
    most = room // _LEAST_ATTRIBUTE + 1
    accepted, first_attribute = np.empty(rows, np.bool_), np.empty(rows + 1, np.int32)
    name_start, string_start = np.empty(most + 1, np.int32), np.empty(most + 1, np.int32)
    names, strings = np.empty(room, np.uint8), np.empty(room, np.uint8)
    kinds, bits = np.empty(most, np.uint8), np.empty(most, np.int64)
    count = _fill(
        address_of(np.frombuffer(data, np.uint8)), start, length, attributes, accepted, first_attribute,
        name_start, address_of(names), kinds, bits, string_start, address_of(strings),
    )  # fmt: skip
    if not attributes:
        return accepted, None
    keys = pa.StringArray.from_buffers(count, pa.py_buffer(name_start), pa.py_buffer(names))
    values = _values(kinds[:count], bits[:count], string_start, strings)
    offsets = pa.Array.from_buffers(pa.int32(), rows + 1, [None, pa.py_buffer(first_attribute)])
    nulls = None if accepted.all() else pa.array(~accepted)
    return accepted, pa.MapArray.from_arrays(offsets, keys, values, type=ATTRIBUTES, mask=nulls)


def _values(kinds: Bytes, bits: Int64s, string_start: npt.NDArray[np.int32], strings: Bytes) -> pa.Array:
    """Values of these types, each with its field set."""
    numbers = np.where(kinds == DOUBLE, bits.view(np.float64), bits.astype(np.float64))
    fields = [
        _of_kind(VALUE["string"], kinds == STRING, string_start, strings),
        _of_kind(VALUE["integer"], kinds == INTEGER, bits),
        _of_kind(VALUE["double"], kinds == DOUBLE, bits),
        _of_kind(VALUE["boolean"], kinds == BOOLEAN, np.packbits(bits != 0, bitorder="little")),
        _of_kind(NUMBER, (kinds == INTEGER) | (kinds == DOUBLE), numbers),
    ]
    return pa.StructArray.from_arrays(fields, fields=list(VALUE))


def _of_kind(field: pa.Field, has: Mask, *values: npt.NDArray[Any]) -> pa.Array:
    """An array of the values of one type, null where a value is of another."""
    if not has.any():
        return pa.nulls(len(has), field.type)
    valid = None if has.all() else pa.py_buffer(np.packbits(has, bitorder="little"))
    return pa.Array.from_buffers(field.type, len(has), [valid, *map(pa.py_buffer, values)])


FILTER = int(Tlv.FILTER)
ANY, PREFIX, SUBSTRING = (int(each) for each in (Operator.ANY, Operator.PREFIX, Operator.SUBSTRING))
#: Before a constraint: nothing, in a filter, and between filters.
_FIRST, _AND, _OR = range(3)
_CONNECTIVES = pa.array(["", " and ", " or "])
_OPERATORS = {int(operator): f" {symbol} " for operator, symbol in SYMBOLS.items()}
#: Before the value of a constraint: its type, the operator and its length.
_HEAD = 4


@callee
def _constraints_of(at: int, end: int, base: int, items: Any, count: int) -> int:
    """Writes the constraints of the body [at, end) to `items`, from row `count` on.

    Returns the row behind them; -1: the body is left to the codec.
    """
    connective = _FIRST
    while at < end:
        behind = _end_of_tlv(at, end)
        if behind < 0:
            return -1
        tlv, name = load_u8(at), at + TLV_HEADER_LENGTH
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
def _fill_predicates(base: int, offsets: Any, accepted: Any, first: Any, items: Any) -> int:
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
    count = _fill_predicates(address_of(raw), offsets, accepted, first, items)
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
