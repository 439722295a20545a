"""Bodies as sequences of TLVs (type, length, value): encoding and checked decoding.

Layout: docs/wire-format.md. Unknown TLV types are skipped; a known one in the wrong frame, or a
value outside the model, makes the frame undecodable. Decoding raises nothing but `DecodeError`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from math import isfinite

from router.predicates.model import (
    STRING_MAX_BYTES,
    STRING_ONLY,
    SYMBOLS,
    Constraint,
    Filter,
    Message,
    Operator,
    Predicate,
    Type,
    Value,
    type_of,
)
from router.wire.frames import (
    Ack,
    Body,
    BroadcastTable,
    Commit,
    EncodedMessage,
    FrameType,
    Hello,
    SenderRequest,
    TreeEntry,
)
from router.wire.header import DecodeError, DecodeReason


class Tlv(IntEnum):
    """TLV types. 0 is never valid, so that a run of zero bytes is not taken for TLVs."""

    ATTRIBUTE = 1
    FILTER = 2
    TIMEOUT = 3
    INCARNATION = 4
    NEIGHBOUR = 5
    TREE_ENTRY = 6
    OLDEST_EPOCH = 7
    ACKNOWLEDGED = 8


TLV_HEADER = struct.Struct("!BI")
TLV_HEADER_LENGTH = 5
#: TLV header and name length; value type and value.
_NAMED = struct.Struct("!BIB")
_TYPED_INTEGER = struct.Struct("!Bq")
_TYPED_DOUBLE = struct.Struct("!Bd")
_INTEGER = struct.Struct("!q")
_DOUBLE = struct.Struct("!d")
_TLV_U32 = struct.Struct("!BII")
_TLV_U8 = struct.Struct("!BIB")
_NEIGHBOUR = struct.Struct("!HI")
_TREE_ENTRY = struct.Struct("!IHIH")
#: A child of a TREE_ENTRY: two flags above the interface number.
REUSABLE_FLAG = 0x8000
OFF_TREE_FLAG = 0x4000
CHILD_MAX = OFF_TREE_FLAG - 1
#: Of a constraint, after the name: type, operator, value length.
_CONSTRAINT = struct.Struct("!BBH")
_unpack_tlv = TLV_HEADER.unpack_from
_unpack_integer = _INTEGER.unpack_from

_ATTRIBUTE = int(Tlv.ATTRIBUTE)
_STRING = int(Type.STRING)
_INTEGER_TYPE = int(Type.INTEGER)
_DOUBLE_TYPE = int(Type.DOUBLE)
_BOOLEAN = int(Type.BOOLEAN)
_STRING_MARK = bytes((_STRING,))
_TRUE = bytes((_BOOLEAN, 1))
_FALSE = bytes((_BOOLEAN, 0))
_KNOWN = frozenset(int(kind) for kind in Tlv)
#: `type_of` for values of exactly these types, without a call.
_TYPE_OF: dict[type, Type] = {str: Type.STRING, int: Type.INTEGER, float: Type.DOUBLE, bool: Type.BOOLEAN}
_TYPES: dict[int, Type] = {int(kind): kind for kind in Type}
_OPERATORS: dict[int, Operator] = {int(operator): operator for operator in Operator}


# --- Encoding ---------------------------------------------------------------------------------------------


def encode_message(message: Message) -> bytes:
    """One ATTRIBUTE for each attribute, in the message's order.

    Raises:
        ValueError: an attribute is outside the model.
    """
    parts: list[bytes] = []
    add = parts.append
    for name, value in message.items():
        raw = name.encode()
        size = len(raw)
        kind = _TYPE_OF.get(type(value)) or type_of(value)
        if kind is Type.STRING:
            data = value.encode()  # type: ignore[union-attr]
            add(_NAMED.pack(_ATTRIBUTE, size + 2 + len(data), size) + raw + _STRING_MARK + data)
        elif kind is Type.INTEGER:
            add(_NAMED.pack(_ATTRIBUTE, size + 10, size) + raw + _TYPED_INTEGER.pack(_INTEGER_TYPE, value))
        elif kind is Type.DOUBLE:
            add(_NAMED.pack(_ATTRIBUTE, size + 10, size) + raw + _TYPED_DOUBLE.pack(_DOUBLE_TYPE, value))
        else:
            add(_NAMED.pack(_ATTRIBUTE, size + 3, size) + raw + (_TRUE if value else _FALSE))
    return b"".join(parts)


def encode_predicate(predicate: Predicate) -> bytes:
    """One FILTER for each filter, in the predicate's order."""
    parts: list[bytes] = []
    for conjunction in predicate:
        value = b"".join(map(_encode_constraint, conjunction))
        parts.append(TLV_HEADER.pack(Tlv.FILTER, len(value)) + value)
    return b"".join(parts)


def _encode_constraint(constraint: Constraint) -> bytes:
    name = constraint.name.encode()
    value = b"" if constraint.value is None else _encode_value(constraint.value)
    head = _CONSTRAINT.pack(constraint.type, constraint.operator, len(value))
    return bytes((len(name),)) + name + head + value


def _encode_value(value: Value) -> bytes:
    if isinstance(value, bool):
        return b"\1" if value else b"\0"
    if isinstance(value, int):
        return _INTEGER.pack(value)
    if isinstance(value, float):
        return _DOUBLE.pack(value)
    return value.encode()


def encode_table(table: BroadcastTable) -> bytes:
    """NEIGHBOUR and TREE_ENTRY TLVs.

    Raises:
        ValueError: two entries for one interface or one source, a number that does not fit, or an entry
            whose `reusable` or `off_tree` are not children in their order.
    """
    if len(dict(table.neighbours)) != len(table.neighbours):
        raise ValueError("table has an interface twice")
    if len({entry.source for entry in table.entries}) != len(table.entries):
        raise ValueError("table has a source twice")
    parts = [
        TLV_HEADER.pack(Tlv.NEIGHBOUR, _NEIGHBOUR.size) + _NEIGHBOUR.pack(interface, node)
        for interface, node in table.neighbours
    ]
    # Of a network's many sources most share their children with others.
    packed: dict[tuple[tuple[int, ...], ...], bytes] = {}
    for entry in table.entries:
        count = len(entry.children)
        key = entry.children, entry.reusable, entry.off_tree
        children = packed.get(key)
        if children is None:
            children = packed[key] = struct.pack(f"!{count}H", *_flagged_children(entry))
        parts.append(TLV_HEADER.pack(Tlv.TREE_ENTRY, _TREE_ENTRY.size + 2 * count))
        parts.append(_TREE_ENTRY.pack(entry.source, entry.parent, entry.downstream, count))
        parts.append(children)
    return b"".join(parts)


def _flagged_children(entry: TreeEntry) -> list[int]:
    """The children of an entry as they are sent, with their flags."""
    children = entry.children
    if len(set(children)) != len(children):
        raise ValueError(f"source {entry.source}: a child twice")
    if any(not 0 <= child <= CHILD_MAX for child in children):
        raise ValueError(f"source {entry.source}: a child does not fit; expected 0 to {CHILD_MAX}")
    flags = dict.fromkeys(children, 0)
    for name, flag, marked in (
        ("reusable", REUSABLE_FLAG, entry.reusable),
        ("off_tree", OFF_TREE_FLAG, entry.off_tree),
    ):
        if marked and marked != tuple(child for child in children if child in marked):
            raise ValueError(f"source {entry.source}: {name} {marked} are not children in their order")
        for child in marked:
            flags[child] |= flag
    return [child | flag for child, flag in flags.items()]


def encode_single(body: SenderRequest | Hello | Commit | Ack) -> bytes:
    """The one TLV of an SR, HELLO, COMMIT or ACK."""
    if isinstance(body, SenderRequest):
        return _TLV_U32.pack(Tlv.TIMEOUT, 4, body.timeout_us)
    if isinstance(body, Hello):
        return _TLV_U32.pack(Tlv.INCARNATION, 4, body.incarnation)
    if isinstance(body, Commit):
        return _TLV_U32.pack(Tlv.OLDEST_EPOCH, 4, body.oldest_epoch)
    return _TLV_U8.pack(Tlv.ACKNOWLEDGED, 1, body.acknowledged)


# --- Decoding ---------------------------------------------------------------------------------------------


def decode_message(body: bytes) -> Message:
    """Read ATTRIBUTE TLVs; the hot path, so it walks the TLVs itself.

    Every rule of the model is checked here, so the message is built without checking it again.
    """
    message = Message.__new__(Message)
    offset = 0
    end = len(body)
    while offset < end:
        start = offset + TLV_HEADER_LENGTH
        if start > end:
            raise _overrun(offset, end)
        kind, length = _unpack_tlv(body, offset)
        offset = start + length
        if offset > end:
            raise _overrun(start - TLV_HEADER_LENGTH, end)
        if kind != _ATTRIBUTE:
            _skip_unknown(kind, FrameType.MSG)
            continue
        if length < 3:
            raise DecodeError(DecodeReason.BAD_TLV, f"ATTRIBUTE of {length} bytes; expected at least 3")
        first = start + 1
        at = first + body[start]
        if at == first:
            raise DecodeError(DecodeReason.BAD_NAME, "empty attribute name")
        if at >= offset:
            raise DecodeError(DecodeReason.BAD_TLV, f"name of {body[start]} bytes leaves no room for a value")
        try:
            name = body[first:at].decode()
        except UnicodeDecodeError as error:
            raise _bad_utf8(DecodeReason.BAD_NAME, "name", error) from None
        if name in message:
            raise DecodeError(DecodeReason.DUPLICATE_ATTRIBUTE, f"attribute {name!r} twice in a message")
        mark = body[at]
        if mark == _INTEGER_TYPE and offset - at == 9:
            message[name] = _unpack_integer(body, at + 1)[0]
        else:
            message[name] = _decode_value(name, mark, body, at + 1, offset)
    return message


def message_of(body: Message | EncodedMessage) -> Message:
    """The message, read if it has not been yet.

    Raises:
        DecodeError: the body breaks a rule of the format.
    """
    if isinstance(body, Message):
        return body
    if body.decoded is None:
        body.decoded = decode_message(body.encoded)
    return body.decoded


def _decode_value(name: str, kind: int, body: bytes, start: int, end: int) -> Value:
    """The value of type number `kind` in body[start:end]."""
    if kind == _STRING:
        if end - start > STRING_MAX_BYTES:
            raise DecodeError(
                DecodeReason.BAD_VALUE, f"{name!r}: string of {end - start} bytes; at most {STRING_MAX_BYTES}"
            )
        try:
            return body[start:end].decode()
        except UnicodeDecodeError as error:
            raise _bad_utf8(DecodeReason.BAD_VALUE, repr(name), error) from None
    if kind == _INTEGER_TYPE:
        if end - start == 8:
            integer: int = _INTEGER.unpack_from(body, start)[0]
            return integer
    elif kind == _DOUBLE_TYPE:
        if end - start == 8:
            double: float = _DOUBLE.unpack_from(body, start)[0]
            if not isfinite(double):
                raise DecodeError(DecodeReason.BAD_VALUE, f"{name!r}: double {double} is not finite")
            return double
    elif kind == _BOOLEAN:
        if end - start == 1 and body[start] <= 1:
            return body[start] == 1
    else:
        raise DecodeError(DecodeReason.BAD_VALUE, f"{name!r}: value type {kind}; expected 1 to 4")
    raise DecodeError(
        DecodeReason.BAD_VALUE, f"{name!r}: {body[start:end][:9].hex()!r} is no {_TYPES[kind].name.lower()}"
    )


def _bad_utf8(reason: DecodeReason, what: str, error: UnicodeDecodeError) -> DecodeError:
    return DecodeError(reason, f"{what}: not UTF-8 at byte {error.start}: {error.reason}")


def _overrun(offset: int, end: int) -> DecodeError:
    return DecodeError(DecodeReason.BAD_TLV, f"TLV at byte {offset} runs past the body's end at {end}")


def _skip_unknown(kind: int, frame_type: FrameType) -> None:
    """Let an unknown TLV type pass; refuse 0 and the known types, which have no place in this frame."""
    if kind == 0:
        raise DecodeError(DecodeReason.BAD_TLV, "TLV of type 0")
    if kind in _KNOWN:
        raise DecodeError(DecodeReason.BAD_TLV, f"{Tlv(kind).name} has no place in {frame_type.name}")


def tlvs(body: bytes) -> Iterator[tuple[int, int, int]]:
    """The TLVs of a body: type, and start and end of the value.

    Raises:
        DecodeError: a TLV runs past the end of the body.
    """
    offset = 0
    end = len(body)
    while offset < end:
        start = offset + TLV_HEADER_LENGTH
        if start > end:
            raise _overrun(offset, end)
        kind, length = TLV_HEADER.unpack_from(body, offset)
        if start + length > end:
            raise _overrun(offset, end)
        offset = start + length
        yield kind, start, offset


def decode_predicate(frame_type: FrameType, body: bytes) -> Predicate:
    """Read the FILTER TLVs of an RA or UR."""
    filters: list[Filter] = []
    for kind, start, end in tlvs(body):
        if kind == Tlv.FILTER:
            filters.append(Filter(_decode_filter(body, start, end)))
        else:
            _skip_unknown(kind, frame_type)
    return Predicate(tuple(filters))


def _decode_filter(body: bytes, offset: int, end: int) -> tuple[Constraint, ...]:
    constraints: list[Constraint] = []
    while offset < end:
        at = offset + 1 + body[offset]
        if at == offset + 1:
            raise DecodeError(DecodeReason.BAD_NAME, "empty name in a constraint")
        start = at + _CONSTRAINT.size
        if start > end:
            raise DecodeError(DecodeReason.BAD_TLV, f"constraint at byte {offset} runs past its filter")
        try:
            name = body[offset + 1 : at].decode()
        except UnicodeDecodeError as error:
            raise _bad_utf8(DecodeReason.BAD_NAME, "name", error) from None
        kind, operator, length = _CONSTRAINT.unpack_from(body, at)
        offset = start + length
        if offset > end:
            raise DecodeError(DecodeReason.BAD_TLV, f"value of constraint on {name!r} runs past its filter")
        constraints.append(_constraint(name, kind, operator, body, start, offset))
    return tuple(constraints)


def _constraint(name: str, kind: int, number: int, body: bytes, start: int, end: int) -> Constraint:
    operator = _OPERATORS.get(number)
    if operator is None:
        raise DecodeError(DecodeReason.BAD_CONSTRAINT, f"{name!r}: operator {number}; expected 1 to 10")
    value_type = _TYPES.get(kind)
    if value_type is None:
        raise DecodeError(DecodeReason.BAD_VALUE, f"{name!r}: value type {kind}; expected 1 to 4")
    if operator is Operator.ANY:
        if end != start:
            raise DecodeError(DecodeReason.BAD_CONSTRAINT, f"{name!r}: operator any takes no value")
        return Constraint(name, value_type, operator)
    if operator in STRING_ONLY and value_type is not Type.STRING:
        raise DecodeError(
            DecodeReason.BAD_CONSTRAINT, f"{name!r}: operator {SYMBOLS[operator]} is for strings only"
        )
    return Constraint(name, value_type, operator, _decode_value(name, kind, body, start, end))


def decode_table(body: bytes) -> BroadcastTable:
    """Read the NEIGHBOUR and TREE_ENTRY TLVs of a TABLE."""
    neighbours: dict[int, int] = {}
    entries: dict[int, TreeEntry] = {}
    for kind, start, end in tlvs(body):
        if kind == Tlv.NEIGHBOUR:
            if end - start != _NEIGHBOUR.size:
                raise _wrong_size(Tlv.NEIGHBOUR, end - start, _NEIGHBOUR.size)
            interface, node = _NEIGHBOUR.unpack_from(body, start)
            if interface in neighbours:
                raise DecodeError(DecodeReason.DUPLICATE_ENTRY, f"interface {interface} twice in a table")
            neighbours[interface] = node
        elif kind == Tlv.TREE_ENTRY:
            entry = _decode_entry(body, start, end)
            if entry.source in entries:
                raise DecodeError(DecodeReason.DUPLICATE_ENTRY, f"source {entry.source} twice in a table")
            entries[entry.source] = entry
        else:
            _skip_unknown(kind, FrameType.TABLE)
    return BroadcastTable(tuple(neighbours.items()), tuple(entries.values()))


def _decode_entry(body: bytes, start: int, end: int) -> TreeEntry:
    if end - start < _TREE_ENTRY.size:
        raise _wrong_size(Tlv.TREE_ENTRY, end - start, _TREE_ENTRY.size)
    source, parent, downstream, count = _TREE_ENTRY.unpack_from(body, start)
    if end - start != _TREE_ENTRY.size + 2 * count:
        raise _wrong_size(Tlv.TREE_ENTRY, end - start, _TREE_ENTRY.size + 2 * count)
    flagged = struct.unpack_from(f"!{count}H", body, start + _TREE_ENTRY.size)
    children = tuple([word & CHILD_MAX for word in flagged])
    if len(set(children)) != count:
        raise DecodeError(DecodeReason.DUPLICATE_ENTRY, f"source {source}: a child twice in its entry")
    reusable = tuple([word & CHILD_MAX for word in flagged if word & REUSABLE_FLAG])
    off_tree = tuple([word & CHILD_MAX for word in flagged if word & OFF_TREE_FLAG])
    return TreeEntry(source, parent, children, downstream, reusable, off_tree)


def _wrong_size(kind: Tlv, size: int, expected: int) -> DecodeError:
    return DecodeError(DecodeReason.BAD_TLV, f"{kind.name} of {size} bytes; expected {expected}")


def decode_single(frame_type: FrameType, wanted: Tlv, body: bytes) -> int:
    """The unsigned number in the one TLV that an SR, HELLO, COMMIT or ACK must have."""
    size = 1 if wanted is Tlv.ACKNOWLEDGED else 4
    number: int | None = None
    for kind, start, end in tlvs(body):
        if kind != wanted:
            _skip_unknown(kind, frame_type)
        elif end - start != size:
            raise _wrong_size(wanted, end - start, size)
        elif number is not None:
            raise DecodeError(DecodeReason.BAD_TLV, f"{wanted.name} twice in {frame_type.name}")
        else:
            number = int.from_bytes(body[start:end], "big")
    if number is None:
        raise DecodeError(DecodeReason.BAD_TLV, f"{frame_type.name} without {wanted.name}")
    return number


def encode_body(body: Body) -> bytes:
    """Encode a body of any kind.

    Raises:
        ValueError: a part of it does not fit the wire format.
    """
    try:
        if isinstance(body, Message):
            return encode_message(body)
        if isinstance(body, Predicate):
            return encode_predicate(body)
        if isinstance(body, BroadcastTable):
            return encode_table(body)
        if isinstance(body, EncodedMessage):
            return body.encoded
        return encode_single(body)
    except struct.error as error:
        raise ValueError(f"{type(body).__name__}: a number does not fit its field: {error}") from error
