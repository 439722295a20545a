"""The frame types and the reasons for dropping a frame: tables of the wire format (`router.wire.format`)."""

from __future__ import annotations

from router.wire.format import (
    MAX_BODY_LENGTH,
    VERSION,
    DecodeReason,
    FrameFormat,
    FrameType,
    Occurs,
    Part,
    ReasonFormat,
    Tlv,
)

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
        ((Tlv.SUBSCRIPTION, Occurs.ONCE), (Tlv.OFFERED, Occurs.ANY_NUMBER), (Tlv.FILTER, Occurs.ANY_NUMBER)),
        "a subscription of the attention-limited service (docs/explanation/attention.md), down the tree of "
        "its home, the `issuer`, and back if children are asked in turn; `seq` is its number there",
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
        "a publication that the cache of the `issuer` replaced, or the answer to one; copies may go on",
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
