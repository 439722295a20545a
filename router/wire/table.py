"""The body of a TABLE: NEIGHBOUR and TREE_ENTRY TLVs."""

from __future__ import annotations

import struct
from typing import Any

from router.wire.format import CHILD, DecodeReason, FrameType, Tlv
from router.wire.frames import BroadcastTable, TreeEntry
from router.wire.header import DecodeError
from router.wire.layouts import TLV_FORMATS, masks_of, struct_of
from router.wire.tlv import TLV_HEADER, encode_tlv, skip_unknown, tlvs, wrong_size

_NEIGHBOUR = struct_of(TLV_FORMATS[Tlv.NEIGHBOUR].fields)
#: Of a TREE_ENTRY, before the children.
_TREE_ENTRY = struct_of(TLV_FORMATS[Tlv.TREE_ENTRY].fields)
_REUSABLE, _OFF_TREE, CHILD_MAX = masks_of(CHILD).values()


def encode_table(table: BroadcastTable) -> bytes:
    """NEIGHBOUR and TREE_ENTRY TLVs.

    Raises:
        ValueError: two entries for one interface or one source, a child that does not fit, or an entry whose
            `reusable` or `off_tree` are not children in their order.
        struct.error: another number does not fit.
    """
    if len(dict(table.neighbours)) != len(table.neighbours):
        raise ValueError("table has an interface twice")
    if len({entry.source for entry in table.entries}) != len(table.entries):
        raise ValueError("table has a source twice")
    parts = [
        encode_tlv(Tlv.NEIGHBOUR, _NEIGHBOUR.pack(interface, node)) for interface, node in table.neighbours
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
        ("reusable", _REUSABLE, entry.reusable),
        ("off_tree", _OFF_TREE, entry.off_tree),
    ):
        if marked and marked != tuple(child for child in children if child in marked):
            raise ValueError(f"source {entry.source}: {name} {marked} are not children in their order")
        for child in marked:
            flags[child] |= flag
    return [child | flag for child, flag in flags.items()]


def decode_table(body: bytes) -> BroadcastTable:
    """Reads the NEIGHBOUR and TREE_ENTRY TLVs of a TABLE.

    Raises:
        DecodeError: the body breaks a rule of the format.
    """
    neighbours: dict[int, int] = {}
    entries: dict[int, TreeEntry] = {}
    for number, start, end in tlvs(body):
        if number == Tlv.NEIGHBOUR:
            if end - start != _NEIGHBOUR.size:
                raise wrong_size(Tlv.NEIGHBOUR, end - start, _NEIGHBOUR.size)
            interface, node = _NEIGHBOUR.unpack_from(body, start)
            if interface in neighbours:
                raise DecodeError(DecodeReason.DUPLICATE_ENTRY, f"interface {interface} twice in a table")
            neighbours[interface] = node
        elif number == Tlv.TREE_ENTRY:
            entry = _decode_entry(body, start, end)
            if entry.source in entries:
                raise DecodeError(DecodeReason.DUPLICATE_ENTRY, f"source {entry.source} twice in a table")
            entries[entry.source] = entry
        else:
            skip_unknown(number, FrameType.TABLE)
    return BroadcastTable(tuple(neighbours.items()), tuple(entries.values()))


def _decode_entry(body: bytes, start: int, end: int) -> TreeEntry:
    if end - start < _TREE_ENTRY.size:
        raise wrong_size(Tlv.TREE_ENTRY, end - start, _TREE_ENTRY.size)
    source, parent, downstream, count = _TREE_ENTRY.unpack_from(body, start)
    if end - start != _TREE_ENTRY.size + 2 * count:
        raise wrong_size(Tlv.TREE_ENTRY, end - start, _TREE_ENTRY.size + 2 * count)
    flagged = struct.unpack_from(f"!{count}H", body, start + _TREE_ENTRY.size)
    children = tuple([word & CHILD_MAX for word in flagged])
    if len(set(children)) != count:
        raise DecodeError(DecodeReason.DUPLICATE_ENTRY, f"source {source}: a child twice in its entry")
    reusable = tuple([word & CHILD_MAX for word in flagged if word & _REUSABLE])
    off_tree = tuple([word & CHILD_MAX for word in flagged if word & _OFF_TREE])
    return TreeEntry(source, parent, children, downstream, reusable, off_tree)


def describe_table(table: BroadcastTable) -> list[tuple[Tlv, dict[str, Any]]]:
    """The TLVs of a table by the field names of the format."""
    neighbours = [
        (Tlv.NEIGHBOUR, {"interface": interface, "node": node}) for interface, node in table.neighbours
    ]
    return neighbours + [(Tlv.TREE_ENTRY, _describe_entry(entry)) for entry in table.entries]


def _describe_entry(entry: TreeEntry) -> dict[str, Any]:
    children = [
        {
            "reusable": int(child in entry.reusable),
            "off_tree": int(child in entry.off_tree),
            "interface": child,
        }
        for child in entry.children
    ]
    return {
        "source": entry.source,
        "parent_interface": entry.parent,
        "downstream": entry.downstream,
        "children": children,
    }
