"""The Wireshark dissector on the golden vectors, through tshark and a capture file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from scapy.packet import Packet, Raw

from router.predicates.encoded.model import BloomMessage, BloomPredicate, Suite
from router.predicates.model import Message, Operator, Predicate, Value, type_of
from router.predicates.printer import format_predicate
from router.wire import layers
from router.wire.format import Tlv
from router.wire.frames import (
    Ack,
    AddressedMessage,
    BroadcastTable,
    ClassifiedPredicate,
    Commit,
    Frame,
    Hello,
    Overload,
    Publication,
    SenderRequest,
    Subscription,
)
from router.wire.header import HEADER_LENGTH, Header, decode_header
from tests.support.described_frames import describe_destinations
from tests.support.paths import DOCS
from tests.support.wire_tshark import (
    ETHERNET,
    Row,
    all_fields,
    needs_tshark,
    rows,
    tshark,
    write_capture,
)
from tests.vectors.wire_vectors import FRAGMENTED, MALFORMED, WHOLE, Fragmented, Malformed, Whole

pytestmark = needs_tshark

GUIDE = DOCS / "how-to/wireshark.md"
HEADER_FIELDS = Header._fields
FIELDS = (
    *HEADER_FIELDS,
    "version",
    "reserved",
    "padding",
    "load",
    "reassembled_in",
    "fragments",
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
    "sources",
    "class_number",
    "subtrees",
    "destinations",
    "destination",
    "first_destination",
    "destination_bits",
    "parent_interface",
    "child_count",
    "children",
    "reusable",
    "off_tree",
    "oldest_epoch",
    "acknowledged",
    "class_node",
    "round",
    "nonce",
    "remaining",
    "lifetime_left_us",
    "freshness_us",
    "subscription_flags",
    "publication_source",
    "publication_seq",
    "age_us",
    "publication_flags",
    "key_id",
    "set_bits",
    "hashes",
    "encoding",
    "bloom",
    "client",
    "counter",
    "ciphertext",
    "decode_error",
)


def by_name(vector: Whole | Fragmented | Malformed) -> str:
    return vector.name


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
OCTETS = ("data", "subtrees", "destination_bits", "bloom", "ciphertext")


def shown(value: Value) -> str:
    """A value as the notation of predicates writes it."""
    return json.dumps(value, ensure_ascii=False)


def shown_name(name: str) -> str:
    return name if name.isascii() else shown(name)


def destination_fields(destinations: tuple[int, ...]) -> Row:
    ((tlv, fields),) = describe_destinations(destinations)
    if tlv is Tlv.DESTINATIONS:
        return {
            "destinations": ["1" for _ in destinations],
            "destination": [str(node) for node in destinations],
        }
    return {
        "first_destination": [str(fields["first_destination"])],
        "destination_bits": [fields["destination_bits"].hex()],
    }


def suite_fields(suites: list[Suite]) -> Row:
    return {
        "key_id": [str(each.key_id) for each in suites],
        "set_bits": [str(each.bits) for each in suites],
        "hashes": [str(each.hashes) for each in suites],
        "encoding": [str(each.encoding) for each in suites],
    }


def body_fields(frame: Frame) -> Row:
    body = frame.body
    if isinstance(body, AddressedMessage):
        return destination_fields(body.destinations) | body_fields(replace(frame, body=body.message))
    if isinstance(body, BloomMessage):
        return suite_fields([body.suite]) | {
            "bloom": [body.row.hex()],
            "client": [str(int.from_bytes(body.sealed[:4], "big"))],
            "counter": [str(int.from_bytes(body.sealed[4:12], "big"))],
            "ciphertext": [body.sealed[12:].hex()] if body.sealed[12:] else [],
        }
    if isinstance(body, BloomPredicate):
        return suite_fields(list(dict.fromkeys(each.suite for each in body.encoded))) | {
            "bloom": [each.row.hex() for each in body.encoded]
        }
    if isinstance(body, Message):
        return {
            "attribute_name": list(body),
            "value_type": [str(int(type_of(value))) for value in body.values()],
            "value": [shown(value) for value in body.values()],
            "attribute": [f"{shown_name(name)}={shown(value)}" for name, value in body.items()],
        }
    if isinstance(body, ClassifiedPredicate):
        nodes = {"class_node": [str(node) for node, _ in body.classes]}
        return nodes | body_fields(replace(frame, body=Predicate(body.filters)))
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
            "interface": [
                *(str(interface) for interface, _ in body.neighbours),
                *(str(child) for each in body.classes for child in each.children),
            ],
            "node": [str(node) for _, node in body.neighbours],
            "parent_interface": [str(each.parent) for each in body.classes],
            "sources": ["1" for _ in body.class_of],
            "class_number": [str(number) for number in body.class_of.tolist()],
            "child_count": [str(len(each.children)) for each in body.classes],
            "children": ["1" for each in body.classes for _ in each.children],
            "reusable": [
                str(int(child in each.reusable)) for each in body.classes for child in each.children
            ],
            "off_tree": [
                str(int(child in each.off_tree)) for each in body.classes for child in each.children
            ],
            "subtrees": [] if body.subtrees is None else [np.packbits(body.subtrees, axis=1).tobytes().hex()],
        }
    if isinstance(body, Subscription):
        return {
            "round": [str(body.round)],
            "nonce": [str(body.nonce)],
            "remaining": [str(body.remaining)],
            "lifetime_left_us": [str(body.lifetime_left_us)],
            "freshness_us": [str(body.freshness_us)],
            "subscription_flags": [f"0x{int(body.flags):02x}"],
            "publication_source": [str(source) for source, _ in body.offered],
            "publication_seq": [str(seq) for _, seq in body.offered],
            **body_fields(replace(frame, body=body.predicate)),
        }
    if isinstance(body, Publication):
        return {
            **(destination_fields(body.homes) if body.homes else {}),
            "publication_source": [str(body.source)],
            "publication_seq": [str(body.seq)],
            "age_us": [str(body.age_us)],
            "publication_flags": [f"0x{int(body.flags):02x}"],
            **body_fields(replace(frame, body=body.message)),
        }
    if isinstance(body, Overload):
        return {"round": [str(body.round)]}
    if isinstance(body, SenderRequest):
        return {"timeout_us": [str(body.timeout_us)]}
    if isinstance(body, Hello):
        return {"incarnation": [str(body.incarnation)]}
    if isinstance(body, Commit):
        return {"oldest_epoch": [str(body.oldest_epoch)]}
    assert isinstance(body, Ack)
    return {"acknowledged": [str(int(body.acknowledged))]}


def header_fields(payload: bytes) -> Row:
    header = decode_header(payload)._asdict()
    row = {name: [str(int(value))] for name, value in header.items()}
    return row | {"flags": [f"0x{header['flags']:02x}"], "version": ["1"], "reserved": ["0"]}


@pytest.mark.parametrize("vector", WHOLE, ids=by_name)
def test_shows_each_vector_field_by_field(vector: Whole, shown_rows: dict[bytes, Row]) -> None:
    row = dict(shown_rows[vector.payload])
    row.pop("_ws.expert.message", None)
    assert row.pop("_ws.col.info") == [vector.info]
    padding = len(vector.payload) - HEADER_LENGTH - decode_header(vector.payload).payload_length
    assert row.pop("padding", [""])[0] == vector.payload[len(vector.payload) - padding :].hex()
    texts = {name: row.pop(name, []) for name in ("predicate", "filter")}
    expected = header_fields(vector.payload) | body_fields(vector.frame)
    assert row == {name: values for name, values in expected.items() if values}
    if isinstance(vector.frame.body, BloomPredicate):
        assert texts["predicate"] == [format_predicate(vector.frame.body)]
    elif isinstance(vector.frame.body, Predicate | Subscription):
        body = vector.frame.body
        shown_one = body.predicate if isinstance(body, Subscription) else body
        _, _, predicate = vector.info.partition(": ")
        assert predicate == format_predicate(shown_one)
        assert texts["predicate"] == [predicate]
        assert " or ".join(texts["filter"]) == predicate.replace("none", "")
        assert len(texts["filter"]) == len(shown_one)
    else:
        assert not texts["predicate"]


@pytest.mark.parametrize("vector", FRAGMENTED, ids=by_name)
def test_shows_fragments_and_the_whole_with_the_last(
    vector: Fragmented, shown_rows: dict[bytes, Row]
) -> None:
    first = PAYLOADS.index(vector.payloads[0]) + 1
    numbers = [str(first + index) for index in range(len(vector.payloads))]
    for payload, info in zip(vector.payloads, vector.info, strict=True):
        row = dict(shown_rows[payload])
        row.pop("_ws.expert.message", None)
        assert row.pop("_ws.col.info") == [info]
        expected = header_fields(payload) | {"load": [payload[HEADER_LENGTH:].hex()]}
        if payload is vector.payloads[-1]:
            for name in ("predicate", "filter", "_ws.expert.message"):
                row.pop(name, None)
            expected |= body_fields(vector.frame) | {"fragments": numbers}
        assert row == {name: values for name, values in expected.items() if values}


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
    if packet.payload and not isinstance(packet.payload, Raw | layers.Fragment):
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


def documented_additions() -> set[str]:
    return set(re.findall(r"^\| `cbcb\.([a-z_.]+)` \|", GUIDE.read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("vector", WHOLE, ids=by_name)
def test_tree_equals_scapy_s_packet_in_order(
    vector: Whole, trees: dict[bytes, list[ElementTree.Element]]
) -> None:
    additions = documented_additions()
    packet = layers.CBCB(vector.payload)
    expected = [(name, as_shown(name, value)) for name, value in of_scapy(packet)]
    fields = [
        (field.get("name", "").removeprefix("cbcb."), as_pdml(field)) for field in trees[vector.payload]
    ]
    assert [pair for pair in fields if pair[0] not in additions] == expected


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


def test_every_operator_has_its_symbol(shown_rows: dict[bytes, Row]) -> None:
    (vector,) = [one for one in WHOLE if one.name == "ra-string-operators"]
    assert shown_rows[vector.payload]["operator"] == [str(int(operator)) for operator in Operator]
