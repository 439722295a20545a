"""The body of an RA or UR: FILTER TLVs, in a UR perhaps by classes of nodes."""

from __future__ import annotations

from collections.abc import Iterator

from router.predicates import STRING_ONLY, SYMBOLS, Constraint, Filter, Operator, Predicate, Type
from router.wire.format import RECORDS, DecodeReason, FrameType, Tlv
from router.wire.frames import ClassifiedPredicate
from router.wire.header import TLV_FORMATS, DecodeError, struct_of
from router.wire.tlv import (
    TYPES,
    bad_utf8,
    decode_value,
    encode_tlv,
    encode_value,
    tlvs,
    tlvs_of,
    unknown_type,
)

#: Of a constraint, after the name: type, operator, value length.
_AFTER_NAME = struct_of(RECORDS["CONSTRAINT"].fields[2:])
_CLASS_NODE = struct_of(TLV_FORMATS[Tlv.CLASS_NODE].fields)
_OPERATORS: dict[int, Operator] = {int(operator): operator for operator in Operator}


def encode_predicate(predicate: Predicate) -> bytes:
    """One FILTER for each filter, in the predicate's order, and a CLASS_NODE before those of a class.

    Raises:
        struct.error: a node does not fit.
    """
    encoded = [filter_.encoded or encode_filter(filter_) for filter_ in predicate]
    if isinstance(predicate, ClassifiedPredicate):
        for node, first in reversed(predicate.classes):
            encoded.insert(first, encode_tlv(Tlv.CLASS_NODE, _CLASS_NODE.pack(node)))
    return b"".join(encoded)


def encode_filter(filter_: Filter) -> bytes:
    """The FILTER of a filter; computed once for each object."""
    encoded = filter_.encoded
    if encoded is None:
        encoded = encode_tlv(Tlv.FILTER, b"".join(map(_encode_constraint, filter_)))
        object.__setattr__(filter_, "encoded", encoded)
    return encoded


def _encode_constraint(constraint: Constraint) -> bytes:
    name = constraint.name.encode()
    value = b"" if constraint.value is None else encode_value(constraint.value)
    head = _AFTER_NAME.pack(constraint.type, constraint.operator, len(value))
    return bytes((len(name),)) + name + head + value


def decode_predicate(frame_type: FrameType, body: bytes) -> Predicate:
    """Reads the FILTER TLVs of an RA or UR.

    Raises:
        DecodeError: the body breaks a rule of the format.
    """
    return with_classes(Predicate(tuple(filters_of(frame_type, body))), frame_type, body)


def with_classes(predicate: Predicate, frame_type: FrameType, body: bytes) -> Predicate:
    """The predicate of a body, given all its filters in their order: with the classes that a UR names."""
    if frame_type is not FrameType.UR:
        return predicate
    place = 0
    classes: list[tuple[int, int]] = []
    for number, start, _ in tlvs(body):
        if number == Tlv.FILTER:
            place += 1
        elif number == Tlv.CLASS_NODE:
            classes.append((_CLASS_NODE.unpack_from(body, start)[0], place))
    return ClassifiedPredicate(predicate.filters, tuple(classes)) if classes else predicate


def filters_of(frame_type: FrameType, body: bytes, most: int | None = None) -> Iterator[Filter]:
    """Reads the FILTER TLVs of an RA or UR one by one.

    Args:
        most: constraints of a filter that are read; further ones are neither read nor checked. None: all.

    Raises:
        DecodeError: the body breaks a rule of the format at the filter that is due.
    """
    for number, start, end in tlvs_of(frame_type, body):
        if number == Tlv.FILTER:
            yield Filter(decode_filter(body, start, end, most))


def decode_filter(body: bytes, offset: int, end: int, most: int | None = None) -> tuple[Constraint, ...]:
    """The constraints of a FILTER, whose value is from `offset` to `end`.

    Args:
        most: see `filters_of`.

    Raises:
        DecodeError: the value breaks a rule of the format.
    """
    constraints: list[Constraint] = []
    while offset < end and len(constraints) != most:
        at = offset + 1 + body[offset]
        if at == offset + 1:
            raise DecodeError(DecodeReason.BAD_NAME, "empty name in a constraint")
        start = at + _AFTER_NAME.size
        if start > end:
            raise DecodeError(DecodeReason.BAD_TLV, f"constraint at byte {offset} runs past its filter")
        try:
            name = body[offset + 1 : at].decode()
        except UnicodeDecodeError as error:
            raise bad_utf8(DecodeReason.BAD_NAME, "name", error) from None
        type_, operator, length = _AFTER_NAME.unpack_from(body, at)
        offset = start + length
        if offset > end:
            raise DecodeError(DecodeReason.BAD_TLV, f"value of constraint on {name!r} runs past its filter")
        constraints.append(_constraint(name, type_, operator, body, start, offset))
    return tuple(constraints)


def _constraint(name: str, type_: int, number: int, body: bytes, start: int, end: int) -> Constraint:
    operator = _OPERATORS.get(number)
    if operator is None:
        raise DecodeError(
            DecodeReason.BAD_CONSTRAINT, f"{name!r}: operator {number}; expected 1 to {len(_OPERATORS)}"
        )
    value_type = TYPES.get(type_)
    if value_type is None:
        raise unknown_type(name, type_)
    if operator is Operator.ANY:
        if end != start:
            raise DecodeError(DecodeReason.BAD_CONSTRAINT, f"{name!r}: operator any takes no value")
        return Constraint(name, value_type, operator)
    if operator in STRING_ONLY and value_type is not Type.STRING:
        raise DecodeError(
            DecodeReason.BAD_CONSTRAINT, f"{name!r}: operator {SYMBOLS[operator]} is for strings only"
        )
    return Constraint(name, value_type, operator, decode_value(name, type_, body, start, end))
