"""The Wireshark dissector on the golden vectors, through tshark and a capture file."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from router.predicates.model import Message, Operator, Predicate, Value, type_of
from router.predicates.printer import format_predicate
from router.wire import codec
from router.wire.frames import Ack, BroadcastTable, Commit, Frame, Hello, SenderRequest
from tests.vectors.wire_vectors import FRAGMENTED, MALFORMED, WHOLE, Fragmented, Malformed, Whole

pytestmark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")

DISSECTOR = Path(codec.__file__).with_name("cbcb.lua")
ETHERNET = bytes.fromhex("03000000000102cb0000000388b5")
#: Stands between the values of a field that occurs more than once.
BETWEEN = "\x1f"
HEADER_FIELDS = codec.Header._fields
FIELDS = (
    *HEADER_FIELDS,
    "version",
    "reserved",
    "padding",
    "fragment",
    "attribute_name",
    "value_type",
    "operator",
    "value",
    "attribute",
    "filter",
    "predicate",
    "timeout_us",
    "incarnation",
    "interface",
    "node",
    "source",
    "parent_interface",
    "downstream",
    "child_count",
    "children",
    "reusable",
    "off_tree",
    "oldest_epoch",
    "acknowledged",
    "decode_error",
)

Row = dict[str, list[str]]


def by_name(vector: Whole | Fragmented | Malformed) -> str:
    return vector.name


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[bytes, Row]:
    """What tshark shows for each payload of the vectors: values by field name."""
    payloads = [vector.payload for vector in WHOLE]
    payloads += [vector.payload for vector in MALFORMED]
    payloads += [payload for vector in FRAGMENTED for payload in vector.payloads]
    capture = tmp_path_factory.mktemp("wire") / "vectors.pcap"
    with capture.open("wb") as file:
        file.write(struct.pack("!IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65_535, 1))
        for payload in payloads:
            data = ETHERNET + payload
            file.write(struct.pack("!IIII", 0, 0, len(data), len(data)) + data)
    columns = [f"cbcb.{name}" for name in FIELDS] + ["_ws.col.Info", "_ws.expert.message"]
    command = ["tshark", "-X", f"lua_script:{DISSECTOR}", "-r", str(capture), "-T", "fields"]
    command += ["-E", "separator=/t", "-E", f"aggregator={BETWEEN}"]
    command += [word for column in columns for word in ("-e", column)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert "Lua" not in done.stderr, done.stderr
    lines = done.stdout.removesuffix("\n").split("\n")
    assert len(lines) == len(payloads)
    names = [column.removeprefix("cbcb.") for column in columns]
    return {
        payload: {
            name: unescaped(text).split(BETWEEN)
            for name, text in zip(names, line.split("\t"), strict=True)
            if text
        }
        for payload, line in zip(payloads, lines, strict=True)
    }


def shown(value: Value) -> str:
    """A value as the notation of predicates writes it."""
    return json.dumps(value, ensure_ascii=False)


def shown_name(name: str) -> str:
    return name if name.isascii() else shown(name)


def unescaped(text: str) -> str:
    """Some versions of tshark double backslashes in their output; compare without that."""
    return text.replace("\\\\", "\\")


def body_fields(frame: Frame) -> Row:
    body = frame.body
    if isinstance(body, Message):
        return {
            "attribute_name": list(body),
            "value_type": [str(int(type_of(value))) for value in body.values()],
            "value": [unescaped(shown(value)) for value in body.values()],
            "attribute": [unescaped(f"{shown_name(name)}={shown(value)}") for name, value in body.items()],
        }
    if isinstance(body, Predicate):
        constraints = [one for each in body for one in each]
        return {
            "attribute_name": [one.name for one in constraints],
            "value_type": [str(int(one.type)) for one in constraints],
            "operator": [str(int(one.operator)) for one in constraints],
            "value": [shown(one.value) for one in constraints if one.value is not None],
        }
    if isinstance(body, BroadcastTable):
        return {
            "interface": [str(interface) for interface, _ in body.neighbours],
            "node": [str(node) for _, node in body.neighbours],
            "source": [str(entry.source) for entry in body.entries],
            "parent_interface": [str(entry.parent) for entry in body.entries],
            "downstream": [str(entry.downstream) for entry in body.entries],
            "child_count": [str(len(entry.children)) for entry in body.entries],
            "children": [str(child) for entry in body.entries for child in entry.children],
            "reusable": [
                str(int(child in entry.reusable)) for entry in body.entries for child in entry.children
            ],
            "off_tree": [
                str(int(child in entry.off_tree)) for entry in body.entries for child in entry.children
            ],
        }
    if isinstance(body, SenderRequest):
        return {"timeout_us": [str(body.timeout_us)]}
    if isinstance(body, Hello):
        return {"incarnation": [str(body.incarnation)]}
    if isinstance(body, Commit):
        return {"oldest_epoch": [str(body.oldest_epoch)]}
    assert isinstance(body, Ack)
    return {"acknowledged": [str(int(body.acknowledged))]}


def header_fields(payload: bytes) -> Row:
    header = codec.decode_header(payload)._asdict()
    row = {name: [str(int(value))] for name, value in header.items()}
    return row | {"flags": [f"0x{header['flags']:02x}"], "version": ["1"], "reserved": ["0"]}


@pytest.mark.parametrize("vector", WHOLE, ids=by_name)
def test_shows_each_vector_field_by_field(vector: Whole, rows: dict[bytes, Row]) -> None:
    row = dict(rows[vector.payload])
    assert row.pop("_ws.col.Info") == [unescaped(vector.info)]
    padding = len(vector.payload) - codec.HEADER_LENGTH - codec.decode_header(vector.payload).payload_length
    assert row.pop("padding", [""])[0] == vector.payload[len(vector.payload) - padding :].hex()
    texts = {name: row.pop(name, []) for name in ("predicate", "filter")}
    expected = header_fields(vector.payload) | body_fields(vector.frame)
    assert row == {name: values for name, values in expected.items() if values}
    if isinstance(vector.frame.body, Predicate):
        _, _, predicate = vector.info.partition(": ")
        assert predicate == format_predicate(vector.frame.body)
        assert texts["predicate"] == [predicate]
        assert " or ".join(texts["filter"]) == predicate.replace("none", "")
        assert len(texts["filter"]) == len(vector.frame.body)
    else:
        assert not texts["predicate"]


@pytest.mark.parametrize("vector", FRAGMENTED, ids=by_name)
def test_shows_fragments(vector: Fragmented, rows: dict[bytes, Row]) -> None:
    for payload, info in zip(vector.payloads, vector.info, strict=True):
        row = dict(rows[payload])
        assert row.pop("_ws.col.Info") == [info]
        expected = header_fields(payload) | {"fragment": [payload[codec.HEADER_LENGTH :].hex()]}
        assert row == expected


# Wireshark calls no dissector for an empty Ethernet payload.
@pytest.mark.parametrize("vector", [one for one in MALFORMED if one.payload], ids=by_name)
def test_marks_malformed_frames_with_the_codec_s_reason(vector: Malformed, rows: dict[bytes, Row]) -> None:
    row = rows[vector.payload]
    assert row["decode_error"] == [vector.reason]
    assert row["_ws.col.Info"][0].startswith(f"Undecodable: {vector.reason}: ")
    assert any(message.startswith(f"{vector.reason}: ") for message in row["_ws.expert.message"])


def test_every_operator_has_its_symbol(rows: dict[bytes, Row]) -> None:
    (vector,) = [one for one in WHOLE if one.name == "ra-string-operators"]
    assert rows[vector.payload]["operator"] == [str(int(operator)) for operator in Operator]
