"""The wire format as tables: names, numbers, layouts, and a sentence for each.

The module has the numbers, the forms of rows, and the header; all other rows are in format.toml. The numbers
and the header are in the machine code of compiled loops, which is kept by the state of Python modules alone.

Derived from the tables: the constants of the struct codec (`header`, `tlv`), the Scapy layers (`layers`), the
NumPy record of the captures (`captures.frames.decoder`), the numbers in compiled loops, the constants of the
Wireshark dissector and the tables of docs/reference/wire-format.md (`router.wire.document`).

The sentences are Markdown. Types and operators of values are the model's (`router.predicates`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, IntEnum, IntFlag, StrEnum
from importlib.resources import files
from typing import Any

from router.predicates import SYMBOLS, Operator, Type
from router.predicates.encoded import BITS_MAX, HASHES_MAX
from router.predicates.encoded.encodings import ENCODINGS

VERSION = 1
#: Greatest `total_length`, so that the memory of a receiver has a bound: 16 MiB.
MAX_BODY_LENGTH = 16 * 1024 * 1024
#: Most nodes that a message is addressed to, so that the memory of a receiver has a bound.
MAX_DESTINATIONS = 65_536
SIGNATURE_BYTES = 64
#: Bytes of the tag of a hop.
TAG_BYTES = 16


class FrameType(IntEnum):
    """Numbers of the frame types; `FRAMES` describes them."""

    MSG = 1
    RA = 2
    SR = 3
    UR = 4
    HELLO = 5
    COMMIT = 7
    ACK = 8
    SUB = 9
    PUB = 10
    OVERLOAD = 11
    FLUSH = 12
    XMSG = 13
    XRA = 14
    XUR = 15
    TABLE = 16
    RECEIPT = 17


class Tlv(IntEnum):
    """Numbers of the TLV types; `TLVS` describes them. 0 is invalid: zero bytes are no TLVs."""

    ATTRIBUTE = 1
    FILTER = 2
    TIMEOUT = 3
    INCARNATION = 4
    NEIGHBOUR = 5
    OLDEST_EPOCH = 7
    ACKNOWLEDGED = 8
    SUBTREES = 9
    DESTINATIONS = 10
    DESTINATION_MAP = 11
    CLASS_NODE = 12
    SUBSCRIPTION = 16
    PUBLICATION = 17
    ROUND = 18
    OFFERED = 19
    KEY = 32
    BLOOM = 33
    SEALED = 34
    TREE_CLASS = 64
    CLASS_OF = 65


class Flags(IntFlag):
    """Bits of the header's `flags`; `BITS` describes them."""

    NONE = 0
    PARTIAL = 1
    IDENTIFIED = 2
    TAGGED = 4
    SIGNED = 8
    RELIABLE = 16


class SubscriptionFlags(IntFlag):
    """Bits of `subscription_flags`; `BITS` describes them."""

    NONE = 0
    REFRESHED = 1
    TOP_UP = 2


class PublicationFlags(IntFlag):
    """Bits of `publication_flags`; `BITS` describes them."""

    NONE = 0
    PENDING = 1
    CUSTODY = 2
    TAKEN = 4
    REFUSED = 8


class DecodeReason(StrEnum):
    """Reasons for dropping a frame that breaks a rule; the values are the names of counters."""

    TRUNCATED = "truncated"
    BAD_VERSION = "bad_version"
    BAD_TYPE = "bad_type"
    BAD_RESERVED = "bad_reserved"
    BAD_LENGTH = "bad_length"
    BAD_FRAGMENT = "bad_fragment"
    TOO_LARGE = "too_large"
    BAD_TLV = "bad_tlv"
    BAD_NAME = "bad_name"
    BAD_VALUE = "bad_value"
    BAD_CONSTRAINT = "bad_constraint"
    DUPLICATE_ATTRIBUTE = "duplicate_attribute"
    DUPLICATE_ENTRY = "duplicate_entry"


class Layout(Enum):
    """How the bytes of a field are laid out; numbers are in network byte order."""

    U8 = "u8"
    U16 = "u16"
    U32 = "u32"
    U64 = "u64"
    #: UTF-8; the field before it is its length in bytes.
    TEXT = "text"
    #: A value of the type that the field `value_type` says.
    VALUE = "value"
    #: Bytes to the end of the TLV.
    OCTETS = "octets"
    #: Records, one behind the other.
    RECORDS = "records"
    #: Some bits of a u16 that several fields share, the first field in the upper bits.
    BITS = "bits"


class Names(Enum):
    """The table that has names for the numbers of a field (`NAMES`), or for its bits (`BITS`)."""

    FRAME_TYPES = "frame types"
    VALUE_TYPES = "value types"
    OPERATORS = "operators"
    ENCODINGS = "encodings"
    FLAGS = "flags"
    SUBSCRIPTION_FLAGS = "subscription flags"
    PUBLICATION_FLAGS = "publication flags"


class Occurs(Enum):
    """How often a TLV occurs in a frame: any number, exactly one, or at most one."""

    ANY_NUMBER = "*"
    ONCE = ""
    OPTIONAL = "?"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the header, of a TLV or of a record.

    Attributes:
        name: the name in the codec, in Scapy and in Wireshark (after `cbcb.`).
        label: a few words, shown by Wireshark.
        names: the table of names for its numbers.
        length_of: the field whose length in bytes this one is.
        count_of: the field whose number of records this one is.
        records: of `Layout.RECORDS`: the layout of one record. Without a count they end where the TLV ends.
        bits: of `Layout.BITS`: the number of bits.
    """

    name: str
    layout: Layout
    label: str
    sentence: str
    names: Names | None = None
    length_of: str | None = None
    count_of: str | None = None
    records: Record | None = None
    bits: int = 0


@dataclass(frozen=True, slots=True)
class Record:
    """A part of a TLV that may occur several times."""

    name: str
    fields: tuple[Field, ...]
    sentence: str


@dataclass(frozen=True, slots=True)
class FrameFormat:
    """A frame type: who sends it to whom, and the TLVs of its body.

    No other known TLV may occur in it.
    """

    type: FrameType
    direction: str
    tlvs: tuple[tuple[Tlv, Occurs], ...]
    sentence: str


@dataclass(frozen=True, slots=True)
class TlvFormat:
    """A TLV type: the layout of its value.

    `FRAMES` lists the frames in which it occurs.
    """

    type: Tlv
    fields: tuple[Field, ...]
    sentence: str


@dataclass(frozen=True, slots=True)
class ReasonFormat:
    """A reason for dropping a frame; `label` is a few words, shown by Wireshark.

    `part` is the part of a frame in which the reason is found.
    """

    reason: DecodeReason
    part: str
    label: str
    sentence: str


# --- The header -------------------------------------------------------------------------------------------

HEADER = (
    Field("version", Layout.U8, "Version", f"{VERSION}"),
    Field("type", Layout.U8, "Type", "frame type, below", names=Names.FRAME_TYPES),
    Field(
        "flags",
        Layout.U8,
        "Flags",
        "bits, below; other bits are sent as 0 and ignored when read",
        names=Names.FLAGS,
    ),
    Field(
        "hop_limit",
        Layout.U8,
        "Hop limit",
        "remaining hops; the only field that changes when a router forwards a MSG",
    ),
    Field(
        "issuer",
        Layout.U32,
        "Issuer",
        "a node: source of a MSG, issuer of an RA or SR, issuer of the SR that a UR answers, home of the "
        "subscription of a SUB or OVERLOAD, the router itself for PUB, FLUSH, HELLO and ACK, the addressed "
        "router for TABLE and COMMIT, and that of the frame that a RECEIPT answers",
    ),
    Field(
        "seq",
        Layout.U64,
        "Sequence or request number",
        "sequence number (MSG, RA, PUB, FLUSH), request number (SR, UR), number of the subscription (SUB, "
        "OVERLOAD), number of the controller (TABLE, COMMIT and their ACK). The high 32 bits are the "
        "incarnation of the router, in numbers of the controller that of the addressed router; the low 32 "
        "bits are a counter. A RECEIPT has the number of the frame that it answers",
    ),
    Field(
        "epoch",
        Layout.U32,
        "Epoch",
        "version of the broadcast tables under which the frame was sent; 0 before any",
    ),
    Field(
        "total_length",
        Layout.U32,
        "Length of the whole body",
        f"bytes of the whole body, at most {MAX_BODY_LENGTH:,} ({MAX_BODY_LENGTH >> 20} MiB)",
    ),
    Field("fragment_index", Layout.U16, "Fragment index", "0 to `fragment_count` − 1"),
    Field("fragment_count", Layout.U16, "Fragment count", "at least 1"),
    Field(
        "payload_length",
        Layout.U16,
        "Length of the body in this frame",
        "bytes of the body in this frame; behind them are a signature and a trailer, if `flags` says so, "
        "and Ethernet padding, none of which any length counts",
    ),
    Field("reserved", Layout.U16, "Reserved", "0"),
)

# --- The tables of format.toml ----------------------------------------------------------------------------

#: Table -> number -> its name.
NAMES: dict[Names, dict[int, str]] = {
    Names.FRAME_TYPES: {int(type_): type_.name for type_ in FrameType},
    Names.VALUE_TYPES: {int(type_): type_.name.lower() for type_ in Type},
    Names.OPERATORS: {int(operator): SYMBOLS[operator] for operator in Operator},
    Names.ENCODINGS: {ENCODINGS[name].number: name for name in ENCODINGS},
}

_FILE: dict[str, Any] = tomllib.loads(files(__package__).joinpath("format.toml").read_text(encoding="utf-8"))
_NUMBERS: dict[str, object] = {
    "MAX_BODY_MIB": MAX_BODY_LENGTH >> 20,
    "MAX_DESTINATIONS": MAX_DESTINATIONS,
    "VERSION": VERSION,
    "SIGNATURE_BYTES": SIGNATURE_BYTES,
    "TAG_BYTES": TAG_BYTES,
    "BITS_MAX": BITS_MAX,
    "HASHES_MAX": HASHES_MAX,
    "ENCODINGS": ", ".join(f"{number} {name}" for number, name in NAMES[Names.ENCODINGS].items()),
}


def _fields(rows: Iterable[Any]) -> Iterator[Field]:
    for row in rows:
        if isinstance(row, str):
            yield from _fields(_FILE["shared"][row])
            continue
        name, layout, label, sentence, *more = row
        options = dict(*more)
        if "names" in options:
            options["names"] = Names(options["names"])
        if "records" in options:
            options["records"] = RECORDS[options["records"]]
        yield Field(name, Layout(layout), label, sentence.format(**_NUMBERS), **options)


#: Table -> bit -> a few words, shown by Wireshark, and a sentence.
BITS: dict[Names, dict[IntFlag, tuple[str, str]]] = {
    names: {flags[name]: (label, sentence) for name, (label, sentence) in _FILE["bits"][names.name].items()}
    for names, flags in (
        (Names.FLAGS, Flags),
        (Names.SUBSCRIPTION_FLAGS, SubscriptionFlags),
        (Names.PUBLICATION_FLAGS, PublicationFlags),
    )
}
for _names, _bits in BITS.items():
    _meanings = "; ".join(f"{int(bit)}: {bit.name}, {sentence}" for bit, (_, sentence) in _bits.items())
    _NUMBERS[_names.name] = f"{_meanings}; other bits are sent as 0 and ignored when read"

SIGNATURE, TAG = _fields(("SIGNATURE", "TAG"))
#: The numbers of the trailer; the tags follow them.
TRAILER = tuple(_fields(("TRAILER",)))
#: The records of the TLVs, by name.
RECORDS: dict[str, Record] = {}
for _name, _row in _FILE["records"].items():
    RECORDS[_name] = Record(_name, tuple(_fields(_row["fields"])), _row["sentence"])
TLVS = tuple(
    TlvFormat(Tlv[name], tuple(_fields(row["fields"])), row["sentence"].format(**_NUMBERS))
    for name, row in _FILE["tlvs"].items()
)
FRAMES = tuple(
    FrameFormat(
        FrameType[name],
        row["direction"],
        tuple(
            (Tlv[known := word.rstrip("?*")], Occurs(word.removeprefix(known)))
            for word in row["tlvs"].split()
        ),
        row["sentence"],
    )
    for name, row in _FILE["frames"].items()
)
#: In the header, in the order in which a reader checks.
REASONS = tuple(
    ReasonFormat(DecodeReason[name], part, label, sentence.format(**_NUMBERS))
    for part in ("header", "body")
    for name, (label, sentence) in _FILE["reasons"][part].items()
)
#: Value type -> (bytes of the value, what they are).
VALUES = {Type[name]: (size, text) for name, (size, text) in _FILE["values"].items()}
OPERATORS: dict[Operator, str] = {Operator[name]: text for name, text in _FILE["operators"].items()}

# --- Sets of frame types ----------------------------------------------------------------------------------

#: Types of frames that carry a message of an application, and of those that answer an SR.
MESSAGES = frozenset({FrameType.MSG, FrameType.XMSG})
#: Types of frames whose number grows with what applications send: in routers they wait behind all others. A
#: FLUSH has a publication as well, but its sender waits for the answer.
DATA = MESSAGES | {FrameType.PUB}
REPLIES = frozenset({FrameType.UR, FrameType.XUR})
#: Types of frames that the neighbours of a router confirm, where the flag RELIABLE says so.
CONFIRMED = REPLIES | {FrameType.RA, FrameType.XRA, FrameType.SR}
#: Types of frames of the controller, of frames to it, and of frames that issuers number one by one.
OF_CONTROLLER = frozenset({FrameType.TABLE, FrameType.COMMIT})
TO_CONTROLLER = frozenset({FrameType.HELLO, FrameType.ACK})
NUMBERED = MESSAGES | {FrameType.RA, FrameType.XRA, FrameType.SR}
#: Types of frames that are signed where issuers have keys for it.
SIGNED_TYPES = NUMBERED | REPLIES | OF_CONTROLLER | TO_CONTROLLER

#: Type of a private frame -> the type of the plain frame in whose place it is.
STANDS_FOR = {FrameType.XMSG: FrameType.MSG, FrameType.XRA: FrameType.RA, FrameType.XUR: FrameType.UR}
