"""Signatures and tags behind the body: vectors in codec, Scapy and dissector; what a signature covers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from scapy.layers.l2 import Ether
from scapy.packet import Padding

from router.predicates import NOTHING, Message
from router.recording import read_whole_frame
from router.security.signatures import PublicKeys, Signer, public_key
from router.wire import layers
from router.wire.authentication import covered
from router.wire.codec import forwarded_frame, fragment, whole_frame
from router.wire.format import MESSAGES, OF_CONTROLLER, SIGNATURE_BYTES
from router.wire.frames import AddressedMessage, Body, Flags, Frame, FrameType, SenderRequest
from router.wire.header import CONTROLLER, HEADER_LENGTH, DecodeError, decode_header, signature_of
from router.wire.intake import Reassembler
from tests.support.guarded import private_key, public_keys
from tests.support.packets import crafted
from tests.support.whole_frames import decode, encode
from tests.support.wire_tshark import needs_tshark, rows, write_capture
from tests.vectors.wire_vectors import SIGNED, TAGGED, WHOLE, Signed, Tagged

VECTORS = pytest.mark.parametrize("vector", SIGNED, ids=lambda vector: vector.name)
KEYS = PublicKeys(public_keys())


def received(payload: bytes) -> Frame:
    """The frame as a router reads it."""
    header = decode_header(payload)
    body = payload[HEADER_LENGTH : HEADER_LENGTH + header.payload_length]
    return forwarded_frame(header, body, signature_of(header, payload))


@VECTORS
def test_codec_and_signer_make_each_vector(vector: Signed) -> None:
    plain = next(each.frame for each in WHOLE if each.name == vector.plain)
    assert isinstance(plain, Frame)
    assert public_key(vector.private_key) == vector.public_key
    owner = CONTROLLER if plain.type in OF_CONTROLLER else plain.issuer
    signed = Signer(owner, vector.private_key).signed(plain)
    assert covered(plain) == vector.covered
    assert signed.signature == vector.signature
    assert encode(signed) == vector.payload
    assert decode(vector.payload) == signed
    assert encode(replace(decode(vector.payload), signature=b"", received=None)) == encode(plain)


@VECTORS
def test_a_router_verifies_each_vector_and_sends_it_on(vector: Signed) -> None:
    frame = received(vector.payload)
    assert covered(frame) == vector.covered
    keys = PublicKeys(vector.public_key)
    assert keys.stands(frame, CONTROLLER)
    assert not keys.stands(frame, 0)
    assert not PublicKeys(public_key(bytes([255]) * 32)).stands(frame, CONTROLLER)
    further = frame.one_hop_less()
    assert encode(further)[4:] == vector.payload[4:]
    assert keys.stands(received(encode(further)), CONTROLLER)


@VECTORS
@pytest.mark.parametrize("behind", [b"", bytes(7)])
def test_scapy_reads_each_vector_and_builds_it_again(vector: Signed, behind: bytes) -> None:
    packet = layers.CBCB(vector.payload + behind)
    assert packet[layers.Signature].signature == vector.signature
    assert (bytes(packet[Padding]) if behind else b"") == behind
    assert bytes(packet) == bytes(crafted(packet)) == vector.payload + behind
    cut = vector.payload[:-1]
    assert layers.Signature not in layers.CBCB(cut)
    assert bytes(layers.CBCB(cut)) == cut
    assert decode(cut).signature == b""


@needs_tshark
def test_the_dissector_shows_the_signature(tmp_path: Path) -> None:
    head = bytes.fromhex("030000000009 02cb00000003 88b5")
    frames = [head + vector.payload + bytes(3) for vector in SIGNED]
    frames.append(head + SIGNED[0].payload[:-1])
    names = ("signature", "padding", "decode_error")
    capture = write_capture(tmp_path / "signed.pcap", list(enumerate(frames)))
    shown = rows(capture, [f"cbcb.{name}" for name in names])
    cut = {"padding": [SIGNED[0].signature[:-1].hex()]}
    assert shown == [
        *({"signature": [vector.signature.hex()], "padding": ["000000"]} for vector in SIGNED),
        cut,
    ]


def test_each_fragment_has_the_signature() -> None:
    frame = Signer(3, private_key(3)).signed(Frame(FrameType.MSG, 3, 9, 1, 9, Message({"s": "x" * 3000})))
    pieces = fragment(frame, 1000)
    assert max(map(len, pieces)) <= 1000
    assert all(piece.endswith(frame.signature) for piece in pieces)
    reassembler, whole = Reassembler(), None
    for piece in reversed(pieces):
        whole = reassembler.add(7, piece, 0.0) or whole
    assert whole is not None
    taken = forwarded_frame(*whole, signature_of(whole[0], pieces[0]))
    assert KEYS.stands(taken, 3)
    again = read_whole_frame(b"".join(whole_frame(taken)))
    assert (again, again.signature) == (taken, frame.signature)


@pytest.mark.parametrize(
    ("kind", "body"),
    [(FrameType.SR, SenderRequest(5)), (FrameType.MSG, Message(dict.fromkeys("st", "x" * 60000)))],
    ids=["short", "longer than a fragment"],
)
def test_a_recording_keeps_the_signature(kind: FrameType, body: Body) -> None:
    frame = Frame(kind, 3, 9, 1, 9, body, signature=bytes(64))
    assert read_whole_frame(b"".join(whole_frame(frame))).signature == frame.signature


def test_what_routers_write_on_the_way_is_not_covered() -> None:
    message = Message({"x": 1})
    sent = Frame(FrameType.MSG, 3, 9, 1, 9, message)
    assert covered(sent) == covered(replace(sent, body=AddressedMessage((4, 5), message), hop_limit=2))
    request = Frame(FrameType.SR, 3, 9, 1, 9, SenderRequest(5))
    assert covered(request) == covered(replace(request, body=SenderRequest(4), hop_limit=2))


def test_flags_are_covered() -> None:
    frame = Signer(3, private_key(3)).signed(Frame(FrameType.RA, 3, 9, 1, 9, NOTHING))
    assert KEYS.stands(frame, 3)
    assert not KEYS.stands(replace(frame, received=None, flags=Flags.IDENTIFIED), 3)


@given(st.data())
def test_no_covered_bit_of_a_vector_can_be_changed(data: st.DataObject) -> None:
    vector = data.draw(st.sampled_from(SIGNED))
    frame, end = decode(vector.payload), len(vector.payload)
    # Type, issuer, seq and epoch, the signature, and the body where all of it is covered.
    places = [1, *range(4, 20), *range(end - SIGNATURE_BYTES, end)]
    if frame.type is not FrameType.SR and frame.type not in MESSAGES:
        places += range(HEADER_LENGTH, end - SIGNATURE_BYTES)
    place = data.draw(st.sampled_from(places))
    changed = bytearray(vector.payload)
    changed[place] ^= 1 << data.draw(st.integers(0, 7))
    try:
        other = received(bytes(changed))
    except DecodeError:
        return
    assert not PublicKeys(vector.public_key).stands(other, CONTROLLER)


@given(st.binary(max_size=80), st.integers(-3, 40))
def test_no_signature_of_others_stands_or_raises(signature: bytes, signer: int) -> None:
    frame = Frame(FrameType.SR, 3, 9, 1, 9, SenderRequest(5), signature=signature)
    assert not KEYS.stands(frame, signer)


FIELDS = ("hop_key", "hop_counter", "tag_count", "hop_tag", "padding", "decode_error", "flags.tagged", "seq")
TAGGED_VECTORS = pytest.mark.parametrize("vector", TAGGED, ids=lambda vector: vector.name)


@TAGGED_VECTORS
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
    assert shown == [first, second, first | {"padding": ["00" * 7]}, cut, whole]
