"""The wire format as tables: names, numbers, layouts, and a sentence for each.

Data only. This module has the numbers, the forms of rows, and the header with what frames the body; frame
types and reasons are in `format_frames`, TLVs and values in `format_tlvs`.

Derived from the tables: the constants of the struct codec (`header`, `tlv`), the Scapy layers (`layers`), the
NumPy record of the captures (`captures.frames.decoder`), the numbers in compiled loops, the constants of the
Wireshark dissector and the tables of docs/reference/wire-format.md (`python -m router.wire.generate` writes
both).

The sentences are Markdown. Types and operators of values are the model's (`router.predicates`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum, IntFlag, StrEnum

from router.predicates import SYMBOLS, Operator, Type
from router.predicates.encoded.encodings import ENCODINGS

VERSION = 1
#: Greatest `total_length`, so that the memory of a receiver has a bound: 16 MiB.
MAX_BODY_LENGTH = 16 * 1024 * 1024
#: Most nodes that a message is addressed to, so that the memory of a receiver has a bound.
MAX_DESTINATIONS = 65_536


class FrameType(IntEnum):
    """Numbers of the frame types; `format_frames.FRAMES` describes them."""

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
    """Numbers of the TLV types; `format_tlvs.TLVS` describes them. 0 is invalid: zero bytes are no TLVs."""

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
    """Bits of the header's `flags`; `FLAGS` describes them."""

    NONE = 0
    PARTIAL = 1
    IDENTIFIED = 2
    TAGGED = 4
    SIGNED = 8
    RELIABLE = 16


class SubscriptionFlags(IntFlag):
    """Bits of `subscription_flags`; `SUBSCRIPTION_FLAGS` describes them."""

    NONE = 0
    REFRESHED = 1
    TOP_UP = 2


class PublicationFlags(IntFlag):
    """Bits of `publication_flags`; `PUBLICATION_FLAGS` describes them."""

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


class Part(Enum):
    """The part of a frame in which a reason is found."""

    HEADER = "header"
    BODY = "body"


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

    `format_frames.FRAMES` lists the frames in which it occurs.
    """

    type: Tlv
    fields: tuple[Field, ...]
    sentence: str


@dataclass(frozen=True, slots=True)
class ReasonFormat:
    """A reason for dropping a frame; `label` is a few words, shown by Wireshark."""

    reason: DecodeReason
    part: Part
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

FLAGS: dict[IntFlag, tuple[str, str]] = {
    Flags.PARTIAL: (
        "Partial update reply",
        "of a UR: a downstream router is missing from it, because its sender gave up waiting",
    ),
    Flags.IDENTIFIED: (
        "Identified receiver advertisement",
        "of an RA: its predicate replaces that of every earlier RA of the issuer, by `seq`; without a filter "
        "it withdraws the predicate",
    ),
    Flags.TAGGED: (
        "Tagged",
        "behind the body, before any padding, is a trailer with the tags of this hop, below",
    ),
    Flags.SIGNED: ("Signed", "behind the body, before any trailer, is a signature of the whole frame, below"),
    Flags.RELIABLE: ("Reliable", "of an RA, XRA, SR, UR or XUR: its receiver answers with a RECEIPT"),
}

SUBSCRIPTION_FLAGS: dict[IntFlag, tuple[str, str]] = {
    SubscriptionFlags.REFRESHED: (
        "Refreshed",
        "the subscription had a round before: publications that earlier rounds got are not sent to it",
    ),
    SubscriptionFlags.TOP_UP: ("Top-up", "a second SUB of the round, for the publications that are missing"),
}

PUBLICATION_FLAGS: dict[IntFlag, tuple[str, str]] = {
    PublicationFlags.PENDING: (
        "Pending",
        "the publication is sent to other routers for the first time (the paper's flag PF)",
    ),
    PublicationFlags.CUSTODY: (
        "Custody",
        "of a FLUSH: the receiver is to hold the publication in the place of the sender",
    ),
    PublicationFlags.TAKEN: (
        "Taken",
        "of a FLUSH, the answer to CUSTODY: the receiver holds the publication",
    ),
    PublicationFlags.REFUSED: ("Refused", "of a FLUSH, the answer to CUSTODY: the receiver refuses it"),
}

#: Table -> bit -> a few words, shown by Wireshark, and a sentence.
BITS = {
    Names.FLAGS: FLAGS,
    Names.SUBSCRIPTION_FLAGS: SUBSCRIPTION_FLAGS,
    Names.PUBLICATION_FLAGS: PUBLICATION_FLAGS,
}
#: Table -> number -> its name.
NAMES: dict[Names, dict[int, str]] = {
    Names.FRAME_TYPES: {int(type_): type_.name for type_ in FrameType},
    Names.VALUE_TYPES: {int(type_): type_.name.lower() for type_ in Type},
    Names.OPERATORS: {int(operator): SYMBOLS[operator] for operator in Operator},
    Names.ENCODINGS: {ENCODINGS[name].number: name for name in ENCODINGS},
}


# --- The signature ----------------------------------------------------------------------------------------

#: Bytes of a signature.
SIGNATURE_BYTES = 64
SIGNATURE = Field(
    "signature",
    Layout.OCTETS,
    "Signature",
    f"{SIGNATURE_BYTES} octets: Ed25519 (RFC 8032), by the issuer; of a UR or XUR by the router that sends "
    "it, of TABLE and COMMIT by the controller",
)

# --- The trailer ------------------------------------------------------------------------------------------

#: Bytes of a tag.
TAG_BYTES = 16
#: The numbers of the trailer; the tags follow them.
TRAILER = (
    Field("hop_key", Layout.U32, "Key of the hop", "number of the network key"),
    Field(
        "hop_counter",
        Layout.U64,
        "Counter of the hop",
        "greater than in every frame of the same stream that the sender sent before; a sender has two "
        "streams: MSG, XMSG and PUB, and all other types. The high 32 bits are its incarnation, so that a "
        "restart goes on above",
    ),
    Field("tag_count", Layout.U8, "Number of tags", "one for each receiver"),
)
TAG = Field("hop_tag", Layout.OCTETS, "Tag of the hop", f"{TAG_BYTES} octets, `tag_count` times")

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
