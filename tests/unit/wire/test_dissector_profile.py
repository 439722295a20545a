"""Display filters, statistics, the profile and the names of nodes, as tshark has them."""

from __future__ import annotations

import ctypes.util
import os
import re
import shutil
import struct
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from router.predicates import Constraint, Filter, Message, Operator, Predicate, Type
from router.predicates.encoded import BloomFilter, BloomPredicate, Suite
from router.wire.frames import (
    Commit,
    FrameType,
    Hello,
    Publication,
    PublicationFlags,
    SenderRequest,
    Subscription,
    SubscriptionFlags,
)
from testbed.cli.wireshark import Folders, Installation, read_sources
from tests.support.paths import ROOT
from tests.support.wire_conversation import MS, frame, of_controller, of_router, to_controller
from tests.support.wire_tshark import (
    DISSECTOR,
    ETHERNET,
    STATISTICS,
    as_json,
    needs_tshark,
    rows,
    rows_of,
    tshark,
    with_plugins,
    write_capture,
)
from tests.vectors.wire_vectors import MALFORMED, WHOLE
from topos import Node, Topology
from topos.build import LinkSpec, build
from topos.loaders import to_json

pytestmark = needs_tshark


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
    Installation.of(read_sources(topology), where).bring(lambda _target: False)
    return subprocess.run(
        [*with_plugins(where["plugins"]), "tshark", "-C", "CBCB", "-r", str(capture), *options],
        env={
            **os.environ,
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / ".config"),
            "COLORTERM": "truecolor",
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )


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


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        # Numbers are compared as numbers: as texts, "9" > "50".
        ("cbcb.value.integer > 50", [2]),
        ("cbcb.value.integer < 0", [3]),
        ("cbcb.value.double >= 9.5", [2]),
        ('cbcb.value.string == "ORD"', [1]),
        ('cbcb.value.string == ""', [3]),
        ("cbcb.value.boolean == 1", [3]),
        ('cbcb.message == "12:1"', [1, 4]),
        ('cbcb.message == "12:2"', [2]),
        ("cbcb.seq.number == 1", [1, 3, 4]),
        ("cbcb.seq.incarnation == 2 && cbcb.seq.number == 2", [2]),
        ("cbcb.publication_flags.pending == 1", [4]),
        ("cbcb.publication_flags.custody == 1", []),
        ("cbcb.subscription_flags.refreshed == 1 && !cbcb.subscription_flags.top_up == 1", [5]),
        ('cbcb.encoding == "ranges"', [6]),
        ('cbcb.filter contains "price"', [5]),
    ],
)
def test_display_filters_compare_values_of_their_type(
    tmp_path: Path, wanted: str, numbers: list[int]
) -> None:
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


def decodes_the_vectors(version: str, tmp_path: Path, *options: str) -> None:
    """Compares the Info column of each vector in a plain Lua with a stand-in for Wireshark's classes."""
    lua = shutil.which(f"lua{version}")
    if lua is None:
        pytest.skip(f"lua{version} is not installed (apt-get install lua{version})")
    malformed = [vector for vector in MALFORMED if vector.payload]
    listing = tmp_path / "payloads"
    payloads = [vector.payload for vector in WHOLE] + [vector.payload for vector in malformed]
    listing.write_text("".join(payload.hex() + "\n" for payload in payloads))
    stand_in = ROOT / "tests" / "support" / "wire_wireshark.lua"
    command = [lua, *options, str(stand_in), str(DISSECTOR), str(listing)]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    infos = done.stdout.decode().splitlines()
    assert infos[: len(WHOLE)] == [vector.info for vector in WHOLE]
    reasons = [info.removeprefix("Undecodable: ").partition(":")[0] for info in infos[len(WHOLE) :]]
    assert reasons == [vector.reason for vector in malformed]


@EVERY_LUA
def test_decodes_the_vectors_in_every_lua(version: str, tmp_path: Path) -> None:
    decodes_the_vectors(version, tmp_path)


@EVERY_LUA
@pytest.mark.usefixtures("decimal_comma")
def test_every_lua_decodes_alike_in_a_locale_with_a_decimal_comma(version: str, tmp_path: Path) -> None:
    decodes_the_vectors(version, tmp_path, "-e", f'assert(os.setlocale("{COMMA}"))')
