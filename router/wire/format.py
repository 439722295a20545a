"""The wire format as tables: names, numbers, layouts, and a sentence for each.

Data only.

Derived from the tables: the constants of the struct codec (`header`, `tlv`), the Scapy layers (`layers`), the
NumPy record of the captures (`captures.frames.decoder`), the numbers in compiled loops, the constants of the
Wireshark dissector and the tables of docs/reference/wire-format.md (`python -m router.wire.generate` writes
both).

The sentences are Markdown. Types and operators of values are the model's (`router.predicates.model`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum, IntFlag, StrEnum

from router.predicates.encoded.encodings import ENCODINGS
from router.predicates.encoded.model import BITS_MAX, HASHES_MAX
from router.predicates.model import SYMBOLS, Operator, Type

VERSION = 1
#: Greatest `total_length`, so that the memory of a receiver has a bound: 16 MiB.
MAX_BODY_LENGTH = 16 * 1024 * 1024
#: Most nodes that a message is addressed to, so that the memory of a receiver has a bound.
MAX_DESTINATIONS = 65_536


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
    """Numbers of the TLV types; `TLVS` describes them. 0 is never valid: zero bytes are not read as TLVs."""

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
    """How often a TLV occurs in a frame."""

    ANY_NUMBER = "any number"
    ONCE = "exactly one"
    OPTIONAL = "at most one"


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

    `FRAMES` says in which frames it occurs.
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
        "of a UR: a downstream router is missing from it, because its sender gave up waiting. Without a "
        "meaning in other frames",
    ),
    Flags.IDENTIFIED: (
        "Identified receiver advertisement",
        "of an RA: its predicate replaces that of every earlier RA of the issuer, by `seq`; without a filter "
        "it withdraws the predicate. Without a meaning in other frames",
    ),
    Flags.TAGGED: (
        "Tagged",
        "behind the body, before any padding, is a trailer with the tags of this hop, below",
    ),
    Flags.SIGNED: (
        "Signed",
        "behind the body, before any trailer, is a signature of the whole frame, below",
    ),
    Flags.RELIABLE: (
        "Reliable",
        "of an RA, XRA, SR, UR or XUR: its receiver answers with a RECEIPT. No meaning in other frames",
    ),
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


def _bits(names: Names) -> str:
    """The sentence of a field of bits."""
    meanings = "; ".join(
        f"{int(flag)}: {flag.name}, {sentence}" for flag, (_, sentence) in BITS[names].items()
    )
    return f"{meanings}; other bits are sent as 0 and ignored when read"


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

# --- Frame types ------------------------------------------------------------------------------------------

FRAMES = (
    FrameFormat(
        FrameType.MSG,
        "router → routers",
        (
            (Tlv.DESTINATIONS, Occurs.OPTIONAL),
            (Tlv.DESTINATION_MAP, Occurs.OPTIONAL),
            (Tlv.ATTRIBUTE, Occurs.ANY_NUMBER),
        ),
        "a message: its attributes (paper, figure 2)",
    ),
    FrameFormat(
        FrameType.RA,
        "router → routers",
        ((Tlv.FILTER, Occurs.ANY_NUMBER),),
        "receiver advertisement: the predicate of the issuer's applications (figure 3)",
    ),
    FrameFormat(
        FrameType.SR,
        "router → routers",
        ((Tlv.TIMEOUT, Occurs.ONCE),),
        "sender request: asks for the predicates downstream (figure 6)",
    ),
    FrameFormat(
        FrameType.UR,
        "router → router",
        ((Tlv.CLASS_NODE, Occurs.ANY_NUMBER), (Tlv.FILTER, Occurs.ANY_NUMBER)),
        "update reply: the predicate of the subtree that answers an SR (figure 7)",
    ),
    FrameFormat(
        FrameType.HELLO,
        "router → controller",
        ((Tlv.INCARNATION, Occurs.ONCE),),
        "the router is up and asks for its table",
    ),
    FrameFormat(
        FrameType.COMMIT,
        "controller → router",
        ((Tlv.OLDEST_EPOCH, Occurs.ONCE),),
        "every router has the table of `epoch`; originate in it. Of epoch 0: the ACK alone is asked for",
    ),
    FrameFormat(
        FrameType.ACK,
        "router → controller",
        ((Tlv.ACKNOWLEDGED, Occurs.ONCE),),
        "the answer to the frame of the controller with the number `seq`; `epoch` is the router's own: after "
        "a TABLE the newest epoch that it has a table of, after a COMMIT the epoch in which it originates",
    ),
    FrameFormat(
        FrameType.SUB,
        "router → routers",
        (
            (Tlv.SUBSCRIPTION, Occurs.ONCE),
            (Tlv.OFFERED, Occurs.ANY_NUMBER),
            (Tlv.FILTER, Occurs.ANY_NUMBER),
        ),
        "a subscription of the attention-limited service (docs/explanation/attention.md), down the tree of "
        "its home, the `issuer`; `seq` is its number there",
    ),
    FrameFormat(
        FrameType.PUB,
        "router → routers",
        (
            (Tlv.DESTINATIONS, Occurs.OPTIONAL),
            (Tlv.DESTINATION_MAP, Occurs.OPTIONAL),
            (Tlv.PUBLICATION, Occurs.ONCE),
            (Tlv.ATTRIBUTE, Occurs.ANY_NUMBER),
        ),
        "a publication for the homes of subscriptions, its destinations, down the tree of the router that "
        "serves them, the `issuer`; exactly one of DESTINATIONS and DESTINATION_MAP",
    ),
    FrameFormat(
        FrameType.OVERLOAD,
        "router → routers",
        ((Tlv.ROUND, Occurs.ONCE),),
        "the subscription `seq` of the `issuer` needs nothing more in this round; where its SUB went",
    ),
    FrameFormat(
        FrameType.FLUSH,
        "router → router",
        ((Tlv.PUBLICATION, Occurs.ONCE), (Tlv.ATTRIBUTE, Occurs.ANY_NUMBER)),
        "a publication that the cache of the `issuer` replaced, or the answer to one, over one hop",
    ),
    FrameFormat(
        FrameType.XMSG,
        "router → routers",
        (
            (Tlv.DESTINATIONS, Occurs.OPTIONAL),
            (Tlv.DESTINATION_MAP, Occurs.OPTIONAL),
            (Tlv.KEY, Occurs.ONCE),
            (Tlv.BLOOM, Occurs.ONCE),
            (Tlv.SEALED, Occurs.ONCE),
        ),
        "a private message: its encoding as a set of bits, and its attributes, sealed. In all else it is a "
        "MSG",
    ),
    FrameFormat(
        FrameType.XRA,
        "router → routers",
        ((Tlv.KEY, Occurs.ANY_NUMBER), (Tlv.BLOOM, Occurs.ANY_NUMBER)),
        "an RA whose predicate is encoded: a set of bits for each filter",
    ),
    FrameFormat(
        FrameType.XUR,
        "router → router",
        ((Tlv.KEY, Occurs.ANY_NUMBER), (Tlv.BLOOM, Occurs.ANY_NUMBER)),
        "a UR whose predicate is encoded",
    ),
    FrameFormat(
        FrameType.TABLE,
        "controller → router",
        (
            (Tlv.NEIGHBOUR, Occurs.ANY_NUMBER),
            (Tlv.TREE_CLASS, Occurs.ANY_NUMBER),
            (Tlv.CLASS_OF, Occurs.ONCE),
            (Tlv.SUBTREES, Occurs.OPTIONAL),
        ),
        "the router's part in every broadcast tree of `epoch`",
    ),
    FrameFormat(
        FrameType.RECEIPT,
        "router → router",
        ((Tlv.ACKNOWLEDGED, Occurs.ONCE),),
        "the answer over one hop to a frame with the flag RELIABLE, whose `issuer`, `seq` and `epoch` it has",
    ),
)

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
STANDS_FOR = {
    FrameType.XMSG: FrameType.MSG,
    FrameType.XRA: FrameType.RA,
    FrameType.XUR: FrameType.UR,
}

# --- TLVs -------------------------------------------------------------------------------------------------

_NAME = (
    Field("name_length", Layout.U8, "Length of the name", "at least 1", length_of="attribute_name"),
    Field("attribute_name", Layout.TEXT, "Name", "name of the attribute"),
    Field("value_type", Layout.U8, "Value type", "below", names=Names.VALUE_TYPES),
)

CONSTRAINT = Record(
    "CONSTRAINT",
    (
        *_NAME,
        Field("operator", Layout.U8, "Operator", "below", names=Names.OPERATORS),
        Field("value_length", Layout.U16, "Length of the value", "bytes of the value", length_of="value"),
        Field("value", Layout.VALUE, "Value", "the value to compare with; none for `any`"),
    ),
    "a condition on one attribute",
)

CHILD = Record(
    "CHILD",
    (
        Field(
            "reusable",
            Layout.BITS,
            "Update replies may be reused",
            "beyond this child, the trees of the class hold the same nodes as this router's own tree: a UR "
            "from this child may be reused, an SR answered from the table (paper, section 3.5.4)",
            bits=1,
        ),
        Field(
            "off_tree",
            Layout.BITS,
            "Off the tree",
            "beyond this child, the trees of the class hold no node: frames are sent to the child "
            "(reverse-path forwarding), the neighbour drops them, and it sends no UR",
            bits=1,
        ),
        Field("interface", Layout.BITS, "Interface", "interface number of the child", bits=14),
    ),
    "an interface that leads away from the sources of a TREE_CLASS",
)

DESTINATION = Record(
    "DESTINATION",
    (Field("destination", Layout.U32, "Destination", "a node; greater than the one before"),),
    "a node that a message is for",
)

SOURCE = Record(
    "SOURCE",
    (
        Field(
            "class_number",
            Layout.U16,
            "Class",
            "the class of the source: 1 for the first TREE_CLASS of the TABLE; 0: the source "
            "cannot be reached",
        ),
    ),
    "the source of a tree: node 0, 1, 2, ...",
)

TLVS = (
    TlvFormat(
        Tlv.ATTRIBUTE,
        (*_NAME, Field("value", Layout.VALUE, "Value", "to the end of the TLV")),
        "an attribute of a message",
    ),
    TlvFormat(
        Tlv.FILTER,
        (
            Field(
                "constraints",
                Layout.RECORDS,
                "Constraint",
                "to the end of the TLV; without any, the filter matches every message",
                records=CONSTRAINT,
            ),
        ),
        "a filter of a predicate: the conjunction of its constraints",
    ),
    TlvFormat(
        Tlv.TIMEOUT,
        (Field("timeout_us", Layout.U32, "Timeout (us)", "microseconds that the issuer waits"),),
        "how long the issuer of an SR waits for the UR",
    ),
    TlvFormat(
        Tlv.INCARNATION,
        (Field("incarnation", Layout.U32, "Incarnation", "greater at each start of the router"),),
        "the incarnation of a router",
    ),
    TlvFormat(
        Tlv.NEIGHBOUR,
        (
            Field("interface", Layout.U16, "Interface", "interface number"),
            Field("node", Layout.U32, "Node", "the node behind the interface"),
        ),
        "a neighbour of the router",
    ),
    TlvFormat(
        Tlv.OLDEST_EPOCH,
        (
            Field(
                "oldest_epoch", Layout.U32, "Oldest epoch", "frames of older epochs are no longer forwarded"
            ),
        ),
        "the oldest epoch in use",
    ),
    TlvFormat(
        Tlv.ACKNOWLEDGED,
        (
            Field(
                "acknowledged",
                Layout.U8,
                "Acknowledged type",
                "a frame type",
                names=Names.FRAME_TYPES,
            ),
        ),
        "the type of the frame that is acknowledged",
    ),
    TlvFormat(
        Tlv.SUBTREES,
        (
            Field(
                "subtrees",
                Layout.OCTETS,
                "Subtrees",
                "a row for each TREE_CLASS, in their order. A row has a bit for each TREE_CLASS, the first "
                "one in the highest bit of the first octet, and ends with bits of 0 to whole octets",
            ),
        ),
        "which nodes are in the router's subtrees: bit b of row a is 1 if the sources of class b are in the "
        "router's subtree of the trees of class a (they all are, or none of them is)",
    ),
    TlvFormat(
        Tlv.DESTINATIONS,
        (
            Field(
                "destinations",
                Layout.RECORDS,
                "Destination",
                "to the end of the TLV, at least one",
                records=DESTINATION,
            ),
        ),
        "the nodes that a message is for, one by one; the first TLV of the body. "
        f"At most {MAX_DESTINATIONS:,}",
    ),
    TlvFormat(
        Tlv.DESTINATION_MAP,
        (
            Field("first_destination", Layout.U32, "First destination", "the node of the first bit"),
            Field(
                "destination_bits",
                Layout.OCTETS,
                "Destinations",
                "a bit for each node from the first on, in the highest bit of the first octet",
            ),
        ),
        "the nodes that a message is for, as bits, at least one of which is 1; in the place of DESTINATIONS "
        f"where it is shorter. At most {MAX_DESTINATIONS:,} bits",
    ),
    TlvFormat(
        Tlv.CLASS_NODE,
        (Field("class_node", Layout.U32, "Node of a class", "any node of the class"),),
        "the FILTERs behind it, up to the next CLASS_NODE, are of the nodes that the receiver of the UR has "
        "in the class of this node; FILTERs before the first CLASS_NODE are of nodes of any class",
    ),
    TlvFormat(
        Tlv.SUBSCRIPTION,
        (
            Field("round", Layout.U32, "Round", "0, and one more with each refresh"),
            Field("nonce", Layout.U32, "Nonce", "differs between the SUBs of a round"),
            Field(
                "remaining",
                Layout.U32,
                "Remaining publications",
                "publications that the subscription lacks, less those that routers on the way have offered",
            ),
            Field(
                "lifetime_left_us", Layout.U64, "Lifetime left (us)", "microseconds to the end of the round"
            ),
            Field(
                "freshness_us", Layout.U64, "Freshness (us)", "greatest age of a publication, microseconds"
            ),
            Field(
                "subscription_flags",
                Layout.U8,
                "Flags of the subscription",
                _bits(Names.SUBSCRIPTION_FLAGS),
                names=Names.SUBSCRIPTION_FLAGS,
            ),
        ),
        "a subscription of the attention-limited service, whose predicate is that of the FILTERs",
    ),
    TlvFormat(
        Tlv.PUBLICATION,
        (
            Field("publication_source", Layout.U32, "Source", "the router at which it was uploaded"),
            Field("publication_seq", Layout.U64, "Number at the source", "its number there"),
            Field("age_us", Layout.U64, "Age (us)", "microseconds since the upload"),
            Field(
                "publication_flags",
                Layout.U8,
                "Flags of the publication",
                _bits(Names.PUBLICATION_FLAGS),
                names=Names.PUBLICATION_FLAGS,
            ),
        ),
        "a publication, whose attributes are those of the ATTRIBUTEs",
    ),
    TlvFormat(
        Tlv.ROUND,
        (Field("round", Layout.U32, "Round", "of the subscription"),),
        "a round of a subscription",
    ),
    TlvFormat(
        Tlv.OFFERED,
        (
            Field("publication_source", Layout.U32, "Source", "the router at which it was uploaded"),
            Field("publication_seq", Layout.U64, "Number at the source", "its number there"),
        ),
        "a publication that the subscription has, or that a router on the way has offered",
    ),
    TlvFormat(
        Tlv.KEY,
        (
            Field("key_id", Layout.U32, "Key", "number of the key, at least 1"),
            Field("set_bits", Layout.U16, "Bits of a set", f"m, a multiple of 8, 8 to {BITS_MAX:,}"),
            Field("hashes", Layout.U8, "Hash functions", f"k, 1 to {HASHES_MAX}"),
            Field(
                "encoding",
                Layout.U8,
                "Encoding",
                "of constraints as strings: "
                + ", ".join(f"{number} {name}" for number, name in NAMES[Names.ENCODINGS].items())
                + "; at least 1",
                names=Names.ENCODINGS,
            ),
        ),
        "the key and the parameters of the sets of bits behind it, up to the next KEY. In XRA and XUR all "
        "fields may be 0: the sets behind it have no bits, and messages of every key match them",
    ),
    TlvFormat(
        Tlv.BLOOM,
        (
            Field(
                "bloom",
                Layout.OCTETS,
                "Set of bits",
                "`set_bits` / 8 octets; bit i is the bit of value 2^(i mod 8) of octet i div 8",
            ),
        ),
        "a set of bits: of a message, or of a filter, which a message of the same KEY matches if it has all "
        "bits of the filter",
    ),
    TlvFormat(
        Tlv.SEALED,
        (
            Field(
                "client",
                Layout.U32,
                "Client",
                "chosen by the client at random; the first 4 bytes of the nonce",
            ),
            Field(
                "counter", Layout.U64, "Counter", "of the client's messages; the last 8 bytes of the nonce"
            ),
            Field("ciphertext", Layout.OCTETS, "Ciphertext", "the attributes and the tag"),
        ),
        "the attributes of a message, encrypted and authenticated",
    ),
    TlvFormat(
        Tlv.TREE_CLASS,
        (
            Field(
                "parent_interface",
                Layout.U16,
                "Parent interface",
                "leads towards the sources; 0 at the source itself",
            ),
            Field("child_count", Layout.U16, "Child count", "number of children", count_of="children"),
            Field(
                "children",
                Layout.RECORDS,
                "Child",
                "interfaces that lead away from the sources, each once",
                records=CHILD,
            ),
        ),
        "the router's part in the broadcast trees of a class: of all sources for which the router has this "
        "parent and the same set of nodes in its subtree. Another class with the same parent has another set",
    ),
    TlvFormat(
        Tlv.CLASS_OF,
        (
            Field(
                "sources",
                Layout.RECORDS,
                "Source",
                "to the end of the TLV; the first is node 0",
                records=SOURCE,
            ),
        ),
        "the class of every source; a source behind the last cannot be reached",
    ),
)

#: The records of the TLVs.
RECORDS = tuple(field.records for row in TLVS for field in row.fields if field.records is not None)

# --- Values -----------------------------------------------------------------------------------------------

#: Value type -> (bytes of the value, what they are).
VALUES = {
    Type.STRING: ("0 to 65,535", "UTF-8"),
    Type.INTEGER: ("8", "i64"),
    Type.DOUBLE: ("8", "f64, finite; −0.0 is kept"),
    Type.BOOLEAN: ("1", "0 or 1"),
}

OPERATORS = {
    Operator.EQ: "equal",
    Operator.NE: "not equal",
    Operator.LT: "less",
    Operator.GT: "greater",
    Operator.LE: "less or equal",
    Operator.GE: "greater or equal",
    Operator.PREFIX: "prefix, strings only",
    Operator.SUFFIX: "suffix, strings only",
    Operator.SUBSTRING: "substring, strings only",
    Operator.ANY: "existence of an attribute of the type; `value_length` 0",
}

# --- Reasons ----------------------------------------------------------------------------------------------

#: In the header, in the order in which a reader checks.
REASONS = (
    ReasonFormat(
        DecodeReason.TRUNCATED,
        Part.HEADER,
        "Frame cut short",
        "fewer than 32 bytes, or (last of the header's checks) fewer than `payload_length` after the header",
    ),
    ReasonFormat(DecodeReason.BAD_VERSION, Part.HEADER, "Unknown version", f"`version` is not {VERSION}"),
    ReasonFormat(
        DecodeReason.BAD_TYPE,
        Part.HEADER,
        "Unknown frame type",
        "`type` is none of the above; reserved numbers are unknown types",
    ),
    ReasonFormat(DecodeReason.BAD_RESERVED, Part.HEADER, "Reserved field is not 0", "`reserved` is not 0"),
    ReasonFormat(
        DecodeReason.TOO_LARGE,
        Part.HEADER,
        "Body too large",
        f"`total_length` exceeds {MAX_BODY_LENGTH >> 20} MiB; in reassembly, also a frame beyond the "
        "receiver's memory",
    ),
    ReasonFormat(
        DecodeReason.BAD_FRAGMENT,
        Part.HEADER,
        "Fragments contradict each other",
        "`fragment_index` ≥ `fragment_count`, or `fragment_count` is 0; in reassembly: fragments contradict "
        "each other or do not add up",
    ),
    ReasonFormat(
        DecodeReason.BAD_LENGTH,
        Part.HEADER,
        "Lengths disagree",
        "one fragment: `payload_length` ≠ `total_length`; several: `payload_length` is 0, or leaves less "
        "than one byte for each other fragment",
    ),
    ReasonFormat(
        DecodeReason.BAD_TLV,
        Part.BODY,
        "Malformed TLV",
        "a TLV or constraint runs past what holds it or is too short; a TLV of fixed size has another size; "
        "`child_count` disagrees with the size; TLV type 0; a known TLV in a frame that has no place for it; "
        "a TLV missing that must occur exactly once, or repeated that may occur once; a size of SUBTREES "
        "that the number of TREE_CLASSes contradicts; destinations that are not in the first TLV; a PUB "
        "without destinations; a BLOOM without a KEY before it, or of another size than its KEY says",
    ),
    ReasonFormat(
        DecodeReason.BAD_NAME, Part.BODY, "Malformed name", "an empty name, or one that is not UTF-8"
    ),
    ReasonFormat(
        DecodeReason.BAD_VALUE,
        Part.BODY,
        "Malformed value",
        "unknown value type; a value of the wrong size; not UTF-8, not finite, neither 0 nor 1; string over "
        "65,535 bytes; `acknowledged` is no frame type; a `class_number` for which the TABLE has no "
        "TREE_CLASS; a bit of 1 behind a row of SUBTREES; destinations that do not ascend, none, too many, "
        "or over 32 bits; a KEY outside its ranges",
    ),
    ReasonFormat(
        DecodeReason.BAD_CONSTRAINT,
        Part.BODY,
        "Malformed constraint",
        "unknown operator; a strings-only operator on another type; `any` with a value",
    ),
    ReasonFormat(
        DecodeReason.DUPLICATE_ATTRIBUTE,
        Part.BODY,
        "Attribute twice",
        "a name twice in one message, whatever the types",
    ),
    ReasonFormat(
        DecodeReason.DUPLICATE_ENTRY,
        Part.BODY,
        "Entry twice",
        "an interface twice in one TABLE; a child twice in one TREE_CLASS; a destination twice in one MSG",
    ),
)
