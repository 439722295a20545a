"""Writes what follows from `router.wire.format` into other files: `python -m router.wire.generate`.

Each file has marked blocks; the text between the marks is replaced: the constants of the Wireshark
dissector and of its statistics, and the tables of docs/wire-format.md. A test holds the files equal.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from router.predicates.encoded.model import BITS_MAX, HASHES_MAX
from router.predicates.model import STRING_MAX_BYTES, STRING_ONLY, SYMBOLS, Operator, Type
from router.wire import format
from router.wire.addresses import ETHERTYPE
from router.wire.format import (
    FLAGS,
    FRAMES,
    HEADER,
    MAX_BODY_LENGTH,
    MAX_DESTINATIONS,
    OPERATORS,
    REASONS,
    SIGNATURE,
    SIGNATURE_BYTES,
    TAG,
    TAG_BYTES,
    TLVS,
    TRAILER,
    VALUES,
    VERSION,
    Field,
    FrameType,
    Layout,
    Names,
    Occurs,
    Part,
    Record,
    Tlv,
)
from router.wire.header import HEADER_LENGTH, HEADER_OFFSETS, SIZES, masks_of
from router.wire.tlv import TLV_HEADER_LENGTH

_ROOT = Path(__file__).parents[2]
_DISSECTOR = _ROOT / "router/wire/wireshark/cbcb.lua"
_STATISTICS = _ROOT / "router/wire/wireshark/cbcb_statistics.lua"
DOCUMENT = _ROOT / "docs/wire-format.md"
_RECORDS = (format.CONSTRAINT, format.CHILD, format.DESTINATION, format.SOURCE)

# --- Lua --------------------------------------------------------------------------------------------------

_PROTO_FIELDS = {Layout.U8: "uint8", Layout.U16: "uint16", Layout.U32: "uint32", Layout.U64: "uint64"}
_LUA_NAMES = {
    Names.FRAME_TYPES: "base.DEC, FRAME_TYPES",
    Names.VALUE_TYPES: "base.DEC, VALUE_TYPES",
    Names.OPERATORS: "base.DEC, OPERATORS",
    Names.FLAGS: "base.HEX",
}


def _dissector_constants() -> str:
    return "\n".join(
        [
            f"local ETHERTYPE = 0x{ETHERTYPE:04X}",
            f"local VERSION, HEADER_LENGTH = {VERSION}, {HEADER_LENGTH}",
            f"local TLV_HEADER_LENGTH = {TLV_HEADER_LENGTH}",
            f"local MAX_BODY_LENGTH, STRING_MAX_BYTES = {MAX_BODY_LENGTH}, {STRING_MAX_BYTES}",
            f"local MAX_DESTINATIONS = {MAX_DESTINATIONS}",
            f"local BITS_MAX, HASHES_MAX = {BITS_MAX}, {HASHES_MAX}",
            *_numbers("FRAME_TYPES", {int(type_): type_.name for type_ in FrameType}),
            *_numbers("TLV_TYPES", {int(tlv): tlv.name for tlv in Tlv}),
            _table("VALUE_TYPES", {int(type_): type_.name.lower() for type_ in Type}),
            _locals({int(type_): type_.name for type_ in Type}),
            _table("OPERATORS", {int(operator): SYMBOLS[operator] for operator in Operator}),
            f"local ANY = {int(Operator.ANY)}",
            "local STRING_ONLY = { "
            + ", ".join(f"[{int(operator)}] = true" for operator in sorted(STRING_ONLY))
            + " }",
            "-- The fields of the header: name, offset, bytes.",
            "local HEADER = {",
            *(
                f'  {{ "{field.name}", {HEADER_OFFSETS[field.name]}, {SIZES[field.layout]} }},'
                for field in HEADER
            ),
            "}",
            "local OFFSETS = {}",
            "for _, field in ipairs(HEADER) do OFFSETS[field[1]] = field[2] end",
            "-- The fields of the trailer: name, bytes; the tags follow.",
            "local TRAILER = { "
            + ", ".join(f'{{ "{field.name}", {SIZES[field.layout]} }}' for field in TRAILER)
            + " }",
            f"local TRAILER_LENGTH, TAG_BYTES = {sum(SIZES[field.layout] for field in TRAILER)}, {TAG_BYTES}",
            f"local SIGNED, SIGNATURE_BYTES = {int(format.Flags.SIGNED)}, {SIGNATURE_BYTES}",
            "-- TLVs that hold numbers only: name and bytes of each.",
            "local LAYOUTS = {",
            *_layouts(),
            "}",
            "-- The TLVs that each frame type may have, and the TLV that it must have.",
            "local ALLOWED = {",
            *(
                f"  [{row.type.name}] = {{ {', '.join(f'[{tlv.name}] = true' for tlv, _ in row.tlvs)} }},"
                for row in FRAMES
            ),
            "}",
            "local REQUIRED = {",
            *(f"  [{type_.name}] = {once[0].name}," for type_, once in _required().items() if len(once) == 1),
            "}",
            "-- Those that must have several.",
            "local REQUIRED_ALL = {",
            *(
                f"  [{type_.name}] = {{ {', '.join(tlv.name for tlv in once)} }},"
                for type_, once in _required().items()
                if len(once) > 1
            ),
            "}",
            "local fields = {",
            *(f"  {line}" for field in (*HEADER, SIGNATURE, *TRAILER, TAG) for line in _proto_fields(field)),
            *(f"  {line}" for line in _body_proto_fields()),
            "}",
            "-- The fields inside a body.",
            "local BODY_FIELDS = {",
            *(f'  "{field.name}",' for field, _ in _body_fields()),
            "}",
            "-- Reasons for which the codec refuses a frame.",
            "local REASONS = {",
            *(f"  {row.reason.value} = {_text(row.label)}," for row in REASONS),
            "}",
        ]
    )


def _required() -> dict[FrameType, list[Tlv]]:
    """Frame type -> the TLVs that it must have, in order; without the frame types that need have none."""
    found = {row.type: [tlv for tlv, occurs in row.tlvs if occurs is Occurs.ONCE] for row in FRAMES}
    return {type_: once for type_, once in found.items() if once}


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _table(name: str, texts: dict[int, str]) -> str:
    entries = ", ".join(f"[{number}] = {_text(text)}" for number, text in texts.items())
    line = f"local {name} = {{ {entries} }}"
    if len(line) <= 120:
        return line
    return f"local {name} = {{\n" + "".join(f"  [{n}] = {_text(t)},\n" for n, t in texts.items()) + "}"


def _locals(names: dict[int, str]) -> str:
    return "\n".join(f"local {name} = {number}" for number, name in names.items())


def _numbers(table: str, names: dict[int, str]) -> list[str]:
    return [_table(table, names), _locals(names)]


def _layouts() -> Iterator[str]:
    for row in TLVS:
        if all(field.layout in SIZES for field in row.fields):
            fields = ", ".join(f'{{ "{field.name}", {SIZES[field.layout]} }}' for field in row.fields)
            yield f"  [{row.type.name}] = {{ {fields} }},"


def _body_fields() -> list[tuple[Field, Record | None]]:
    """The fields of TLVs and records, each name once, with the record that holds the field."""
    found: dict[str, tuple[Field, Record | None]] = {}
    for row in TLVS:
        for field in row.fields:
            found.setdefault(field.name, (field, None))
    for record in _RECORDS:
        for field in record.fields:
            found.setdefault(field.name, (field, record))
    return list(found.values())


def _body_proto_fields() -> Iterator[str]:
    for field, record in _body_fields():
        if field.layout is Layout.BITS and record is not None:
            mask = masks_of(record)[field.name]
            made = "bool" if field.bits == 1 else "uint16"
            size = "16, nil" if field.bits == 1 else "base.DEC, nil"
            name = f'"cbcb.{field.name}", {_text(field.label)}'
            yield f"{field.name} = ProtoField.{made}({name}, {size}, {mask}),"
        else:
            yield from _proto_fields(field)


def _proto_fields(field: Field) -> Iterator[str]:
    name = f'"cbcb.{field.name}", {_text(field.label)}'
    if field.layout is Layout.RECORDS:
        yield f"{field.name} = ProtoField.none({name}),"
    elif field.layout is Layout.OCTETS:
        yield f"{field.name} = ProtoField.bytes({name}),"
    elif field.layout in (Layout.TEXT, Layout.VALUE):
        yield f"{field.name} = ProtoField.string({name}, base.UNICODE),"
    else:
        shown = f", {_LUA_NAMES[field.names]}" if field.names is not None else ""
        yield f"{field.name} = ProtoField.{_PROTO_FIELDS[field.layout]}({name}{shown}),"
    if field.names is Names.FLAGS:
        for flag, (label, _) in FLAGS.items():
            low = str(flag.name).lower()
            yield f'{low} = ProtoField.bool("cbcb.{field.name}.{low}", {_text(label)}, 8, nil, {int(flag)}),'


def _statistics_constants() -> str:
    types = ", ".join(f'{{ {int(type_)}, "{type_.name}" }}' for type_ in FrameType)
    return f"local TYPES = {{ {types} }}"


# --- Markdown ---------------------------------------------------------------------------------------------


def _rows(*head: str, rows: Iterable[Iterable[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def _header_table() -> str:
    rows = (
        (HEADER_OFFSETS[field.name], field.layout.value, f"`{field.name}`", field.sentence)
        for field in HEADER
    )
    return _rows("offset", "size", "field", "meaning", rows=rows)


def _trailer_table() -> str:
    rows = (
        ("octets" if field is TAG else field.layout.value, f"`{field.name}`", field.sentence)
        for field in (*TRAILER, TAG)
    )
    return _rows("size", "field", "meaning", rows=rows)


def _signature_table() -> str:
    return _rows("size", "field", "meaning", rows=[("octets", f"`{SIGNATURE.name}`", SIGNATURE.sentence)])


def _flags_table() -> str:
    rows = ((f"`0x{int(flag):02x}`", flag.name, sentence) for flag, (_, sentence) in FLAGS.items())
    return _rows("bit", "flag", "meaning", rows=rows)


def _frames_table() -> str:
    rows = [
        (
            int(row.type),
            row.type.name,
            row.direction,
            "; ".join(f"{tlv.name}, {occurs.value}" for tlv, occurs in row.tlvs),
            row.sentence,
        )
        for row in FRAMES
    ]
    return _rows("type", "name", "from → to", "known TLVs of the body", "meaning", rows=rows)


def _layout_text(fields: Iterable[Field]) -> str:
    return ", ".join(
        f"`{field.name}`" if field.layout not in SIZES else f"{field.layout.value} `{field.name}`"
        for field in fields
    )


def _tlvs_table() -> str:
    rows = (
        (
            int(row.type),
            row.type.name,
            ", ".join(frame.type.name for frame in FRAMES if row.type in dict(frame.tlvs)),
            _layout_text(row.fields),
            row.sentence,
        )
        for row in TLVS
    )
    return _rows("type", "name", "in", "value", "meaning", rows=rows)


def _fields_table() -> str:
    rows = [
        (owner, _size(field), f"`{field.name}`", field.sentence)
        for owner, fields in (
            *((row.type.name, row.fields) for row in TLVS),
            *((f"*{record.name}*", record.fields) for record in _RECORDS),
        )
        for field in fields
    ]
    return _rows("of", "size", "field", "meaning", rows=rows)


def _size(field: Field) -> str:
    match field.layout:
        case Layout.TEXT:
            return "text"
        case Layout.VALUE:
            return "value"
        case Layout.OCTETS:
            return "octets"
        case Layout.RECORDS:
            return f"*{field.records.name if field.records else ''}*, any number"
        case Layout.BITS:
            return f"{field.bits} bit" + ("s" if field.bits > 1 else "")
        case number:
            return str(number.value)


def _values_table() -> str:
    rows = ((int(type_), type_.name.lower(), text, size) for type_, (size, text) in VALUES.items())
    return _rows("value type", "name", "value", "bytes", rows=rows)


def _operators_table() -> str:
    rows = ((int(operator), f"`{SYMBOLS[operator]}`", text) for operator, text in OPERATORS.items())
    return _rows("operator", "symbol", "meaning", rows=rows)


def _reasons_table(part: Part) -> str:
    rows = ((f"`{row.reason.value}`", row.sentence) for row in REASONS if row.part is part)
    return _rows("reason", "when", rows=rows)


# --- Files ------------------------------------------------------------------------------------------------

#: File -> the marks of its blocks -> what makes the text of a block.
BLOCKS: dict[Path, dict[str, Callable[[], str]]] = {
    _DISSECTOR: {"constants": _dissector_constants},
    _STATISTICS: {"constants": _statistics_constants},
    DOCUMENT: {
        "header": _header_table,
        "flags": _flags_table,
        "signature": _signature_table,
        "trailer": _trailer_table,
        "frame types": _frames_table,
        "TLVs": _tlvs_table,
        "fields": _fields_table,
        "values": _values_table,
        "operators": _operators_table,
        "reasons of the header": lambda: _reasons_table(Part.HEADER),
        "reasons of the body": lambda: _reasons_table(Part.BODY),
    },
}


def _marks(path: Path, name: str) -> tuple[str, str]:
    """The lines around a block."""
    if path.suffix == ".lua":
        source = "made from router/wire/format.py by `python -m router.wire.generate`"
        return f"-- BEGIN {name}, {source}\n", f"-- END {name}\n"
    return f"<!-- BEGIN {name}, made by `python -m router.wire.generate` -->\n", f"<!-- END {name} -->\n"


def generated(path: Path) -> str:
    """Returns the text of a file with its blocks regenerated.

    Raises:
        ValueError: a mark is missing.
    """
    text = path.read_text(encoding="utf-8")
    for name, make in BLOCKS[path].items():
        begin, end = _marks(path, name)
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not found or not closed:
            raise ValueError(f"{path}: expected the lines {begin!r} and {end!r}")
        text = before + begin + make() + "\n" + end + after
    return text


def main() -> None:
    """Writes the files that differ, and prints their names."""
    for path in BLOCKS:
        text = generated(path)
        if text != path.read_text(encoding="utf-8"):
            path.write_text(text, encoding="utf-8")
            print(path.relative_to(_ROOT))


if __name__ == "__main__":
    main()
