"""Internet columns behind every link header that is known: as tshark shows them."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest
from scapy.contrib.mpls import MPLS
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import LLC, SNAP, CookedLinux, Dot1AD, Dot1Q, Dot3, Ether
from scapy.layers.ppp import HDLC, PPP, PPPoE

from captures.datasource.options import read_options
from captures.datasource.views import PCAP_VIEWS, view_of
from captures.frames.parts import FilePart
from tests.support.capture_files import pcap
from tests.support.compiled_loops import WAYS, loops
from tests.support.wire_tshark import needs_tshark

_V4 = IP(src="10.0.0.1", dst="192.168.7.255", ttl=17) / TCP(sport=80, dport=4000, flags="SA")
_V6 = IPv6(src="fe80::1", dst="2001:db8::5", hlim=9) / UDP(sport=53, dport=54)
_ETHER = Ether(src="00:00:00:00:00:02", dst="00:00:00:00:00:01")
_LLC = LLC(dsap=0xAA, ssap=0xAA, ctrl=3)
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


_CASES: dict[str, tuple[int, list[bytes]]] = {
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
    "cooked, QinQ": (113, [bytes(CookedLinux(proto=0x88A8)) + b"\0\5\x81\0\0\6\x08\0" + bytes(_V4)]),
}  # fmt: skip
_COLUMNS = (
    "ip_src",
    "ip_dst",
    "ip_protocol",
    "src_port",
    "dst_port",
    "ttl",
    "tcp_flags",
    "vlan",
    "vlan_inner",
)


def _rows(path: Path, *, compiled: bool) -> list[tuple[Any, ...]]:
    view = view_of(read_options("pcap", {"path": str(path), "columns": ",".join(_COLUMNS)}, PCAP_VIEWS))
    with loops(compiled=compiled):
        batches = list(view.read(FilePart(str(path))))
    return [tuple(row[name] for name in _COLUMNS) for batch in batches for row in batch.to_pylist()]


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
        vlans = [*tags, None, None][:2]
        rows.append(
            (
                of_4 or of_6 or None,
                to_4 or to_6 or None,
                *(int(each) if each else None for each in pairs),
                flags,
                *vlans,
            )
        )
    return rows


@needs_tshark
@pytest.mark.parametrize("compiled", WAYS)
@pytest.mark.parametrize("case", _CASES)
def test_columns_are_those_of_tshark(tmp_path: Path, case: str, compiled: bool) -> None:
    link_type, packets = _CASES[case]
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([(1, packet) for packet in packets], link_type=link_type))
    found = _rows(path, compiled=compiled)
    shown = _shown_by_tshark(path)
    if link_type != 1:
        # The columns of Ethernet are null behind other headers.
        shown = [(*row[:-2], None, None) for row in shown]
    assert found == shown
    assert [row[0] for row in found] == [None] if case == "SNAP of another" else all(row[0] for row in found)


@pytest.mark.parametrize("compiled", WAYS)
def test_nflog_of_a_machine_with_big_endian(tmp_path: Path, compiled: bool) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([(1, _nflog(2, bytes(_V4), ">"))], link_type=239))
    ((source, *_),) = _rows(path, compiled=compiled)
    assert source == "10.0.0.1"


def test_cut_and_changed_packets_have_the_same_columns_compiled_and_not(tmp_path: Path) -> None:
    for link_type, packets in _CASES.values():
        path = tmp_path / "a.pcap"
        cut = [packet[:size] for packet in packets for size in range(len(packet))]
        changed = [
            packet[:at] + bytes([value]) + packet[at + 1 :]
            for packet in packets
            for at in range(min(32, len(packet)))
            for value in (0, 1, 255)
        ]
        path.write_bytes(pcap([(1, packet) for packet in cut + changed], link_type=link_type))
        plain, compiled = (_rows(path, compiled=way) for way in WAYS)
        assert plain == compiled
