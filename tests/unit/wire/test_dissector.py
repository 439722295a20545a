"""The Wireshark dissector on the golden vectors, through tshark and a capture file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from scapy.packet import Packet, Raw

from router.predicates import Message, Operator, Predicate, Value
from router.predicates.encoded import BloomPredicate
from router.predicates.printer import format_predicate
from router.wire import codec, layers
from router.wire.frames import AddressedMessage, Publication, Subscription
from router.wire.header import HEADER_LENGTH, decode_header
from router.wire.message import message_of
from tests.support.paths import DOCS
from tests.support.wire_tshark import ETHERNET, Row, all_fields, needs_tshark, rows, tshark, write_capture
from tests.vectors.wire_vectors import FRAGMENTED, MALFORMED, WHOLE, Fragmented, Malformed, Whole, by_name

pytestmark = needs_tshark

GUIDE = DOCS / "how-to/wireshark.md"
#: Fields that the packets of Scapy do not have; what both have is compared in the tree.
FIELDS = ("padding", "fragments", "attribute", "filter", "predicate", "decode_error")


PAYLOADS = [
    *(vector.payload for vector in WHOLE),
    *(vector.payload for vector in MALFORMED),
    *(payload for vector in FRAGMENTED for payload in vector.payloads),
]


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("wire") / "vectors.pcap"
    return write_capture(path, ((0, ETHERNET + payload) for payload in PAYLOADS))


@pytest.fixture(scope="module")
def shown_rows(capture: Path) -> dict[bytes, Row]:
    """Returns the values by field name that tshark shows for each payload of the vectors."""
    columns = [f"cbcb.{name}" for name in FIELDS] + ["_ws.col.Info", "_ws.expert.message"]
    return dict(zip(PAYLOADS, rows(capture, columns), strict=True))


@pytest.fixture(scope="module")
def trees(capture: Path) -> dict[bytes, list[ElementTree.Element]]:
    """The `cbcb` fields of each payload, as tshark nests and orders them (PDML)."""
    packets = ElementTree.fromstring(tshark(capture, "-T", "pdml")).findall("packet")
    return {
        payload: [field for field in packet.iter("field") if field.get("name", "").startswith("cbcb.")]
        for payload, packet in zip(PAYLOADS, packets, strict=True)
    }


#: Fields that are shown as bytes.
OCTETS = ("data", "load", "subtrees", "destination_bits", "bloom", "ciphertext")


def shown(value: Value) -> str:
    """A value as the notation of predicates writes it."""
    return json.dumps(value, ensure_ascii=False)


def shown_name(name: str) -> str:
    return name if name.isascii() else shown(name)


def attributes_of(body: Any) -> Message:
    """The attributes that a body shows; none where it has no message in the clear."""
    if isinstance(body, Publication):
        return body.message
    return message_of(body) if isinstance(body, Message | AddressedMessage) else Message({})


@pytest.mark.parametrize("vector", WHOLE, ids=by_name)
def test_shows_the_summary_and_the_texts_of_each_vector(vector: Whole, shown_rows: dict[bytes, Row]) -> None:
    row, body = shown_rows[vector.payload], vector.frame.body
    assert row["_ws.col.info"] == [vector.info]
    padding = len(vector.payload) - HEADER_LENGTH - decode_header(vector.payload).payload_length
    assert row.get("padding", [""])[0] == vector.payload[len(vector.payload) - padding :].hex()
    assert row.get("attribute", []) == [
        f"{shown_name(name)}={shown(value)}" for name, value in attributes_of(body).items()
    ]
    if isinstance(body, BloomPredicate):
        assert row["predicate"] == [format_predicate(body)]
    elif isinstance(body, Predicate | Subscription):
        shown_one = body.predicate if isinstance(body, Subscription) else body
        _, _, predicate = vector.info.partition(": ")
        assert predicate == format_predicate(shown_one)
        assert row["predicate"] == [predicate]
        filters = row.get("filter", [])
        assert " or ".join(filters) == predicate.replace("none", "")
        assert len(filters) == len(shown_one)
    else:
        assert "predicate" not in row


@pytest.mark.parametrize("vector", FRAGMENTED, ids=by_name)
def test_shows_fragments_and_the_whole_with_the_last(
    vector: Fragmented, shown_rows: dict[bytes, Row], trees: dict[bytes, list[ElementTree.Element]]
) -> None:
    first = PAYLOADS.index(vector.payloads[0]) + 1
    numbers = [str(first + index) for index in range(len(vector.payloads))]
    body = layers.BODIES[vector.frame.type](codec.encode_body(vector.frame))
    for payload, info in zip(vector.payloads, vector.info, strict=True):
        is_last = payload is vector.payloads[-1]
        assert shown_rows[payload]["_ws.col.info"] == [info]
        assert shown_rows[payload].get("fragments", []) == (numbers if is_last else [])
        expected = as_pairs(layers.CBCB(payload)) + (as_pairs(body) if is_last else [])
        assert in_tree(trees[payload]) == expected


def of_scapy(packet: Packet) -> Iterator[tuple[str, Any]]:
    """The fields of a packet in order; a list as its name before each of its elements."""
    for field in packet.fields_desc:
        value = packet.getfieldval(field.name)
        if isinstance(value, list):
            for part in value:
                yield field.name, None
                yield from of_scapy(part)
        # What has no bytes is not shown: values of existence constraints and of empty unknown TLVs.
        elif not (isinstance(value, bytes) and not value) and not (
            field.name == "value" and getattr(packet, "operator", None) == Operator.ANY
        ):
            yield field.name, value
    if packet.payload and (type(packet.payload) is layers.Fragment or not isinstance(packet.payload, Raw)):
        yield from of_scapy(packet.payload)


def as_shown(name: str, value: Any) -> str | None:
    if name == "value":
        return shown(value)
    if name.endswith("flags"):
        return f"0x{int(value):02x}"
    if isinstance(value, bytes):
        return value.hex() if name in OCTETS else value.decode()
    return None if value is None else str(int(value))


def as_pdml(field: ElementTree.Element) -> str | None:
    name, text = field.get("name", "").removeprefix("cbcb."), field.get("show", "")
    if name in ("reusable", "off_tree"):
        return str(int(text in ("1", "True")))
    if name in OCTETS:
        return text.replace(":", "")
    return None if name in ("tlvs", "constraints", "children", "destinations", "sources") else text


def as_pairs(packet: Packet) -> list[tuple[str, str | None]]:
    """The fields of a packet of Scapy in order, as the tree has them."""
    return [(name, as_shown(name, value)) for name, value in of_scapy(packet)]


def in_tree(fields: list[ElementTree.Element]) -> list[tuple[str, str | None]]:
    """The fields that tshark shows, in order, without those that the guide lists as additions."""
    pairs = [(field.get("name", "").removeprefix("cbcb."), as_pdml(field)) for field in fields]
    additions = documented_additions()
    return [pair for pair in pairs if pair[0] not in additions]


@cache
def documented_additions() -> set[str]:
    rows = re.findall(r"^\| (`cbcb\..*?) \|", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`cbcb\.([a-z_.]+)`", row)}


@pytest.mark.parametrize("vector", WHOLE, ids=by_name)
def test_tree_equals_scapy_s_packet_in_order(
    vector: Whole, trees: dict[bytes, list[ElementTree.Element]]
) -> None:
    assert in_tree(trees[vector.payload]) == as_pairs(layers.CBCB(vector.payload))


def test_field_names_are_those_of_the_scapy_layers() -> None:
    def names(layer: Any) -> Iterator[str]:
        for field in layer.fields_desc:
            yield field.name

    parts = [
        value for value in vars(layers).values() if isinstance(value, type) and issubclass(value, Packet)
    ]
    ours = [part for part in parts if part.__module__ == layers.__name__]
    scapy = {name for part in ours for name in names(part)}
    registered = {
        line.split("\t")[2].removeprefix("cbcb.")
        for line in all_fields().splitlines()
        if line.startswith("F\t") and line.split("\t")[2].startswith("cbcb.")
    }
    assert registered - scapy == documented_additions()
    assert scapy <= registered


# Wireshark calls no dissector for an empty Ethernet payload.
@pytest.mark.parametrize("vector", [one for one in MALFORMED if one.payload], ids=by_name)
def test_marks_malformed_frames_with_the_codec_s_reason(
    vector: Malformed, shown_rows: dict[bytes, Row]
) -> None:
    row = shown_rows[vector.payload]
    assert row["decode_error"] == [vector.reason]
    assert row["_ws.col.info"][0].startswith(f"Undecodable: {vector.reason}: ")
    assert any(message.startswith(f"{vector.reason}: ") for message in row["_ws.expert.message"])
