"""Captured CBCB frames as rows of the table `frames`, by docs/reference/wire-format.md."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

Value: TypeAlias = str | int | float | bool
Row: TypeAlias = dict[str, Any]
TYPES = {
    1: "MSG", 2: "RA", 3: "SR", 4: "UR", 5: "HELLO", 7: "COMMIT", 8: "ACK", 9: "SUB", 10: "PUB",
    11: "OVERLOAD", 12: "FLUSH", 13: "MSG", 14: "RA", 15: "UR", 16: "TABLE", 17: "RECEIPT",
}  # fmt: skip
_ENCODED = {13, 14, 15}
_OPERATORS = {1: "=", 2: "!=", 3: "<", 4: ">", 5: "<=", 6: ">=", 7: "=*", 8: "*=", 9: "**", 10: "any"}
_VALUE_TYPES = {1: "string", 2: "integer", 3: "double", 4: "boolean"}
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_WORDS = {"and", "or", "any", "true", "false", "none"}
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_HEADER = struct.Struct("!BBBBIQIIHHHH")
_ETHERNET = struct.Struct("!6s6sH")
_CONTROLLER = bytes.fromhex("02ca00000001")
_TO_CONTROLLER = bytes.fromhex("03ff00000000")
_GREATEST = 2**63 - 1
#: A partial frame is given up so long after its last new fragment, ns.
_GIVEN_UP_NS = 30 * 10**9


class MalformedError(Exception):
    """A frame breaks a rule; the argument is the reason."""


def signed(number: int) -> int:
    """The signed number with the 64 bits of an unsigned one."""
    return number - 2**64 if number > _GREATEST else number


def packets(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """Time (ns since 1970 UTC), length on the wire and captured bytes of each packet of a pcap file."""
    content = path.read_bytes()
    order, unit = {
        "d4c3b2a1": ("<", 1000), "4d3cb2a1": ("<", 1), "a1b2c3d4": (">", 1000), "a1b23c4d": (">", 1),
    }[content[:4].hex()]  # fmt: skip
    at = 24
    while at < len(content):
        seconds, fraction, captured, length = struct.unpack_from(f"{order}IIII", content, at)
        yield seconds * 10**9 + fraction * unit, length, content[at + 16 : at + 16 + captured]
        at += 16 + captured


# Texts of values, messages and predicates.


def text_of(value: Value) -> str:
    """A value in the readable notation."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return repr(value)
    return '"' + "".join(map(_escaped, value)) + '"'


def _escaped(character: str) -> str:
    if character in _ESCAPES or character.isprintable():
        return _ESCAPES.get(character, character)
    code = ord(character)
    return f"\\x{code:02x}" if code < 2**8 else f"\\u{code:04x}" if code < 2**16 else f"\\U{code:08x}"


def name_of(name: str) -> str:
    """A name in the readable notation."""
    return name if _PLAIN_NAME.fullmatch(name) and name not in _WORDS else text_of(name)


def message_text(message: dict[str, Value]) -> str:
    """A message in the readable notation."""
    return ", ".join(f"{name_of(name)} = {text_of(value)}" for name, value in message.items()) or "[]"


def _value(kind: int, data: bytes) -> Value:
    match kind:
        case 1:
            return data.decode()
        case 2:
            return int.from_bytes(data, "big", signed=True)
        case 3:
            return float(struct.unpack("!d", data)[0])
        case 4:
            return data == b"\1"
    raise MalformedError("bad_value")


def _filter(data: bytes) -> str:
    constraints, at = [], 0
    while at < len(data):
        end = at + 1 + data[at]
        name = name_of(data[at + 1 : end].decode())
        kind, operator, size = struct.unpack_from("!BBH", data, end)
        at = end + 4 + size
        last = _VALUE_TYPES[kind] if operator == 10 else text_of(_value(kind, data[end + 4 : at]))
        constraints.append(f"{name} {_OPERATORS[operator]} {last}")
    return " and ".join(constraints) or "*"


# Bodies.


def tlvs(body: bytes) -> Iterator[tuple[int, bytes]]:
    """Type and value of each TLV of a body."""
    at = 0
    while at < len(body):
        if at + 5 > len(body):
            raise MalformedError("bad_tlv")
        number, size = struct.unpack_from("!BI", body, at)
        at += 5 + size
        if at > len(body) or number == 0:
            raise MalformedError("bad_tlv")
        yield number, body[at - size : at]


@dataclass
class Content:
    """A body: the fields of the TLVs that it has."""

    message: dict[str, Value] = field(default_factory=dict)
    filters: list[str] = field(default_factory=list)
    blooms: list[bytes] = field(default_factory=list)
    numbers: Row = field(default_factory=dict)
    attention: Row = field(default_factory=dict)
    neighbours: dict[int, int] = field(default_factory=dict)
    classes: list[tuple[int, list[int]]] = field(default_factory=list)
    class_of: list[int] = field(default_factory=list)


def _attribute(content: Content, data: bytes) -> None:
    end = 1 + data[0]
    content.message[data[1:end].decode()] = _value(data[end], data[end + 1 :])


def _subscription(content: Content, data: bytes) -> None:
    names = ("round", "nonce", "remaining", "lifetime_left_us", "freshness_us", "flags")
    fields = dict(zip(names, struct.unpack("!IIIQQB", data), strict=True))
    content.attention |= {name: min(number, _GREATEST) for name, number in fields.items()}
    content.attention.setdefault("offered", [])


def _publication(content: Content, data: bytes) -> None:
    source, seq, age_us, flags = struct.unpack("!IQQB", data)
    content.attention |= {
        "source": source,
        "seq": signed(seq),
        "age_us": min(age_us, _GREATEST),
        "flags": flags,
    }


def _offered(content: Content, data: bytes) -> None:
    source, seq = struct.unpack("!IQ", data)
    content.attention.setdefault("offered", []).append({"source": source, "seq": signed(seq)})


def _destination_map(content: Content, data: bytes) -> None:
    first = int.from_bytes(data[:4], "big")
    bits = "".join(f"{octet:08b}" for octet in data[4:])
    content.numbers["destinations"] = [first + place for place, bit in enumerate(bits) if bit == "1"]


def _tree_class(content: Content, data: bytes) -> None:
    parent, count, *children = struct.unpack(f"!{len(data) // 2}H", data)
    assert count == len(children)
    content.classes.append((parent, children))


def _shorts(data: bytes) -> list[int]:
    return list(struct.unpack(f"!{len(data) // 2}H", data))


def _neighbour(content: Content, data: bytes) -> None:
    interface, node = struct.unpack("!HI", data)
    content.neighbours[interface] = node


def _number(name: str) -> Callable[[Content, bytes], None]:
    return lambda content, data: content.numbers.__setitem__(name, int.from_bytes(data, "big"))


#: TLV -> what takes its value. Others are skipped.
_TAKEN: dict[int, Callable[[Content, bytes], None]] = {
    1: _attribute,
    2: lambda content, data: content.filters.append(_filter(data)),
    3: _number("timeout_us"),
    4: _number("incarnation"),
    5: _neighbour,
    7: _number("oldest_epoch"),
    8: _number("acknowledged"),
    10: lambda content, data: content.numbers.__setitem__(
        "destinations", list(struct.unpack(f"!{len(data) // 4}I", data))
    ),
    11: _destination_map,
    16: _subscription,
    17: _publication,
    18: lambda content, data: content.attention.__setitem__("round", int.from_bytes(data, "big")),
    19: _offered,
    33: lambda content, data: content.blooms.append(data),
    64: _tree_class,
    65: lambda content, data: content.class_of.extend(_shorts(data)),
}


def content_of(body: bytes) -> Content:
    """The content of a body.

    Raises:
        MalformedError: a rule of TLVs is broken.
    """
    content = Content()
    for number, data in tlvs(body):
        if number in _TAKEN:
            _TAKEN[number](content, data)
    return content


def _columns(number: int, content: Content) -> Row:
    """The columns that are made of a body."""
    row: Row = dict(content.numbers)
    if "acknowledged" in row:
        row["acknowledged"] = TYPES[row["acknowledged"]]
    if TYPES[number] in ("MSG", "PUB", "FLUSH") and number not in _ENCODED:
        row["attributes"] = [(name, _fields(value)) for name, value in content.message.items()]
    if number in (2, 4, 9):
        row["predicate"] = " or ".join(content.filters) or "none"
    elif number in (14, 15):
        count = len(content.blooms)
        row["predicate"] = f"encoded, {count} filter{'s' * (count > 1)}" if count else "none"
    if content.attention:
        names = (
            *("round", "nonce", "remaining", "lifetime_left_us", "freshness_us", "offered"),
            *("source", "seq", "age_us", "flags"),
        )
        row["attention"] = {name: content.attention.get(name) for name in names}
    return row


def _fields(value: Value) -> Row:
    kinds = {"string": str, "integer": int, "double": float, "boolean": bool}
    fields: Row = {name: value if type(value) is kind else None for name, kind in kinds.items()}
    return {**fields, "number": float(value) if type(value) in (int, float) else None}


# Captures.


@dataclass
class Capture:
    """A capture of `capture.json`, with the index of its link; and the partial frames in it."""

    name: str
    kind: str
    u: int | None
    v: int | None
    node: int | None
    link: int | None
    path: Path
    partial: dict[tuple[Any, ...], tuple[int, dict[int, bytes]]] = field(default_factory=dict)

    def rows(self) -> Iterator[tuple[Row, Content | None]]:
        """Each frame as a row of the table `frames` without `time` and `time_s`, and its body once whole."""
        for packet, (time_ns, length, data) in enumerate(packets(self.path), start=1):
            yield self._row({"packet": packet, "time_ns": time_ns, "length": length}, data)

    def _row(self, row: Row, data: bytes) -> tuple[Row, Content | None]:
        destination, source, ethertype = _ETHERNET.unpack_from(data)
        row |= {"capture": self.name, "kind": self.kind, "link": self.link, "captured": len(data)}
        row |= {"node": self.node, "ethertype": ethertype}
        row["destination"] = int.from_bytes(destination, "big")
        row["source_address"] = int.from_bytes(source, "big")
        sender = -1 if source == _CONTROLLER else int.from_bytes(source[2:], "big")
        row |= self._ends(sender, destination)
        try:
            header, body = self._header(row, data[14:])
            row |= header
            try:
                content = None if body is None else content_of(body)
                row |= {} if content is None else _columns(data[15], content)
            except MalformedError:
                if row["from_node"] is not None:
                    raise
            if row["from_node"] is None:
                raise MalformedError("bad_source")
            return row, content
        except MalformedError as error:
            return {**row, "undecodable": str(error)}, None

    def _ends(self, sender: int, destination: bytes) -> Row:
        if self.kind == "link":
            other = {self.u: self.v, self.v: self.u}.get(sender)
            return {"from_node": None if other is None else sender, "to_node": other, "direction": None}
        if sender != self.node:
            return {"from_node": sender, "to_node": self.node, "direction": "to_router"}
        to_node = -1 if destination == _TO_CONTROLLER else None
        return {"from_node": sender, "to_node": to_node, "direction": "from_router"}

    def _header(self, row: Row, frame: bytes) -> tuple[Row, bytes | None]:
        """The columns of the header, and the body if the frame makes it whole."""
        if len(frame) < 32:
            raise MalformedError("truncated")
        version, number, flags, hop_limit, issuer, seq, epoch, total, index, count, size, reserved = (
            _HEADER.unpack_from(frame)
        )
        payload = frame[32 : 32 + size]
        for reason, broken in (
            ("bad_version", version != 1),
            ("bad_type", number not in TYPES),
            ("bad_reserved", reserved != 0),
            ("too_large", total > 2**24),
            ("bad_fragment", index >= count),
            ("bad_length", size != total if count == 1 else not 0 < size <= total - count + 1),
            ("truncated", len(payload) < size),
        ):
            if broken:
                raise MalformedError(reason)
        columns: Row = {
            "version": version, "type": TYPES[number], "encoded": number in _ENCODED, "flags": flags,
            "hop_limit": hop_limit, "issuer": issuer, "seq": signed(seq), "epoch": epoch,
            "total_length": total, "fragment_index": index, "fragment_count": count, "payload_length": size,
            "fragment": "whole", "source": issuer if TYPES[number] == "MSG" else None,
        }  # fmt: skip
        if count == 1:
            return columns, payload
        body = self._joined(
            (row["source_address"], number, issuer, seq), row["time_ns"], index, count, payload
        )
        return {**columns, "fragment": "partial" if body is None else "completing"}, body

    def _joined(
        self, key: tuple[Any, ...], time_ns: int, index: int, count: int, payload: bytes
    ) -> bytes | None:
        since_ns, pieces = self.partial.get(key, (time_ns, {}))
        if time_ns - since_ns > _GIVEN_UP_NS:
            pieces = {}
        if index not in pieces:
            since_ns = time_ns
        pieces[index] = payload
        self.partial[key] = since_ns, pieces
        if len(pieces) < count:
            return None
        del self.partial[key]
        return b"".join(pieces[place] for place in range(count))
