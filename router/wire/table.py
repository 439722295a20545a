"""The body of a TABLE: NEIGHBOUR, TREE_CLASS, CLASS_OF and SUBTREES TLVs."""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

from router.wire.format import DecodeReason, FrameType, Tlv
from router.wire.frames import BroadcastTable
from router.wire.header import TLV_FORMATS, DecodeError, struct_of
from router.wire.tlv import encode_tlv, tlvs_of, wrong_size
from router.wire.tree_classes import CHILD_MAX, CLASS_DTYPE, TreeClasses

_NEIGHBOUR = struct_of(TLV_FORMATS[Tlv.NEIGHBOUR].fields)
#: Of a TREE_CLASS, before the children.
_TREE_CLASS = struct_of(TLV_FORMATS[Tlv.TREE_CLASS].fields)
#: The CHILD records of a TREE_CLASS.
_WORDS = np.dtype(">u2")
#: The SOURCE records of a CLASS_OF.
_SOURCES = CLASS_DTYPE.newbyteorder(">")


def encode_table(table: BroadcastTable) -> bytes:
    """NEIGHBOUR, TREE_CLASS and CLASS_OF TLVs, and SUBTREES if the table has them.

    Raises:
        ValueError: two entries for one interface, a source of a class that the table does not have, or
            `subtrees` of another size.
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
    classes = table.classes
    children, first = classes.children.astype(_WORDS).tobytes(), classes.first.tolist()
    for parent, start, end in zip(classes.parents.tolist(), first, first[1:], strict=False):
        head = _TREE_CLASS.pack(parent, end - start)
        parts.append(
            encode_tlv(Tlv.TREE_CLASS, head + children[_WORDS.itemsize * start : _WORDS.itemsize * end])
        )
    parts.append(encode_tlv(Tlv.CLASS_OF, table.class_of.astype(_SOURCES).tobytes()))
    if table.subtrees is not None:
        count = len(table.classes)
        if table.subtrees.shape != (count, count):
            raise ValueError(f"subtrees of shape {table.subtrees.shape}; expected {(count, count)}")
        parts.append(encode_tlv(Tlv.SUBTREES, _rows(table.subtrees)))
    return b"".join(parts)


def _rows(subtrees: npt.NDArray[np.bool_]) -> bytes:
    return np.packbits(subtrees, axis=1).tobytes()


def _largest(class_of: npt.NDArray[np.uint16]) -> int:
    return int(class_of.max(initial=0))


def decode_table(body: bytes) -> BroadcastTable:
    """Reads the TLVs of a TABLE.

    Raises:
        DecodeError: the body breaks a rule of the format.
    """
    neighbours: dict[int, int] = {}
    parents: list[int] = []
    children: list[int] = []
    first = [0]
    class_of = np.zeros(0, dtype=CLASS_DTYPE)
    rows: bytes | None = None
    for number, start, end in tlvs_of(FrameType.TABLE, body):
        if number == Tlv.NEIGHBOUR:
            interface, node = _NEIGHBOUR.unpack_from(body, start)
            if interface in neighbours:
                raise DecodeError(DecodeReason.DUPLICATE_ENTRY, f"interface {interface} twice in a table")
            neighbours[interface] = node
        elif number == Tlv.TREE_CLASS:
            parent, words = _decode_class(body, start, end)
            parents.append(parent)
            children += words
            first.append(len(children))
        elif number == Tlv.CLASS_OF:
            if (end - start) % _SOURCES.itemsize:
                raise wrong_size(
                    Tlv.CLASS_OF, end - start, (end - start) // _SOURCES.itemsize * _SOURCES.itemsize
                )
            class_of = np.frombuffer(body[start:end], dtype=_SOURCES).astype(CLASS_DTYPE)
        else:
            rows = body[start:end]
    if _largest(class_of) > len(parents):
        raise DecodeError(
            DecodeReason.BAD_VALUE,
            f"a source of class {_largest(class_of)}; expected at most {len(parents)}, the number of classes",
        )
    classes = TreeClasses(
        np.array(parents, np.uint16), np.array(first, np.uint32), np.array(children, np.uint16)
    )
    subtrees = None if rows is None else _decode_subtrees(rows, len(classes))
    return BroadcastTable(tuple(neighbours.items()), classes, class_of, subtrees)


def _decode_subtrees(rows: bytes, classes: int) -> npt.NDArray[np.bool_]:
    width = -(-classes // 8)
    if len(rows) != classes * width:
        raise wrong_size(Tlv.SUBTREES, len(rows), classes * width)
    if not classes:
        return np.zeros((0, 0), dtype=np.bool_)
    bits = np.unpackbits(np.frombuffer(rows, dtype=np.uint8).reshape(classes, width), axis=1)
    if bits[:, classes:].any():
        raise DecodeError(DecodeReason.BAD_VALUE, f"SUBTREES has a bit of 1 behind the {classes} of a row")
    return bits[:, :classes].astype(np.bool_)


def _decode_class(body: bytes, start: int, end: int) -> tuple[int, tuple[int, ...]]:
    """The parent of a class, and its children with their flags."""
    if end - start < _TREE_CLASS.size:
        raise wrong_size(Tlv.TREE_CLASS, end - start, _TREE_CLASS.size)
    parent, count = _TREE_CLASS.unpack_from(body, start)
    if end - start != _TREE_CLASS.size + 2 * count:
        raise wrong_size(Tlv.TREE_CLASS, end - start, _TREE_CLASS.size + 2 * count)
    words = struct.unpack_from(f"!{count}H", body, start + _TREE_CLASS.size)
    if len({word & CHILD_MAX for word in words}) != count:
        raise DecodeError(DecodeReason.DUPLICATE_ENTRY, "a child twice in a class")
    return parent, words
