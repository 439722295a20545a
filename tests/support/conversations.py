"""A capture with packets of several flows, in two files, and the flows."""

from __future__ import annotations

from pathlib import Path

from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether

from tests.support.capture_files import pcap

_ETHER = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
_THERE, _BACK = IP(src="10.0.0.9", dst="10.0.0.1"), IP(src="10.0.0.1", dst="10.0.0.9")
_PACKETS = [
    _ETHER / _THERE / TCP(sport=4000, dport=80, flags="S"),
    _ETHER / _BACK / TCP(sport=80, dport=4000, flags="SA"),
    _ETHER / Dot1Q(vlan=7) / _THERE / TCP(sport=4000, dport=80, flags="A") / b"question",
    _ETHER / IPv6(src="fe80::1", dst="fe80::2") / UDP(sport=5, dport=6),
    _ETHER / ARP(),
    _ETHER / _BACK / ICMP(),
    _ETHER / _BACK / TCP(sport=80, dport=4000, flags="FA"),
    _ETHER / _BACK / UDP(sport=4000, dport=80),
]
#: Source, source port, destination, destination port, protocol, packets, bytes, packets and bytes back, times
#: of the first and the last packet, flags of TCP in both directions.
FLOWS = [
    ("10.0.0.9", 4000, "10.0.0.1", 80, 6, 4, 54 + 54 + 66 + 54, 2, 108, 0, 6, 2 | 16, 2 | 16 | 1),
    ("fe80::1", 5, "fe80::2", 6, 17, 1, 62, 0, 0, 3, 3, None, None),
    ("10.0.0.1", None, "10.0.0.9", None, 1, 1, 42, 0, 0, 5, 5, None, None),
    ("10.0.0.1", 4000, "10.0.0.9", 80, 17, 1, 42, 0, 0, 7, 7, None, None),
]


def write_conversations(folder: Path) -> list[Path]:
    """The packets, one a nanosecond, in two files."""
    records = [(number, bytes(packet)) for number, packet in enumerate(_PACKETS)]
    files = [folder / "a.pcap", folder / "b.pcap"]
    for path, part in zip(files, (records[:5], records[5:]), strict=True):
        path.write_bytes(pcap(part))
    return files
