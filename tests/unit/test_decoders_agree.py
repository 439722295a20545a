"""Fuzzed frames through every decoder: codec, Scapy's layers, dissector in tshark, decoding for Spark.

Frames are mutations of the golden vectors (tests/vectors): bits and bytes changed, inserted and cut out, two
of them spliced, lengths and tags set to values at their limits. The decoders must agree on each: the same
reason why it does not decode, or the same header and the same content. Each frame has a source address of its
own, so that no two fragments make a frame.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from scapy.layers.l2 import Ether

from captures.datasource.views import FRAMES
from captures.frames.columns import COLUMNS, NUMBER, VALUE_TYPES
from captures.frames.parts import FilePart
from router.predicates import Message, Predicate, type_of
from router.predicates.encoded import BloomMessage
from router.predicates.printer import format_predicate
from router.wire import codec
from router.wire.format import STANDS_FOR, DecodeReason
from router.wire.frames import (
    Ack,
    AddressedMessage,
    Body,
    Commit,
    FrameType,
    Hello,
    Publication,
    SenderRequest,
    Subscription,
)
from router.wire.header import HEADER_LENGTH, DecodeError, decode_header, node_address
from router.wire.layers import CBCB
from tests.support.capture_files import made_view
from tests.support.compiled_loops import WAYS, loops
from tests.support.fuzz import cases
from tests.support.mutated_frames import mutated
from tests.support.packets import to_frame
from tests.support.wire_tshark import ethernet, needs_tshark, rows, write_capture

_PORT_1 = bytes.fromhex("030000000001")
_FIELDS = (
    *("type", "flags", "hop_limit", "issuer", "seq", "epoch", "total_length", "fragment_index"),
    *("fragment_count", "payload_length"),
)
_SHOWN = (
    *("decode_error", *_FIELDS, "attribute_name", "value_type", "predicate", "timeout_us", "incarnation"),
    *("oldest_epoch", "acknowledged"),
)
_HEADERS_ONLY = ("type", "undecodable")
#: Type of a frame -> that of an encoded frame in its place.
_ENCODED = {plain: encoded for encoded, plain in STANDS_FOR.items()}

#: What a decoder says of a frame: why it does not decode, or its header fields and its content.
Outcome = tuple[Any, ...]


def _content(body: Body) -> Any:
    """A body as the columns of the Spark decode have it."""
    if isinstance(body, BloomMessage):
        return None
    if isinstance(body, Message):
        return [(name, type_of(value).name.lower(), value) for name, value in body.items()]
    if isinstance(body, AddressedMessage | Publication):
        return _content(body.message)
    if isinstance(body, Subscription):
        return _content(body.predicate)
    if isinstance(body, Predicate):
        return format_predicate(body)
    if isinstance(body, SenderRequest):
        return body.timeout_us
    if isinstance(body, Hello):
        return body.incarnation
    if isinstance(body, Commit):
        return body.oldest_epoch
    return STANDS_FOR.get(body.acknowledged, body.acknowledged).name if isinstance(body, Ack) else None


def _by_codec(payload: bytes) -> Outcome:
    try:
        header = decode_header(payload)
        if header.fragment_count != 1:
            return (None, *header, "fragment")
        end = HEADER_LENGTH + header.payload_length
        return (None, *header, _content(codec.decode_body(header, payload[HEADER_LENGTH:end])))
    except DecodeError as error:
        return (error.reason.value,)


def _by_scapy(frame: bytes) -> Outcome:
    """As the codec's `decode`, by way of Scapy's fields and back; and what Scapy itself has changed."""
    packet = Ether(frame)
    if CBCB not in packet:
        return ("truncated",)
    layer = packet[CBCB]
    if bytes(layer) != frame[14:]:
        return ("other bytes",)
    try:
        decoded = to_frame(packet)
    except DecodeError as error:
        if error.reason.value == "bad_fragment" and layer.fragment_count != 1:
            return _by_codec(bytes(layer))
        return (error.reason.value,)
    return (None, *(int(getattr(layer, name)) for name in _FIELDS), _content(decoded.body))


def _by_spark(capture: Path, columns: Sequence[str], compiled: bool) -> list[dict[str, Any]]:
    """The rows of the decoder that Spark's workers run, with or without compiled loops."""
    view = made_view(FRAMES, [*columns])
    with loops(compiled=compiled):
        return [row for batch in view.read(FilePart(str(capture))) for row in batch.to_pylist()]


def _spark_outcome(row: dict[str, Any]) -> Outcome:
    if row["undecodable"] is not None:
        return (row["undecodable"],)
    type_ = FrameType[row["type"]]
    header = (_ENCODED[type_] if row["encoded"] else type_, *(row[name] for name in _FIELDS[1:]))
    if row["fragment"] == "partial":
        return (None, *_unsigned(header), "fragment")
    content: Any = None
    if row["attributes"] is not None:
        content = [each for name, value in row["attributes"] for each in _typed(name, value)]
    for name in ("predicate", "timeout_us", "incarnation", "oldest_epoch", "acknowledged"):
        content = row[name] if row[name] is not None else content
    return (None, *_unsigned(header), content)


def _typed(name: str, value: dict[str, Any]) -> list[tuple[str, str, Any]]:
    """A value as the codec has it; and field `number`, if it is not the value as a double."""
    found = [(name, kind, value[kind]) for kind in VALUE_TYPES if value[kind] is not None]
    number = value["integer"] if value["double"] is None else value["double"]
    # By their texts: NaN is NaN.
    if str(value[NUMBER.name]) != str(None if number is None else float(number)):
        found.append((name, NUMBER.name, value[NUMBER.name]))
    return found


def _unsigned(header: tuple[Any, ...]) -> tuple[Any, ...]:
    """`seq`, of which Spark has the 64 bits as a signed number."""
    return (*header[:4], header[4] % 2**64, *header[5:])


def _dissector_differs(row: dict[str, list[str]], outcome: Outcome) -> bool:
    """Whether the dissector says otherwise than the codec; text outside ASCII is written in other ways."""
    shown = row.get("decode_error", [None])[0]
    if shown != outcome[0]:
        return True
    if outcome[0] is not None:
        return False
    if [int(row[name][0], 0) for name in _FIELDS] != [int(value) for value in outcome[1:-1]]:
        return True
    content = outcome[-1]
    if content == "fragment":
        return False
    if isinstance(content, list):
        names = row.get("attribute_name", [])
        return len(names) != len(content) or any(
            name != found for (name, _, _), found in zip(content, names, strict=True) if _plain(name)
        )
    if isinstance(content, str) and "predicate" in row:
        return _plain(content) and row["predicate"] != [content]
    return False


def _plain(text: str) -> bool:
    return all(32 <= ord(character) < 127 and character not in '"\\' for character in text)


@needs_tshark
def test_decoders_agree_on_fuzzed_frames() -> None:
    random, count = Random("decoders"), cases(4000)
    frames = [ethernet(node_address(number), _PORT_1, mutated(random)) for number in range(count)]
    outcomes = [_by_codec(frame[14:]) for frame in frames]
    wrong: list[str] = []

    def tell(number: int, decoder: str, found: object) -> None:
        wrong.append(f"{decoder}: {found}; codec: {outcomes[number]}; {frames[number][14:].hex()}")

    with tempfile.TemporaryDirectory(prefix="cbcb-fuzz-") as folder:
        capture = write_capture(Path(folder) / "fuzz.pcap", enumerate(frames))
        shown = rows(capture, [f"cbcb.{name}" for name in _SHOWN])
        full = [_by_spark(capture, list(COLUMNS), compiled) for compiled in WAYS]
        headers = [_by_spark(capture, _HEADERS_ONLY, compiled) for compiled in WAYS]
    assert {len(shown), *map(len, full), *map(len, headers)} == {count}
    for number, outcome in enumerate(outcomes):
        if (found := _by_scapy(frames[number])) != outcome:
            tell(number, "Scapy", found)
        for decoded in {str(_spark_outcome(table[number])) for table in full} - {str(outcome)}:
            tell(number, "Spark", decoded)
        for table in headers:
            if table[number]["undecodable"] != outcome[0]:
                tell(number, "Spark, headers only", table[number])
        if _dissector_differs(shown[number], outcome):
            tell(number, "dissector", shown[number])
    assert wrong == []
    counts = Counter(str(outcome[0] or "decodes") for outcome in outcomes)
    assert counts["decodes"] > 300
    assert set(counts) == {"decodes", *DecodeReason}
