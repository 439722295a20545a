"""Packets of any network as columns: Ethernet, VLAN, IPv4, IPv6, ports; absent fields are null."""

from __future__ import annotations

import struct
from pathlib import Path
from random import Random
from typing import Any

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop
from scapy.layers.ipsec import AH
from scapy.layers.l2 import ARP, CookedLinux, CookedLinuxV2, Dot1Q, Ether

from captures.datasource.packet_view import PACKET_COLUMNS
from captures.datasource.views import PACKETS, View
from captures.frames.parts import FilePart
from tests.support.capture_files import pcap
from tests.support.compiled_loops import WAYS, loops

_ETHER = Ether(src="00:00:00:00:00:02", dst="00:00:00:00:00:01")
_V4 = IP(src="10.0.0.1", dst="192.168.7.255")
_V6 = IPv6(src="fe80::1", dst="2001:db8::")
_AH = AH(nh=60, payloadlen=4, icv=b"\xff" * 12)
_CASES: dict[str, tuple[Any, dict[str, object]]] = {
    "tcp": (_ETHER / _V4 / TCP(sport=80, dport=4000), {"ip_protocol": 6, "src_port": 80, "dst_port": 4000}),
    "options": (
        _ETHER / IP(src="10.0.0.1", dst="192.168.7.255", options=[b"\x01" * 4]) / UDP(sport=1, dport=2),
        {"ip_protocol": 17, "src_port": 1, "dst_port": 2},
    ),
    "icmp": (_ETHER / _V4 / ICMP(), {"ip_protocol": 1, "src_port": None}),
    "vlan": (
        _ETHER / Dot1Q(vlan=77) / _V4 / UDP(sport=9, dport=8),
        {"vlan": 77, "eth_type": 0x0800, "dst_port": 8},
    ),
    "later fragment": (
        _ETHER / IP(src="10.0.0.1", dst="192.168.7.255", frag=5, proto=17) / (b"\xff" * 20),
        {"ip_protocol": 17, "src_port": None},
    ),
    "v6": (
        _ETHER / _V6 / UDP(sport=53, dport=54),
        {"ip_src": "fe80::1", "ip_dst": "2001:db8::", "ip_protocol": 17, "src_port": 53},
    ),
    "v6 extensions": (
        _ETHER / _V6 / IPv6ExtHdrHopByHop() / IPv6ExtHdrFragment(offset=0, m=1) / TCP(sport=5, dport=6),
        {"ip_protocol": 6, "src_port": 5, "dst_port": 6},
    ),
    "v6 later fragment": (
        _ETHER / _V6 / IPv6ExtHdrFragment(offset=9) / (b"\xff" * 20),
        {"src_port": None, "ip_src": "fe80::1"},
    ),
    "v6 authenticated": (
        _ETHER / _V6 / _AH / IPv6ExtHdrDestOpt() / UDP(sport=7, dport=8),
        {"ip_protocol": 17, "src_port": 7, "dst_port": 8},
    ),
    "arp": (_ETHER / ARP(), {"eth_type": 0x0806, "ip_src": None, "ip_protocol": None}),
}


#: Link type -> the link headers that packets of IPv4 and IPv6 have there.
_LINKS: dict[int, list[tuple[bytes, bytes]]] = {
    101: [(b"", b"")],
    228: [(b"", b"")],
    229: [(b"", b"")],
    113: [
        (bytes(CookedLinux(proto=0x0800)), bytes(CookedLinux(proto=0x86DD))),
        (
            bytes(CookedLinux(proto=0x8100)) + b"\0\7\x08\0",
            bytes(CookedLinux(proto=0x88A8)) + b"\0\7\x86\xdd",
        ),
    ],
    276: [(bytes(CookedLinuxV2(proto=0x0800)), bytes(CookedLinuxV2(proto=0x86DD)))],
    0: [
        (struct.pack(order + "I", 2), struct.pack(order + "I", family))
        for order in "<>"
        for family in (24, 28, 30)
    ],
    108: [(b"\0\0\0\2", b"\0\0\0\x1e")],
}


def _rows(path: Path, packets: list[bytes], compiled: bool, link_type: int = 1) -> list[dict[str, Any]]:
    path.write_bytes(pcap(list(enumerate(packets)), link_type=link_type))
    with loops(compiled=compiled):
        batches = list(View(PACKETS, tuple(PACKET_COLUMNS)).read(FilePart(str(path))))
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("compiled", WAYS)
def test_headers_of_packets_of_all_kinds(tmp_path: Path, compiled: bool) -> None:
    rows = _rows(tmp_path / "a.pcap", [bytes(packet) for packet, _ in _CASES.values()], compiled)
    for row, (name, (packet, expected)) in zip(rows, _CASES.items(), strict=True):
        assert {key: row[key] for key in expected} == expected, name
        assert (row["eth_src"], row["eth_dst"], row["data"]) == (2, 1, bytes(packet)), name
        if row["ip_src"] == "10.0.0.1":
            assert row["ip_dst"] == "192.168.7.255", name


@pytest.mark.parametrize("compiled", WAYS)
@pytest.mark.parametrize("link_type", _LINKS)
def test_internet_headers_behind_other_link_headers(tmp_path: Path, compiled: bool, link_type: int) -> None:
    v4, v6 = bytes(_V4 / UDP(sport=5, dport=6)), bytes(_V6 / TCP(sport=7, dport=8))
    packets = [packet for first, second in _LINKS[link_type] for packet in (first + v4, second + v6)]
    rows = _rows(tmp_path / "a.pcap", packets, compiled, link_type)
    assert {(row["undecodable"], row["eth_type"]) for row in rows} == {("not_ethernet", None)}
    names = ("ip_src", "ip_dst", "ip_protocol", "src_port", "dst_port")
    expected = [("10.0.0.1", "192.168.7.255", 17, 5, 6), ("fe80::1", "2001:db8::", 6, 7, 8)]
    for version, of_other in enumerate((229, 228)):
        headers = expected[version] if link_type != of_other else (None,) * 5
        assert {tuple(row[name] for name in names) for row in rows[version::2]} == {headers}
    # Of another family or protocol, and what is cut off before the addresses.
    odd = [bytes(20) + v4, b"\x12\0\0\0" + v4, b"\0\0\x02\0" + v4]
    cut = [packets[0][:size] for size in range(len(packets[0]) - 8)]
    rows = _rows(tmp_path / "a.pcap", odd + cut, compiled, link_type)
    assert {row["ip_src"] for row in rows} == {None}


@pytest.mark.parametrize("compiled", WAYS)
def test_a_protocol_that_is_cut_off_is_not_told(tmp_path: Path, compiled: bool) -> None:
    extensions = IPv6ExtHdrHopByHop() / _AH / IPv6ExtHdrDestOpt() / UDP(sport=1, dport=2)
    whole = bytes(_ETHER / _V6 / extensions)
    first = 14 + 40
    rows = _rows(tmp_path / "a.pcap", [whole[:size] for size in range(first, len(whole))], compiled)
    assert {row["ip_src"] for row in rows} == {"fe80::1"}
    # 8, 24 and 8 bytes of extension headers.
    assert [row["ip_protocol"] for row in rows] == [None] * 40 + [17] * 8
    assert [row["src_port"] for row in rows] == [None] * 44 + [1] * 4
    # The protocol of a later fragment is in the first, if another header is before it there.
    later = bytes(_ETHER / _V6 / IPv6ExtHdrFragment(offset=9, nh=60)) + b"\x11" * 20
    (row,) = _rows(tmp_path / "a.pcap", [later], compiled)
    assert (row["ip_protocol"], row["src_port"]) == (None, None)


def test_any_bytes_give_the_same_columns_compiled_and_not(tmp_path: Path) -> None:
    random = Random("packets")
    packets = [bytes(packet)[: random.randrange(80)] for packet, _ in _CASES.values() for _ in range(60)]
    packets += [
        bytes(packet[:at]) + random.randbytes(3) + bytes(packet[at + 3 :])
        for packet in map(bytes, (packet for packet, _ in _CASES.values()))
        for at in range(12, 60)
    ]
    seen = set()
    for link_type in (1, *_LINKS):
        plain, compiled = (_rows(tmp_path / "a.pcap", packets, way, link_type) for way in WAYS)
        assert plain == compiled
        seen |= {row["undecodable"] for row in plain}
    assert seen == {None, "truncated", "not_ethernet"}
