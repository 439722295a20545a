"""Packets of any network as columns: Ethernet, VLAN, IPv4, IPv6, ports; what is not there is null."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop
from scapy.layers.l2 import ARP, Dot1Q, Ether

from captures.packets.compiling import numba_is_there
from captures.packets.splitting import FilePart
from captures.sources.packets import PACKET_COLUMNS
from captures.sources.views import PACKETS, View
from tests.unit.capture_files import pcap

_ETHER = Ether(src="00:00:00:00:00:02", dst="00:00:00:00:00:01")
_V4 = IP(src="10.0.0.1", dst="192.168.7.255")
_V6 = IPv6(src="fe80::1", dst="2001:db8::")
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
    "arp": (_ETHER / ARP(), {"eth_type": 0x0806, "ip_src": None, "ip_protocol": None}),
}


def _rows(path: Path, packets: list[bytes], compiled: bool) -> list[dict[str, Any]]:
    path.write_bytes(pcap(list(enumerate(packets))))
    modules = ("captures.pcap", "captures.packets.gather", "captures.packets.internet")
    patches = [patch(f"{module}.worth_compiling", return_value=compiled) for module in modules]
    for each in patches:
        each.start()
    try:
        batches = list(View(PACKETS, tuple(PACKET_COLUMNS)).read(FilePart(str(path))))
    finally:
        for each in patches:
            each.stop()
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("compiled", sorted({False, numba_is_there()}))
def test_headers_of_packets_of_all_kinds(tmp_path: Path, compiled: bool) -> None:
    rows = _rows(tmp_path / "a.pcap", [bytes(packet) for packet, _ in _CASES.values()], compiled)
    for row, (name, (packet, expected)) in zip(rows, _CASES.items(), strict=True):
        assert {key: row[key] for key in expected} == expected, name
        assert (row["eth_src"], row["eth_dst"], row["data"]) == (2, 1, bytes(packet)), name
        if row["ip_src"] == "10.0.0.1":
            assert row["ip_dst"] == "192.168.7.255", name


def test_any_bytes_give_the_same_columns_compiled_and_not(tmp_path: Path) -> None:
    random = Random("packets")
    packets = [bytes(packet)[: random.randrange(80)] for packet, _ in _CASES.values() for _ in range(60)]
    packets += [
        bytes(packet[:at]) + random.randbytes(3) + bytes(packet[at + 3 :])
        for packet in map(bytes, (packet for packet, _ in _CASES.values()))
        for at in range(12, 60)
    ]
    plain, compiled = (_rows(tmp_path / "a.pcap", packets, way) for way in (False, numba_is_there()))
    assert plain == compiled
    assert {row["undecodable"] for row in plain} == {None, "truncated"}
