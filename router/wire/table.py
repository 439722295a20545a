"""The body of a TABLE: NEIGHBOUR, TREE_CLASS and CLASS_OF TLVs."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from router.wire.format import CHILD, DecodeReason, FrameType, Tlv
from router.wire.frames import CLASS_DTYPE, BroadcastTable, TreeClass
from router.wire.header import DecodeError
from router.wire.layouts import TLV_FORMATS, masks_of, struct_of
from router.wire.tlv import encode_tlv, skip_unknown, tlvs, wrong_size

_NEIGHBOUR = struct_of(TLV_FORMATS[Tlv.NEIGHBOUR].fields)
#: Of a TREE_CLASS, before the children.
_TREE_CLASS = struct_of(TLV_FORMATS[Tlv.TREE_CLASS].fields)
_REUSABLE, _OFF_TREE, CHILD_MAX = masks_of(CHILD).values()
#: The SOURCE records of a CLASS_OF.
_SOURCES = CLASS_DTYPE.newbyteorder(">")
#: A router's trees have at most so many classes: the numbers of the field `class_number` but 0.
CLASS_MAX = int(np.iinfo(CLASS_DTYPE).max)


def encode_table(table: BroadcastTable) -> bytes:
    """NEIGHBOUR, TREE_CLASS and CLASS_OF TLVs.

    Raises:
        ValueError: two entries for one interface, a child that does not fit, a class whose `reusable` or
            `off_tree` are not children in their order, or a source of a class that the table does not have.
        struct.error: another number does not fit.
    """
    if len(dict(table.neighbours)) != len(table.neighbours):
        raise ValueError("table has an interface twice")
    largest = _largest(table.class_of)
    if largest > len(table.classes):
        raise ValueError(f"table has a source of class {largest}, but {len(table.classes)} classes")
    parts = [
        encode_tlv(Tlv.NEIGHBOUR, _NEIGHBOUR.pack(interface, node)) for interface, node in table.neighbours
    ]
    for number, each in enumerate(table.classes, 1):
        count = len(each.children)
        children = struct.pack(f"!{count}H", *_flagged_children(number, each))
        parts.append(encode_tlv(Tlv.TREE_CLASS, _TREE_CLASS.pack(each.parent, count) + children))
    parts.append(encode_tlv(Tlv.CLASS_OF, table.class_of.astype(_SOURCES).tobytes()))
    return b"".join(parts)


def _largest(class_of: npt.NDArray[np.uint16]) -> int:
    return int(class_of.max(initial=0))


def _flagged_children(number: int, tree_class: TreeClass) -> list[int]:
    """The children of a class as they are sent, with their flags."""
    children = tree_class.children
    if len(set(children)) != len(children):
        raise ValueError(f"class {number}: a child twice")
    if any(not 0 <= child <= CHILD_MAX for child in children):
        raise ValueError(f"class {number}: a child does not fit; expected 0 to {CHILD_MAX}")
    flags = dict.fromkeys(children, 0)
    for name, flag, marked in (
        ("reusable", _REUSABLE, tree_class.reusable),
        ("off_tree", _OFF_TREE, tree_class.off_tree),
    ):
        if marked and marked != tuple(child for child in children if child in marked):
            raise ValueError(f"class {number}: {name} {marked} are not children in their order")
        for child in marked:
            flags[child] |= flag
    return [child | flag for child, flag in flags.items()]


def decode_table(body: bytes) -> BroadcastTable:
    """Reads the NEIGHBOUR, TREE_CLASS and CLASS_OF TLVs of a TABLE.

    Raises:
        DecodeError: the body breaks a rule of the format.
    """
    neighbours: dict[int, int] = {}
    classes: list[TreeClass] = []
    class_of: npt.NDArray[np.uint16] | None = None
    for number, start, end in tlvs(body):
        if number == Tlv.NEIGHBOUR:
            if end - start != _NEIGHBOUR.size:
                raise wrong_size(Tlv.NEIGHBOUR, end - start, _NEIGHBOUR.size)
            interface, node = _NEIGHBOUR.unpack_from(body, start)
            if interface in neighbours:
                raise DecodeError(DecodeReason.DUPLICATE_ENTRY, f"interface {interface} twice in a table")
            neighbours[interface] = node
        elif number == Tlv.TREE_CLASS:
            classes.append(_decode_class(body, start, end))
        elif number == Tlv.CLASS_OF:
            if class_of is not None:
                raise DecodeError(DecodeReason.BAD_TLV, "CLASS_OF twice in a table")
            if (end - start) % _SOURCES.itemsize:
                raise wrong_size(
                    Tlv.CLASS_OF, end - start, (end - start) // _SOURCES.itemsize * _SOURCES.itemsize
                )
            class_of = np.frombuffer(body[start:end], dtype=_SOURCES).astype(CLASS_DTYPE)
        else:
            skip_unknown(number, FrameType.TABLE)
    if class_of is None:
        raise DecodeError(DecodeReason.BAD_TLV, "TABLE without CLASS_OF")
    if _largest(class_of) > len(classes):
        raise DecodeError(
            DecodeReason.BAD_VALUE,
            f"a source of class {_largest(class_of)}; expected at most {len(classes)}, the number of classes",
        )
    return BroadcastTable(tuple(neighbours.items()), tuple(classes), class_of)


def _decode_class(body: bytes, start: int, end: int) -> TreeClass:
    if end - start < _TREE_CLASS.size:
        raise wrong_size(Tlv.TREE_CLASS, end - start, _TREE_CLASS.size)
    parent, count = _TREE_CLASS.unpack_from(body, start)
    if end - start != _TREE_CLASS.size + 2 * count:
        raise wrong_size(Tlv.TREE_CLASS, end - start, _TREE_CLASS.size + 2 * count)
    flagged = struct.unpack_from(f"!{count}H", body, start + _TREE_CLASS.size)
    children = tuple([word & CHILD_MAX for word in flagged])
    if len(set(children)) != count:
        raise DecodeError(DecodeReason.DUPLICATE_ENTRY, "a child twice in a class")
    reusable = tuple([word & CHILD_MAX for word in flagged if word & _REUSABLE])
    off_tree = tuple([word & CHILD_MAX for word in flagged if word & _OFF_TREE])
    return TreeClass(parent, children, reusable, off_tree)


def describe_table(table: BroadcastTable) -> list[tuple[Tlv, dict[str, Any]]]:
    """The TLVs of a table by the field names of the format."""
    neighbours = [
        (Tlv.NEIGHBOUR, {"interface": interface, "node": node}) for interface, node in table.neighbours
    ]
    classes = [(Tlv.TREE_CLASS, _describe_class(each)) for each in table.classes]
    sources = [{"class_number": number} for number in table.class_of.tolist()]
    return [*neighbours, *classes, (Tlv.CLASS_OF, {"sources": sources})]


def _describe_class(tree_class: TreeClass) -> dict[str, Any]:
    children = [
        {
            "reusable": int(child in tree_class.reusable),
            "off_tree": int(child in tree_class.off_tree),
            "interface": child,
        }
        for child in tree_class.children
    ]
    return {"parent_interface": tree_class.parent, "children": children}
