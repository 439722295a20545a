"""The golden vectors of the wire format (tests/vectors/*.json) as values.

The files are written to be read beside docs/reference/wire-format.md: one line of hex for the header, one for
each TLV, spaces between fields. `canonical` is false where encoding the frame gives other bytes (padding,
unknown TLVs).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from router.predicates import SYMBOLS, Constraint, Filter, Message, Operator, Predicate, Type
from router.predicates.encoded import BloomFilter, BloomMessage, BloomPredicate, Suite
from router.wire.frames import (
    Ack,
    AddressedMessage,
    Body,
    BroadcastTable,
    ClassifiedPredicate,
    Commit,
    Flags,
    Frame,
    FrameType,
    Hello,
    Overload,
    Publication,
    PublicationFlags,
    SenderRequest,
    Subscription,
    SubscriptionFlags,
)
from router.wire.tree_classes import CLASS_DTYPE, TreeClass
from tests.support.tree_entries import tree_classes_of

_FOLDER = Path(__file__).parent
_OPERATORS = {symbol: operator for operator, symbol in SYMBOLS.items()}


#: Frame type -> the class of its body, whose field is that of the JSON form.
_OF_ONE_NUMBER: dict[FrameType, Callable[..., Body]] = {
    FrameType.OVERLOAD: Overload,
    FrameType.SR: SenderRequest,
    FrameType.HELLO: Hello,
    FrameType.COMMIT: Commit,
}


@dataclass(frozen=True)
class Whole:
    """A frame in one Ethernet payload."""

    name: str
    payload: bytes
    frame: Frame
    info: str
    canonical: bool


@dataclass(frozen=True)
class Fragmented:
    """A frame in several Ethernet payloads of at most `mtu` bytes."""

    name: str
    mtu: int
    payloads: list[bytes]
    frame: Frame
    info: list[str]


@dataclass(frozen=True)
class Malformed:
    """A payload that does not decode, and the reason."""

    name: str
    payload: bytes
    reason: str


@dataclass(frozen=True)
class Tagged:
    """An Ethernet frame with tags of a hop, and what they were made of (by the command `openssl`)."""

    name: str
    ethernet: bytes
    network_key: bytes
    sender: bytes
    receivers: list[bytes]
    pair_keys: list[bytes]
    hop_key: int
    hop_counter: int
    plain: str | None

    @property
    def tags(self) -> list[bytes]:
        """The tags, one for each receiver."""
        count = len(self.receivers)
        return [self.ethernet[-16 * (count - i) :][:16] for i in range(count)]


@dataclass(frozen=True)
class Signed:
    """A whole payload with a signature, and what it was made of (Ed25519 of OpenSSL)."""

    name: str
    plain: str
    payload: bytes
    private_key: bytes
    public_key: bytes
    covered: bytes
    signature: bytes


def by_name(vector: Whole | Fragmented | Malformed) -> str:
    return vector.name


def _load(file: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((_FOLDER / file).read_text(encoding="utf-8"))
    return rows


def _bytes(lines: list[str]) -> bytes:
    return bytes.fromhex(" ".join(lines))


def _constraint(name: str, kind: str, symbol: str, value: Any) -> Constraint:
    return Constraint(name, Type[kind.upper()], _OPERATORS[symbol], value)


def _bits(positions: list[int]) -> int:
    return sum(1 << position for position in positions)


def _body(kind: FrameType, body: dict[str, Any]) -> Body:
    if kind is FrameType.MSG:
        message = Message({name: value for name, _, value in body["attributes"]})
        return AddressedMessage(tuple(body["destinations"]), message) if "destinations" in body else message
    filters = tuple(Filter(tuple(_constraint(*one) for one in each)) for each in body.get("filters", ()))
    if kind in (FrameType.RA, FrameType.UR):
        if "classes" in body:
            return ClassifiedPredicate(filters, tuple((node, first) for node, first in body["classes"]))
        return Predicate(filters)
    if kind is FrameType.XMSG:
        sealed = bytes.fromhex(body["sealed"])
        private = BloomMessage(Suite(*body["key"]), _bits(body["bits"]), sealed)
        return AddressedMessage(tuple(body["destinations"]), private) if "destinations" in body else private
    if kind in (FrameType.XRA, FrameType.XUR):
        return BloomPredicate(BloomFilter(Suite(*key), _bits(bits)) for key, bits in body["encoded"])
    if kind is FrameType.SUB:
        round_, nonce, remaining, left_us, freshness_us, flags = body["subscription"]
        offered = tuple((source, seq) for source, seq in body["offered"])
        return Subscription(
            *(round_, nonce, remaining, left_us, freshness_us, Predicate(filters)),
            *(SubscriptionFlags(flags), offered),
        )
    if kind in (FrameType.PUB, FrameType.FLUSH):
        source, seq, age_us, flags = body["publication"]
        message = Message({name: value for name, _, value in body["attributes"]})
        homes = tuple(body.get("destinations", ()))
        return Publication(source, seq, age_us, message, PublicationFlags(flags), homes)
    if kind in _OF_ONE_NUMBER:
        return _OF_ONE_NUMBER[kind](**body)
    if kind is FrameType.TABLE:
        neighbours = tuple((interface, node) for interface, node in body["neighbours"])
        lists = ("children", "reusable", "off_tree")
        return BroadcastTable(
            neighbours,
            tree_classes_of(
                TreeClass(each["parent"], *(tuple(each[name]) for name in lists)) for each in body["classes"]
            ),
            np.array(body["class_of"], dtype=CLASS_DTYPE),
            np.array(body["subtrees"], dtype=np.bool_) if "subtrees" in body else None,
        )
    return Ack(FrameType[body["acknowledged"]])


def _frame(header: dict[str, Any], body: dict[str, Any]) -> Frame:
    kind = FrameType[header["type"]]
    return Frame(
        kind,
        header["issuer"],
        header["seq"],
        header["epoch"],
        header["hop_limit"],
        _body(kind, body),
        Flags(header["flags"]),
    )


WHOLE = [
    Whole(
        row["name"],
        _bytes(row["hex"]),
        _frame(row["header"], row["body"]),
        row["info"],
        row.get("canonical", True),
    )
    for row in _load("frames.json")
]
FRAGMENTED = [
    Fragmented(
        row["name"],
        row["mtu"],
        [_bytes(lines) for lines in row["fragments"]],
        _frame(row["header"], row["body"]),
        row["info"],
    )
    for row in _load("fragments.json")
]
TAGGED = [
    Tagged(
        row["name"],
        _bytes(row["ethernet"]),
        bytes.fromhex(row["network_key"]),
        bytes.fromhex(row["sender"]),
        [bytes.fromhex(each) for each in row["receivers"]],
        [bytes.fromhex(each) for each in row["pair_keys"]],
        row["hop_key"],
        row["hop_counter"],
        row["plain"],
    )
    for row in _load("tagged.json")
]
SIGNED = [
    Signed(
        row["name"],
        row["plain"],
        _bytes(row["payload"]),
        *(bytes.fromhex(row[name]) for name in ("private_key", "public_key", "covered", "signature")),
    )
    for row in _load("signed.json")
]
MALFORMED = [Malformed(row["name"], _bytes(row["hex"]), row["reason"]) for row in _load("malformed.json")]
#: Every operator, for the check that the vectors leave none out.
ALL_OPERATORS = frozenset(Operator)
