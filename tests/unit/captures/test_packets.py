"""Packets of any network as columns: Internet headers behind all known link headers, as in tshark."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest
from scapy.contrib.mpls import MPLS
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop
from scapy.layers.ipsec import AH
from scapy.layers.l2 import ARP, LLC, SNAP, CookedLinux, CookedLinuxV2, Dot1AD, Dot1Q, Dot3, Ether
from scapy.layers.ppp import HDLC, PPP, PPPoE

from captures.datasource.views import PACKETS
from captures.frames.parts import FilePart
from tests.support.capture_files import made_view, pcap
from tests.support.compiled_loops import WAYS, loops
from tests.support.wire_tshark import needs_tshark

_V4 = IP(src="10.0.0.1", dst="192.168.7.255", ttl=17) / TCP(sport=80, dport=4000, flags="SA")
_V6_HEADER = IPv6(src="fe80::1", dst="2001:db8::5", hlim=9)
_V6 = _V6_HEADER / UDP(sport=53, dport=54)
_ETHER = Ether(src="00:00:00:00:00:02", dst="00:00:00:00:00:01")
_LLC = LLC(dsap=0xAA, ssap=0xAA, ctrl=3)
_AH = AH(nh=60, payloadlen=4, icv=b"\xff" * 12)
_METADATA = bytes.fromhex("010100010005")
_HEAD_OF_V4, _HEAD_OF_V6 = bytes(PPP(proto=0x21)), bytes(PPP(proto=0x57))


def _nflog(family: int, packet: bytes, order: str) -> bytes:
    """A packet of NFLOG behind two other attributes."""
    content = struct.pack("!BBH", family, 0, 7)
    for kind, value in ((1, b"\x08\x00\x01\x00"), (10, b"eth0\0"), (9, packet)):
        content += struct.pack(order + "HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)
    return content


def _compressed(packet: bytes) -> bytes:
    """A PPP frame without address, with the number of the protocol in one byte."""
    return (b"\x21" if packet[0] >> 4 == 4 else b"\x57") + packet


def _cooked(head: type[Any]) -> list[bytes]:
    return [bytes(head(proto=0x0800) / _V4), bytes(head(proto=0x86DD) / _V6)]


#: Link type and packets.
_CASES: dict[str, tuple[int, list[bytes]]] = {
    "Ethernet": (1, [bytes(_ETHER / _V4), bytes(_ETHER / _V6)]),
    "IP options": (1, [bytes(_ETHER / IP(options=[b"\x01" * 4]) / UDP(sport=1, dport=2))]),
    "ICMP": (1, [bytes(_ETHER / IP(src="10.0.0.1") / ICMP())]),
    "ARP": (1, [bytes(_ETHER / ARP())]),
    "later fragment": (1, [bytes(_ETHER / IP(src="10.0.0.1", frag=5, proto=17) / (b"\xff" * 20))]),
    "VLAN": (1, [bytes(_ETHER / Dot1Q(vlan=77) / each) for each in (_V4, _V6)]),
    "QinQ": (1, [bytes(_ETHER / Dot1AD(vlan=5) / Dot1Q(vlan=6) / each) for each in (_V4, _V6)]),
    "old QinQ": (1, [bytes(Ether(type=0x9100) / Dot1Q(vlan=5) / Dot1Q(vlan=6) / _V4)]),
    "three tags": (1, [bytes(_ETHER / Dot1AD(vlan=5) / Dot1Q(vlan=6) / Dot1Q(vlan=7) / _V4)]),
    "SNAP": (1, [bytes(Dot3() / _LLC / SNAP(OUI=0, code=0x800) / _V4)]),
    "SNAP, v6": (1, [bytes(Dot3() / _LLC / SNAP(OUI=0, code=0x86DD) / _V6)]),
    "SNAP of a bridge": (1, [bytes(Dot3() / _LLC / SNAP(OUI=0xF8, code=0x800) / _V4)]),
    "SNAP of another": (1, [bytes(Dot3() / _LLC / SNAP(OUI=0xC, code=0x800) / _V4)]),
    "PPPoE": (1, [bytes(_ETHER / PPPoE(sessionid=3) / PPP() / each) for each in (_V4, _V6)]),
    "PPPoE in a VLAN": (1, [bytes(_ETHER / Dot1Q(vlan=6) / PPPoE(sessionid=3) / PPP() / _V4)]),
    "MPLS": (1, [bytes(_ETHER / MPLS(label=99, s=0) / MPLS(label=16, s=1) / each) for each in (_V4, _V6)]),
    "raw, DLT 12": (12, [bytes(_V4), bytes(_V6)]),
    "raw, DLT 14": (14, [bytes(_V4), bytes(_V6)]),
    "raw, DLT 101": (101, [bytes(_V4), bytes(_V6)]),
    "raw IPv4": (228, [bytes(_V4)]),
    "raw IPv6": (229, [bytes(_V6)]),
    "loopback of BSD": (
        0,
        [struct.pack(order + "I", 2) + bytes(_V4) for order in "<>"]
        + [struct.pack(order + "I", family) + bytes(_V6) for order in "<>" for family in (24, 28, 30)],
    ),
    "loopback of OpenBSD": (108, [b"\0\0\0\2" + bytes(_V4), b"\0\0\0\x1e" + bytes(_V6)]),
    "PPP": (9, [_HEAD_OF_V4 + bytes(_V4), _HEAD_OF_V6 + bytes(_V6)]),
    "PPP, compressed": (9, [_compressed(bytes(_V4)), _compressed(bytes(_V6))]),
    "PPP with address": (9, [bytes(HDLC() / PPP() / each) for each in (_V4, _V6)]),
    "PPP, MPLS": (9, [bytes(HDLC()) + b"\x02\x81" + bytes(MPLS(label=99, s=1) / _V4)]),
    "PPP, serial": (50, [bytes(HDLC() / PPP() / _V4)]),
    "Cisco's HDLC": (50, [b"\x0f\0\x08\0" + bytes(_V4), b"\x8f\0\x86\xdd" + bytes(_V6)]),
    "Cisco's HDLC, DLT 104": (104, [b"\x0f\0\x08\0" + bytes(_V4), b"\0\5\x86\xdd" + bytes(_V6)]),
    "Cisco's metadata": (1, [bytes(Ether(type=0x8909)) + _METADATA + b"\x08\0" + bytes(_V4)]),
    "Cisco's metadata in a VLAN": (
        1, [bytes(_ETHER / Dot1Q(vlan=6, type=0x8909)) + _METADATA + b"\x88\x47" + bytes(MPLS(s=1) / _V4)],
    ),
    "PPPoE without Ethernet": (51, [bytes(PPPoE(sessionid=3) / PPP() / _V4)]),
    "NFLOG": (239, [_nflog(2, bytes(_V4), "<"), _nflog(10, bytes(_V6), "<")]),
    "cooked": (113, _cooked(CookedLinux)),
    "cooked, VLAN": (113, [bytes(CookedLinux(proto=0x8100)) + b"\0\7\x08\0" + bytes(_V4)]),
    "cooked, QinQ": (113, [bytes(CookedLinux(proto=0x88A8)) + b"\0\5\x81\0\0\6\x08\0" + bytes(_V4)]),
    "cooked, version 2": (276, _cooked(CookedLinuxV2)),
}  # fmt: skip
#: What tshark shows in fields of its own -> the protocol and the ports behind the extension headers of IPv6.
_EXTENSIONS: dict[str, tuple[Any, tuple[int | None, ...]]] = {
    "first fragment": (IPv6ExtHdrHopByHop() / IPv6ExtHdrFragment(m=1) / TCP(sport=5, dport=6), (6, 5, 6)),
    "later fragment": (IPv6ExtHdrFragment(offset=9, nh=17) / (b"\xff" * 20), (17, None, None)),
    # The protocol of a later fragment is in the first, if another header is before it there.
    "later fragment of another": (IPv6ExtHdrFragment(offset=9, nh=60) / (b"\x11" * 20), (None, None, None)),
    "authenticated": (_AH / IPv6ExtHdrDestOpt() / UDP(sport=7, dport=8), (17, 7, 8)),
}
_COLUMNS = (
    *("ip_src", "ip_dst", "ip_protocol", "src_port", "dst_port", "ttl", "tcp_flags"),
    *("vlan", "vlan_inner"),
)


def _rows(
    path: Path, packets: list[bytes], link_type: int, compiled: bool, columns: tuple[str, ...] = _COLUMNS
) -> list[tuple[Any, ...]]:
    path.write_bytes(pcap([(1, packet) for packet in packets], link_type=link_type))
    with loops(compiled=compiled):
        batches = list(made_view(PACKETS, columns).read(FilePart(str(path))))
    return [tuple(row[name] for name in columns) for batch in batches for row in batch.to_pylist()]


def _shown_by_tshark(path: Path) -> list[tuple[Any, ...]]:
    """The columns, of tshark's fields; of two tags the first two."""
    fields = (
        "ip.src", "ipv6.src", "ip.dst", "ipv6.dst", "ip.proto", "ipv6.nxt", "tcp.srcport", "udp.srcport",
        "tcp.dstport", "udp.dstport", "ip.ttl", "ipv6.hlim", "tcp.flags", "ieee8021ad.id", "vlan.id",
    )  # fmt: skip
    command = ["tshark", "-r", str(path), "-T", "fields", "-E", "separator=;"]
    for field in fields:
        command += ["-e", field]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = []
    for line in text.splitlines():
        of_4, of_6, to_4, to_6, *numbers, outer, inner = line.split(";")
        pairs = [numbers[at] or numbers[at + 1] for at in range(0, 8, 2)]
        flags = int(numbers[8], 16) & 0xFF if numbers[8] else None
        tags = [int(tag) for tag in f"{outer},{inner}".split(",") if tag]
        columns = (*(int(each) if each else None for each in pairs), flags, *[*tags, None, None][:2])
        rows.append((of_4 or of_6 or None, to_4 or to_6 or None, *columns))
    return rows


@needs_tshark
@pytest.mark.parametrize("compiled", WAYS)
@pytest.mark.parametrize("case", _CASES)
def test_columns_are_those_of_tshark(tmp_path: Path, case: str, compiled: bool) -> None:
    link_type, packets = _CASES[case]
    path = tmp_path / "a.pcap"
    found = _rows(path, packets, link_type, compiled)
    shown = _shown_by_tshark(path)
    if link_type != 1:
        # The columns of Ethernet are null behind other headers.
        shown = [(*row[:-2], None, None) for row in shown]
        of_link = _rows(path, packets, link_type, compiled, ("undecodable", "eth_type"))
        assert set(of_link) == {("not_ethernet", None)}
    assert found == shown
    assert [row[0] is None for row in found] == [case in ("ARP", "SNAP of another")] * len(packets)


@pytest.mark.parametrize("compiled", WAYS)
def test_protocols_and_ports_behind_extension_headers(tmp_path: Path, compiled: bool) -> None:
    packets = [bytes(_ETHER / _V6_HEADER / each) for each, _ in _EXTENSIONS.values()]
    found = _rows(tmp_path / "a.pcap", packets, 1, compiled, ("ip_src", *_COLUMNS[2:5]))
    assert found == [("fe80::1", *expected) for _, expected in _EXTENSIONS.values()]


@pytest.mark.parametrize("compiled", WAYS)
def test_a_protocol_that_is_cut_off_is_null(tmp_path: Path, compiled: bool) -> None:
    whole = bytes(
        _ETHER / _V6_HEADER / IPv6ExtHdrHopByHop() / _AH / IPv6ExtHdrDestOpt() / UDP(sport=1, dport=2)
    )
    cut = [whole[:size] for size in range(14 + 40, len(whole))]
    rows = _rows(tmp_path / "a.pcap", cut, 1, compiled, ("ip_src", "ip_protocol", "src_port"))
    # 8, 24 and 8 bytes of extension headers, 4 of ports.
    assert rows == [("fe80::1", None, None)] * 40 + [("fe80::1", 17, None)] * 4 + [("fe80::1", 17, 1)] * 4


@pytest.mark.parametrize("compiled", WAYS)
def test_columns_of_ethernet(tmp_path: Path, compiled: bool) -> None:
    packets = [bytes(_ETHER / each) for each in (_V4, Dot1Q(vlan=77) / _V4, ARP())]
    columns = ("eth_src", "eth_dst", "eth_type", "vlan", "data")
    assert _rows(tmp_path / "a.pcap", packets, 1, compiled, columns) == [
        (2, 1, *expected, packet)
        for packet, expected in zip(packets, ((0x0800, None), (0x0800, 77), (0x0806, None)), strict=True)
    ]


@pytest.mark.parametrize("compiled", WAYS)
def test_nflog_of_a_machine_with_big_endian(tmp_path: Path, compiled: bool) -> None:
    ((source, *_),) = _rows(tmp_path / "a.pcap", [_nflog(2, bytes(_V4), ">")], 239, compiled)
    assert source == "10.0.0.1"


@pytest.mark.parametrize("compiled", WAYS)
def test_packets_of_another_family_have_no_address(tmp_path: Path, compiled: bool) -> None:
    for link_type in (101, 228, 229, 113, 276, 0, 108):
        odd = [head + bytes(_V4) for head in (bytes(20), b"\x12\0\0\0", b"\0\0\x02\0")]
        odd += {228: [bytes(_V6)], 229: [bytes(_V4)]}.get(link_type, [])
        assert {row[0] for row in _rows(tmp_path / "a.pcap", odd, link_type, compiled)} == {None}


def test_cut_and_changed_packets_have_the_same_columns_compiled_and_not(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    of_extensions = [bytes(_ETHER / _V6_HEADER / each) for each, _ in _EXTENSIONS.values()]
    for link_type, packets in [*_CASES.values(), (1, of_extensions)]:
        cut = [packet[:size] for packet in packets for size in range(len(packet))]
        changed = [
            packet[:at] + bytes([value]) + packet[at + 1 :]
            for packet in packets
            for at in range(min(60, len(packet)))
            for value in (0, 1, 255)
        ]
        plain, compiled = (_rows(path, cut + changed, link_type, way) for way in WAYS)
        assert plain == compiled
        addresses = {row[:2] for row in _rows(path, packets, link_type, False)}
        assert {row[:2] for row in plain[: len(cut)]} <= {*addresses, (None, None)}
