"""The trailer of tagged frames in the readers without keys: Scapy, dissector, codec."""

from __future__ import annotations

from pathlib import Path

import pytest
from scapy.layers.l2 import Ether
from scapy.packet import Padding

from router.wire import layers
from router.wire.codec import decode, encode
from tests.support.wire_tshark import needs_tshark, rows, write_capture
from tests.vectors.wire_vectors import TAGGED, WHOLE, Tagged

FIELDS = ("hop_key", "hop_counter", "tag_count", "hop_tag", "padding", "decode_error", "flags.tagged", "seq")
VECTORS = pytest.mark.parametrize("vector", TAGGED, ids=lambda vector: vector.name)


@VECTORS
@pytest.mark.parametrize("padding", [b"", bytes(7)])
def test_scapy_reads_the_trailer_and_builds_it_again(vector: Tagged, padding: bytes) -> None:
    packet = Ether(vector.ethernet + padding)
    trailer = packet[layers.Trailer]
    assert (trailer.hop_key, trailer.hop_counter, trailer.tag_count, trailer.hop_tag) == (
        *(vector.hop_key, vector.hop_counter, len(vector.receivers), b"".join(vector.tags)),
    )
    assert (bytes(packet[Padding]) if padding else None) == (padding or None)
    assert bytes(packet) == vector.ethernet + padding


def test_scapy_makes_a_trailer_that_no_length_counts() -> None:
    body = layers.MSG(tlvs=[])
    tags = layers.Trailer(hop_key=7, hop_counter=9, hop_tag=bytes(32))
    built = bytes(layers.CBCB(flags="TAGGED") / body / tags)
    header = built[:32]
    assert len(built) == 32 + 13 + 32
    assert int.from_bytes(header[20:24], "big") == int.from_bytes(header[28:30], "big") == 0
    assert built[32:45] == (7).to_bytes(4, "big") + (9).to_bytes(8, "big") + b"\2"


@pytest.mark.parametrize("cut", [1, 16, 32, 33, 45])
def test_a_trailer_that_is_cut_short_is_padding_to_scapy(cut: int) -> None:
    data = TAGGED[0].ethernet
    packet = Ether(data[:-cut])
    assert layers.Trailer not in packet
    assert bytes(packet) == data[:-cut]


@needs_tshark
def test_the_dissector_shows_the_trailer(tmp_path: Path) -> None:
    frames = [*(each.ethernet for each in TAGGED), TAGGED[0].ethernet + bytes(7), TAGGED[0].ethernet[:-1]]
    plain = next(each for each in WHOLE if each.name == TAGGED[0].plain)
    frames.append(TAGGED[0].ethernet[:14] + encode(plain.frame))
    capture = write_capture(tmp_path / "tagged.pcap", list(enumerate(frames)))
    shown = rows(capture, [f"cbcb.{name}" for name in FIELDS])

    def expected(vector: Tagged) -> dict[str, list[str]]:
        return {
            "hop_key": [str(vector.hop_key)],
            "hop_counter": [str(vector.hop_counter)],
            "tag_count": [str(len(vector.tags))],
            "hop_tag": [tag.hex() for tag in vector.tags],
            "flags.tagged": ["1"],
            "seq": [str(decode(vector.ethernet[14:]).seq)],
        }

    first, second = map(expected, TAGGED)
    cut = {
        "padding": [TAGGED[0].ethernet[-45:-1].hex()],
        **{name: first[name] for name in ("flags.tagged", "seq")},
    }
    whole = {"flags.tagged": ["0"], "seq": first["seq"]}
    for row in shown:
        row["flags.tagged"] = [
            {"True": "1", "False": "0"}.get(row["flags.tagged"][0], row["flags.tagged"][0])
        ]
    assert shown == [first, second, first | {"padding": ["00" * 7]}, cut, whole]
