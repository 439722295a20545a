"""The TLVs, their records and the values in them: tables of the wire format (`router.wire.format`)."""

from __future__ import annotations

from router.predicates import Operator, Type
from router.predicates.encoded import BITS_MAX, HASHES_MAX
from router.wire.format import BITS, MAX_DESTINATIONS, NAMES, Field, Layout, Names, Record, Tlv, TlvFormat


def _bits(names: Names) -> str:
    """The sentence of a field of bits."""
    meanings = "; ".join(
        f"{int(flag)}: {flag.name}, {sentence}" for flag, (_, sentence) in BITS[names].items()
    )
    return f"{meanings}; other bits are sent as 0 and ignored when read"


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
        (Field("acknowledged", Layout.U8, "Acknowledged type", "a frame type", names=Names.FRAME_TYPES),),
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
        Tlv.ROUND, (Field("round", Layout.U32, "Round", "of the subscription"),), "a round of a subscription"
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
