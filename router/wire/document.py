"""Texts made of the tables of `router.wire.format`: the constants of the Wireshark dissector and of its
statistics, and the tables of docs/reference/wire-format.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum

from router.predicates import STRING_MAX_BYTES, STRING_ONLY, SYMBOLS, Operator, Type
from router.predicates.encoded import BITS_MAX, HASHES_MAX
from router.wire.format import (
    BITS,
    CONFIRMED,
    FRAMES,
    HEADER,
    MAX_BODY_LENGTH,
    MAX_DESTINATIONS,
    NAMES,
    OPERATORS,
    REASONS,
    RECORDS,
    SIGNATURE,
    SIGNATURE_BYTES,
    TAG,
    TAG_BYTES,
    TLVS,
    TRAILER,
    VALUES,
    VERSION,
    Field,
    Flags,
    FrameType,
    Layout,
    Names,
    Occurs,
    Tlv,
)
from router.wire.header import ETHERTYPE, HEADER_LENGTH, HEADER_OFFSETS, SIZES, masks_of
from router.wire.tlv import TLV_HEADER_LENGTH

# --- Lua --------------------------------------------------------------------------------------------------

_PROTO_FIELDS = {Layout.U8: "uint8", Layout.U16: "uint16", Layout.U32: "uint32", Layout.U64: "uint64"}
#: Value type -> the type of the field that holds values of this type alone.
_VALUE_FIELDS = {
    Type.STRING: ("string", ", base.UNICODE"),
    Type.INTEGER: ("int64", ""),
    Type.DOUBLE: ("double", ""),
    Type.BOOLEAN: ("bool", ""),
}


def dissector_constants() -> str:
    return "\n".join(
        [
            f"local ETHERTYPE = 0x{ETHERTYPE:04X}",
            f"local VERSION, HEADER_LENGTH = {VERSION}, {HEADER_LENGTH}",
            f"local TLV_HEADER_LENGTH = {TLV_HEADER_LENGTH}",
            f"local MAX_BODY_LENGTH, STRING_MAX_BYTES = {MAX_BODY_LENGTH}, {STRING_MAX_BYTES}",
            f"local MAX_DESTINATIONS = {MAX_DESTINATIONS}",
            f"local BITS_MAX, HASHES_MAX = {BITS_MAX}, {HASHES_MAX}",
            *(_table(names.name, NAMES[names]) for names in NAMES),
            _table("TLV_TYPES", {int(tlv): tlv.name for tlv in Tlv}),
            *_locals(FrameType),
            *_locals(Tlv),
            *_locals(Type),
            f"local ANY = {int(Operator.ANY)}",
            f"local STRING_ONLY = {_set(map(int, sorted(STRING_ONLY)))}",
            f"local CONFIRMED = {_set(type_.name for type_ in sorted(CONFIRMED))}",
            f"local TAGGED, SIGNED, RELIABLE = {', '.join(str(int(flag)) for flag in _BEHIND)}",
            "-- The fields of the header: name, offset, bytes.",
            "local HEADER = {",
            *(
                f'  {{ "{field.name}", {HEADER_OFFSETS[field.name]}, {SIZES[field.layout]} }},'
                for field in HEADER
            ),
            "}",
            "-- The fields of the trailer: name, bytes; the tags follow.",
            f"local TRAILER = {_numbers(TRAILER)}",
            f"local TRAILER_LENGTH, TAG_BYTES = {sum(SIZES[field.layout] for field in TRAILER)}, {TAG_BYTES}",
            f"local SIGNATURE_BYTES = {SIGNATURE_BYTES}",
            "-- TLVs that hold numbers only: name and bytes of each.",
            "local LAYOUTS = {",
            *(
                f"  [{row.type.name}] = {_numbers(row.fields)},"
                for row in TLVS
                if all(field.layout in SIZES for field in row.fields)
            ),
            "}",
            "-- The TLVs that each frame type may have, and those that it must have.",
            "local ONCE, MANY = 1, 2",
            "local ALLOWED = {",
            *(f"  [{row.type.name}] = {{ {', '.join(map(_allowed, row.tlvs))} }}," for row in FRAMES),
            "}",
            "local REQUIRED = {",
            *(
                f"  [{row.type.name}] = {{ {', '.join(once)} }},"
                for row in FRAMES
                if (once := [tlv.name for tlv, occurs in row.tlvs if occurs is Occurs.ONCE])
            ),
            "}",
            "-- The names of the bits of a field.",
            "local BITS = {",
            *(
                f"  {field.name} = {{ {', '.join(_text(key) for key, _, _ in _flags(field))} }},"
                for field in (*HEADER, *_body_fields())
                if field.names in BITS
            ),
            "}",
            "local fields = {",
            *(f"  {line}" for field in (*HEADER, SIGNATURE, *TRAILER, TAG) for line in _proto_fields(field)),
            "}",
            "-- The fields inside a body.",
            "local body_fields = {",
            *(f"  {line}" for field in _body_fields() for line in _proto_fields(field)),
            "}",
            "-- Reasons for which the codec refuses a frame.",
            "local REASONS = {",
            *(f"  {row.reason.value} = {_text(row.label)}," for row in REASONS),
            "}\n",
        ]
    )


#: Flags that announce bytes behind the body, or an answer.
_BEHIND = (Flags.TAGGED, Flags.SIGNED, Flags.RELIABLE)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _table(name: str, texts: dict[int, str]) -> str:
    entries = ", ".join(f"[{number}] = {_text(text)}" for number, text in texts.items())
    line = f"local {name} = {{ {entries} }}"
    if len(line) <= 120:
        return line
    return f"local {name} = {{\n" + "".join(f"  [{n}] = {_text(t)},\n" for n, t in texts.items()) + "}"


def _locals(names: type[IntEnum]) -> Iterator[str]:
    return (f"local {each.name} = {int(each)}" for each in names)


def _allowed(row: tuple[Tlv, Occurs]) -> str:
    tlv, occurs = row
    return f"[{tlv.name}] = {'MANY' if occurs is Occurs.ANY_NUMBER else 'ONCE'}"


def _set(members: Iterable[object]) -> str:
    return "{ " + ", ".join(f"[{member}] = true" for member in members) + " }"


def _numbers(fields: Iterable[Field]) -> str:
    return "{ " + ", ".join(f'{{ "{field.name}", {SIZES[field.layout]} }}' for field in fields) + " }"


def _body_fields() -> list[Field]:
    """The fields of TLVs and records, each name once."""
    found: dict[str, Field] = {}
    for fields in (*(row.fields for row in TLVS), *(record.fields for record in RECORDS.values())):
        for field in fields:
            found.setdefault(field.name, field)
    return list(found.values())


def _flags(field: Field) -> Iterator[tuple[str, int, str]]:
    """The bits of a field: the name in filters, the number and the label."""
    for flag, (label, _) in BITS.get(field.names, {}).items() if field.names else ():
        yield f"{field.name}.{str(flag.name).lower()}", int(flag), label


def _proto_fields(field: Field) -> Iterator[str]:
    """The lines that declare a field, and the fields of its bits or of each type of its values."""
    name = f'"cbcb.{field.name}", {_text(field.label)}'
    if field.layout is Layout.RECORDS:
        made = f"none({name})"
    elif field.layout is Layout.OCTETS:
        made = f"bytes({name})"
    elif field.layout in (Layout.TEXT, Layout.VALUE):
        made = f"string({name}, base.UNICODE)"
    elif field.layout is Layout.BITS:
        mask = next(masks[field.name] for masks in map(masks_of, RECORDS.values()) if field.name in masks)
        made = (
            f"bool({name}, 16, nil, {mask})" if field.bits == 1 else f"uint16({name}, base.DEC, nil, {mask})"
        )
    else:
        shown = (
            ""
            if field.names is None
            else f", base.DEC, {field.names.name}"
            if field.names in NAMES
            else ", base.HEX"
        )
        made = f"{_PROTO_FIELDS[field.layout]}({name}{shown})"
    yield f"{field.name} = ProtoField.{made},"
    for key, bit, label in _flags(field):
        yield f'["{key}"] = ProtoField.bool("cbcb.{key}", {_text(label)}, 8, nil, {bit}),'
    if field.layout is Layout.VALUE:
        for type_, (kind, shown) in _VALUE_FIELDS.items():
            key = f"{field.name}.{type_.name.lower()}"
            label = f"{field.label}, {type_.name.lower()}"
            yield f'["{key}"] = ProtoField.{kind}("cbcb.{key}", {_text(label)}{shown}),'


def statistics_constants() -> str:
    types = ", ".join(f'{{ {int(type_)}, "{type_.name}" }}' for type_ in FrameType)
    return f"local TYPES = {{ {types} }}\n"


# --- Markdown ---------------------------------------------------------------------------------------------


def _rows(*head: str, rows: Iterable[Iterable[object]]) -> str:
    lines = ["| " + " | ".join(str(cell) for cell in line) + " |" for line in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:], ""])


def _size(field: Field) -> str:
    match field.layout:
        case Layout.RECORDS:
            return f"*{field.records.name if field.records else ''}*, any number"
        case Layout.BITS:
            return f"{field.bits} bit" + ("s" if field.bits > 1 else "")
        case other:
            return str(other.value)


def _reasons_table(part: str) -> str:
    rows = ((f"`{row.reason.value}`", row.sentence) for row in REASONS if row.part == part)
    return _rows("reason", "when", rows=rows)


#: Blocks of wire-format.md -> what makes the text of a block.
TABLES: dict[str, Callable[[], str]] = {
    "header": lambda: _rows(
        *("offset", "size", "field", "meaning"),
        rows=[
            (HEADER_OFFSETS[field.name], field.layout.value, f"`{field.name}`", field.sentence)
            for field in HEADER
        ],
    ),
    "flags": lambda: _rows(
        *("bit", "flag", "meaning"),
        rows=[(f"`0x{int(bit):02x}`", bit.name, text) for bit, (_, text) in BITS[Names.FLAGS].items()],
    ),
    "signature": lambda: _rows(
        *("size", "field", "meaning"), rows=[("octets", f"`{SIGNATURE.name}`", SIGNATURE.sentence)]
    ),
    "trailer": lambda: _rows(
        *("size", "field", "meaning"),
        rows=[(field.layout.value, f"`{field.name}`", field.sentence) for field in (*TRAILER, TAG)],
    ),
    "frame types": lambda: _rows(
        *("type", "name", "from → to", "TLVs", "meaning"),
        rows=[
            (
                *(int(row.type), row.type.name, row.direction),
                ", ".join(f"{tlv.name}{occurs.value}" for tlv, occurs in row.tlvs),
                row.sentence,
            )
            for row in FRAMES
        ],
    ),
    "TLVs": lambda: _rows(
        *("type", "name", "meaning"), rows=[(int(row.type), row.type.name, row.sentence) for row in TLVS]
    ),
    "fields": lambda: _rows(
        *("of", "size", "field", "meaning"),
        rows=[
            (owner if field is fields[0] else "", _size(field), f"`{field.name}`", field.sentence)
            for owner, fields in (
                *((row.type.name, row.fields) for row in TLVS),
                *((f"*{record.name}*", record.fields) for record in RECORDS.values()),
            )
            for field in fields
        ],
    ),
    "values": lambda: _rows(
        *("value type", "name", "value", "bytes"),
        rows=[(int(type_), type_.name.lower(), text, size) for type_, (size, text) in VALUES.items()],
    ),
    "operators": lambda: _rows(
        *("operator", "symbol", "meaning"),
        rows=[(int(operator), f"`{SYMBOLS[operator]}`", text) for operator, text in OPERATORS.items()],
    ),
    "reasons of the header": lambda: _reasons_table("header"),
    "reasons of the body": lambda: _reasons_table("body"),
}
