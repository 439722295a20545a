"""The Wireshark dissector on the golden vectors, through tshark and a capture file."""

from __future__ import annotations

import ctypes.util
import json
import os
import re
import shutil
import struct
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from scapy.packet import Packet, Raw

from router.predicates import Constraint, Filter, Message, Operator, Predicate, Type, Value
from router.predicates.encoded import BloomFilter, BloomPredicate, Suite
from router.predicates.printer import format_predicate
from router.wire import codec, layers
from router.wire.frames import (
    AddressedMessage,
    Commit,
    FrameType,
    Hello,
    Publication,
    PublicationFlags,
    SenderRequest,
    Subscription,
    SubscriptionFlags,
)
from router.wire.header import HEADER_LENGTH, decode_header
from router.wire.message import message_of
from testbed.cli.wireshark import Folders, bring, files_of, read_sources
from tests.support.cases import cases_beside
from tests.support.paths import DOCS, ROOT
from tests.support.wire_conversation import MS, frame, of_controller, of_router, to_controller
from tests.support.wire_tshark import (
    DISSECTOR,
    ETHERNET,
    STATISTICS,
    Row,
    all_fields,
    as_json,
    needs_tshark,
    rows,
    rows_of,
    tshark,
    with_plugins,
    write_capture,
)
from tests.vectors.wire_vectors import FRAGMENTED, MALFORMED, WHOLE, Fragmented, Malformed, Whole, by_name
from topos import LinkSpec, Node, Topology
from topos.build import build
from topos.loaders import to_json

pytestmark = needs_tshark

GUIDE = DOCS / "how-to/wireshark.md"
Trees = dict[bytes, list[ElementTree.Element]]
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
def trees(capture: Path) -> Trees:
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
    vector: Fragmented, shown_rows: dict[bytes, Row], trees: Trees
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
    rows = re.findall(r"^- (`cbcb\.[^:]*): ", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`cbcb\.([a-z_.]+)`", row)}


@pytest.mark.parametrize("vector", WHOLE, ids=by_name)
def test_tree_equals_scapy_s_packet_in_order(vector: Whole, trees: Trees) -> None:
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
def test_marks_malformed_frames_with_the_reason(vector: Malformed, shown_rows: dict[bytes, Row]) -> None:
    row = shown_rows[vector.payload]
    assert row["decode_error"] == [vector.reason]
    assert row["_ws.col.info"][0].startswith(f"Undecodable: {vector.reason}: ")
    assert any(message.startswith(f"{vector.reason}: ") for message in row["_ws.expert.message"])


# Display filters, statistics, the profile and the names of nodes, as tshark has them.


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    payloads = [vector.payload for vector in WHOLE] + [MALFORMED[3].payload]
    return write_capture(tmp_path / "vectors.pcap", ((0, ETHERNET + payload) for payload in payloads))


def test_statistics_count_by_type_and_issuer(vectors: Path) -> None:
    printed = tshark(vectors, "-q", "-z", "cbcb,frames").splitlines()
    types = {kind.name for kind in FrameType}
    counted = {words[0]: int(words[1]) for line in printed if (words := line.split()) and words[0] in types}
    frames = [vector.frame for vector in WHOLE]
    assert counted == Counter(frame.type.name for frame in frames)
    assert any(line.startswith("bad_version") and "undecodable" in line for line in printed)
    issuers = {line.split()[0] for line in printed[printed.index("") + 2 :]}
    assert issuers == {str(frame.issuer) for frame in frames}
    only = tshark(vectors, "-q", "-z", "cbcb,frames,cbcb.type == 2").splitlines()
    assert [line.split()[0] for line in only[1:3]] == ["RA", "all"]


def test_the_capture_filters_of_the_profile_select_frames() -> None:
    library = ctypes.CDLL(ctypes.util.find_library("pcap"))
    library.pcap_open_dead.restype = ctypes.c_void_p
    dead = ctypes.c_void_p(library.pcap_open_dead(1, 65_535))

    def selects(expression: str, data: bytes) -> bool:
        program = (ctypes.c_uint64 * 2)()
        assert library.pcap_compile(dead, program, expression.encode(), 1, 0xFFFFFFFF) == 0, expression
        # struct pcap_pkthdr: two words of time, and the lengths captured and sent.
        head = struct.pack("llII", 0, 0, len(data), len(data))
        return bool(library.pcap_offline_filter(program, head, data))

    lines = read_sources()["profile"]["cfilters"].decode().splitlines()
    named = {line.split('"')[1]: line.split('"')[2].strip() for line in lines}
    frames = {
        "message": of_router(1, frame(FrameType.MSG, 1, 1, Message({}))),
        "private message": of_router(1, b"\1\15" + bytes(30)),
        "advertisement": of_router(1, frame(FrameType.RA, 1, 1, Predicate(()))),
        "hello": to_controller(4, frame(FrameType.HELLO, 4, 1, Hello(1))),
        "commit": of_controller(frame(FrameType.COMMIT, 4, 12, Commit(1))),
        "IPv4": ETHERNET[:12] + b"\x08\0" + bytes(40),
    }
    assert {
        name: [key for key, data in frames.items() if selects(text, data)] for name, text in named.items()
    } == {
        "CBCB frames": ["message", "private message", "advertisement", "hello", "commit"],
        "CBCB messages": ["message", "private message"],
        "CBCB without messages": ["advertisement", "hello", "commit"],
        "CBCB of the controller": ["hello", "commit"],
    }


def test_the_buttons_of_the_profile_are_filters(vectors: Path) -> None:
    lines = read_sources()["profile"]["dfilter_buttons"].decode().splitlines()[1:]
    buttons = [re.fullmatch(r'"TRUE","(.+)","(.+)","(.+)"', line) for line in lines]
    selected = {
        each[1]: len(rows(vectors, ["frame.number"], "-2", "-R", "cbcb", "-Y", each[2]))
        for each in buttons
        if each
    }
    assert len(selected) == len(lines)
    assert all(selected.values()), selected


def in_profile(
    home: Path, capture: Path, *options: str, topology: Topology | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs tshark on a capture in the profile, which it installs into a new home."""
    where: Folders = {
        "plugins": home / ".local/lib/wireshark/plugins",
        "profile": home / ".config/wireshark/profiles/CBCB",
    }
    bring(files_of(read_sources(topology), where), force=True)
    command = [*with_plugins(where["plugins"]), "tshark", "-C", "CBCB", "-r", str(capture), *options]
    own = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config"), "COLORTERM": "truecolor"}
    env = {**os.environ, **own}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=60)


def test_the_profile_colours_and_names_columns(vectors: Path, tmp_path: Path) -> None:
    fields = ("-T", "fields", "-e", "cbcb.type", "-e", "frame.coloring_rule.name")
    done = in_profile(tmp_path / "coloured", vectors, "-n", "--color", *fields)
    # No complaint about a preference, a colour rule or a plugin.
    assert [line for line in done.stderr.splitlines() if "superuser" not in line and "root" not in line] == []
    colours: dict[str, set[str]] = {}
    for line in done.stdout.splitlines():
        kind, colour = line.split("\t")
        colours.setdefault(kind, set()).add(colour)
    assert "CBCB receiver advertisement" in colours["2"]
    assert colours[""] == {"CBCB undecodable"}
    shown = in_profile(tmp_path / "plain", vectors, "-n")
    assert " 3 1 " in shown.stdout  # router 3, to its port 1


def test_names_of_nodes_come_from_the_topology_of_the_run(tmp_path: Path) -> None:
    names = {3: 'a "b" ] }\\', 7: "Zürich"}
    nodes = [Node(number, 1.0, 2.0, names.get(number)) for number in range(9)]
    network = build("nodes", nodes, [LinkSpec(number, number + 1) for number in range(8)])
    topology = tmp_path / "topology.json"
    topology.write_text(to_json(network), encoding="utf-8")
    frames = [of_router(3, frame(FrameType.SR, issuer, 1, SenderRequest(1000))) for issuer in (7, 3, 5)]
    capture = write_capture(tmp_path / "named.pcap", [(at * MS, data) for at, data in enumerate(frames)])
    columns = ["cbcb.sender_name", "cbcb.issuer_name"]
    preference = ("-o", f"cbcb.topology:{topology}")
    shown = in_profile(
        *(tmp_path / "home", capture, "-N", "m"),
        *as_json(["eth.src_resolved", "cbcb.sender_name"]),
        topology=network,
    )
    resolved = 'a_"b"_]_}\\'
    assert rows_of(shown.stdout) == [{"eth.src_resolved": [resolved], "sender_name": [names[3]]}] * 3
    assert rows(capture, columns, *preference) == [
        {"sender_name": [names[3]], "issuer_name": [names[7]]},
        {"sender_name": [names[3]], "issuer_name": [names[3]]},
        {"sender_name": [names[3]]},
    ]
    assert rows(capture, columns) == [{}, {}, {}]
    assert rows(capture, columns, "-o", f"cbcb.topology:{tmp_path / 'nowhere'}") == [{}, {}, {}]


@pytest.mark.parametrize(("wanted", "numbers"), cases_beside(__file__)["display_filters"])
def test_display_filters_compare_typed_values(tmp_path: Path, wanted: str, numbers: list[int]) -> None:
    price = Predicate((Filter((Constraint("price", Type.STRING, Operator.PREFIX, "4"),)),))
    frames = [
        frame(FrameType.MSG, 12, 1, Message({"dest": "ORD", "stops": 9})),
        frame(FrameType.MSG, 12, 2 << 32 | 2, Message({"stops": 51, "price": 9.5})),
        frame(FrameType.MSG, 13, 1, Message({"stops": -(2**62), "dest": "", "late": True})),
        frame(
            FrameType.PUB, 3, 1, Publication(12, 1 << 32 | 1, 7, Message({}), PublicationFlags.PENDING, (4,))
        ),
        frame(FrameType.SUB, 3, 9, Subscription(1, 2, 3, 4, 5, price, SubscriptionFlags.REFRESHED)),
        frame(FrameType.XRA, 3, 9, BloomPredicate([BloomFilter(Suite(7, 64, 3, 2), 5)])),
    ]
    capture = write_capture(tmp_path / "typed.pcap", [(0, of_router(3, payload)) for payload in frames])
    assert rows(capture, ["frame.number"], "-Y", wanted) == [{"frame.number": [str(n)]} for n in numbers]


# The dissector in every Lua, and in locales with a decimal comma.


COMMA = "de_DE.UTF-8"
EVERY_LUA = pytest.mark.parametrize("version", ["5.2", "5.3", "5.4"])


@pytest.fixture(scope="module")
def locales(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a locale that writes 1,5."""
    folder = tmp_path_factory.mktemp("locales")
    if shutil.which("localedef") is None:
        pytest.skip("localedef is not installed (apt-get install locales)")
    command = ["localedef", "-i", "de_DE", "-f", "UTF-8", str(folder / COMMA)]
    if subprocess.run(command, capture_output=True, timeout=60, check=False).returncode != 0:
        pytest.skip("no sources of locales (apt-get install locales)")
    return folder


@pytest.fixture
def decimal_comma(locales: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chooses that locale in the environment."""
    monkeypatch.setenv("LOCPATH", str(locales))
    monkeypatch.setenv("LC_ALL", COMMA)


@pytest.mark.usefixtures("decimal_comma")
def test_writes_decimals_with_a_point_in_every_locale(tmp_path: Path) -> None:
    body = Message({"a": 1.5, "b": 0.1, "c": 2.0, "d": 5e-324, "e": -1.25e300})
    data = of_router(1, frame(FrameType.MSG, 1, 1, body))
    capture = write_capture(tmp_path / "doubles.pcap", [(0, data)])
    (row,) = rows(capture, ["cbcb.value"], "-Y", 'cbcb.attribute == "a=1.5"')
    assert row["value"] == ["1.5", "0.1", "2.0", "5e-324", "-1.25e+300"]
    counted = tshark(capture, "-q", "-z", "cbcb,frames").splitlines()[1].split()
    assert counted == ["MSG", "1", "100.00%", str(len(data)), f"{len(data)}.0"]


@EVERY_LUA
@pytest.mark.parametrize("script", [DISSECTOR, STATISTICS], ids=lambda path: path.name)
def test_is_valid_in_every_lua(version: str, script: Path) -> None:
    compiler = shutil.which(f"luac{version}")
    if compiler is None:
        pytest.skip(f"luac{version} is not installed (apt-get install lua{version})")
    subprocess.run([compiler, "-p", str(script)], check=True)


@EVERY_LUA
@pytest.mark.parametrize("comma", [False, True], ids=["", "decimal comma"])
def test_decodes_the_vectors_in_every_lua(
    version: str, comma: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The Info column of each vector in a plain Lua with a stand-in for Wireshark's classes."""
    if comma:
        request.getfixturevalue("decimal_comma")
    lua = shutil.which(f"lua{version}")
    if lua is None:
        pytest.skip(f"lua{version} is not installed (apt-get install lua{version})")
    malformed = [vector for vector in MALFORMED if vector.payload]
    listing = tmp_path / "payloads"
    payloads = [vector.payload for vector in WHOLE] + [vector.payload for vector in malformed]
    listing.write_text("".join(payload.hex() + "\n" for payload in payloads))
    stand_in = ROOT / "tests" / "support" / "wire_wireshark.lua"
    options = ["-e", f'assert(os.setlocale("{COMMA}"))'] if comma else []
    command = [lua, *options, str(stand_in), str(DISSECTOR), str(listing)]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    infos = done.stdout.decode().splitlines()
    assert infos[: len(WHOLE)] == [vector.info for vector in WHOLE]
    reasons = [info.removeprefix("Undecodable: ").partition(":")[0] for info in infos[len(WHOLE) :]]
    assert reasons == [vector.reason for vector in malformed]
