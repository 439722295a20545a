"""Frames as TLVs by the field names of the format, and as Scapy packets made of these fields."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from router.predicates import Constraint, Message, Predicate, type_of
from router.predicates.encoded import BloomMessage, BloomPredicate, Suite
from router.wire import layers
from router.wire.format import Flags, FrameType, Tlv
from router.wire.frames import (
    AddressedMessage,
    BroadcastTable,
    ClassifiedPredicate,
    EncodedMessage,
    Frame,
    Publication,
    Subscription,
)
from router.wire.header import FRAME_FORMATS, TLV_FORMATS
from router.wire.message import encode_destinations, message_of
from router.wire.tlv import TLV_HEADER_LENGTH
from router.wire.tree_classes import TreeClass


def from_frame(frame: Frame) -> Any:
    """A frame as an (unfragmented) `CBCB` packet."""
    header = layers.CBCB(
        type=int(frame.type),
        flags=int(frame.flags),
        hop_limit=frame.hop_limit,
        issuer=frame.issuer,
        seq=frame.seq,
        epoch=frame.epoch,
    )
    body = message_of(frame.body) if isinstance(frame.body, EncodedMessage) else frame.body
    tlvs = [layers.TLV_LAYERS[tlv](**_values(fields)) for tlv, fields in describe(frame.type, body)]
    packet = header / layers.BODIES[frame.type](tlvs=tlvs)
    if frame.signature:
        packet[layers.CBCB].flags |= int(Flags.SIGNED)
        packet /= layers.Signature(signature=frame.signature)
    return packet


def _values(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields as Scapy takes them."""
    made = dict(fields)
    if "attribute_name" in made:
        made["attribute_name"] = made["attribute_name"].encode()
    for name in layers.RECORDS.keys() & made.keys():
        made[name] = [layers.RECORDS[name](**_values(each)) for each in made[name]]
    return made


def describe(frame_type: FrameType, body: Any) -> list[tuple[Tlv, dict[str, Any]]]:
    """The TLVs of a body, each as its type and its fields; lengths and counts are left out."""
    if frame_type is FrameType.MSG:
        return describe_addressed(body)
    if frame_type is FrameType.XMSG:
        return describe_private(body)
    if isinstance(body, BloomPredicate):
        return describe_encoded(body)
    if isinstance(body, Predicate):
        return describe_predicate(body)
    if isinstance(body, Subscription):
        return describe_subscription(body)
    if isinstance(body, Publication):
        return describe_publication(body)
    if isinstance(body, BroadcastTable):
        return describe_table(body)
    ((tlv, _),) = FRAME_FORMATS[frame_type].tlvs
    (field,) = TLV_FORMATS[tlv].fields
    return [(tlv, {field.name: int(getattr(body, field.name))})]


def describe_message(message: Message) -> list[tuple[Tlv, dict[str, Any]]]:
    """The TLVs of a message by the field names of the format."""
    return [
        (Tlv.ATTRIBUTE, {"attribute_name": name, "value_type": type_of(value), "value": value})
        for name, value in message.items()
    ]


def describe_addressed(
    body: Message | EncodedMessage | AddressedMessage,
) -> list[tuple[Tlv, dict[str, Any]]]:
    """The TLVs of the body of a MSG by the field names of the format."""
    addresses = describe_destinations(body.destinations) if isinstance(body, AddressedMessage) else []
    return addresses + describe_message(message_of(body))


def describe_destinations(destinations: tuple[int, ...]) -> list[tuple[Tlv, dict[str, Any]]]:
    """The TLV that `encode_destinations` makes, by the field names of the format."""
    encoded = encode_destinations(destinations)
    if encoded[0] == Tlv.DESTINATIONS:
        return [(Tlv.DESTINATIONS, {"destinations": [{"destination": node} for node in destinations]})]
    # A TLV header, and the u32 of the first destination, are before the bits.
    fields = {"first_destination": destinations[0], "destination_bits": encoded[TLV_HEADER_LENGTH + 4 :]}
    return [(Tlv.DESTINATION_MAP, fields)]


def describe_predicate(predicate: Predicate) -> list[tuple[Tlv, dict[str, Any]]]:
    """The TLVs of a predicate by the field names of the format."""
    found: list[tuple[Tlv, dict[str, Any]]] = [
        (Tlv.FILTER, {"constraints": [_describe_constraint(constraint) for constraint in filter_]})
        for filter_ in predicate
    ]
    if isinstance(predicate, ClassifiedPredicate):
        for node, first in reversed(predicate.classes):
            found.insert(first, (Tlv.CLASS_NODE, {"class_node": node}))
    return found


def _describe_constraint(constraint: Constraint) -> dict[str, Any]:
    return {
        "attribute_name": constraint.name,
        "value_type": constraint.type,
        "operator": constraint.operator,
        "value": constraint.value,
    }


def describe_encoded(predicate: BloomPredicate) -> list[tuple[Tlv, dict[str, Any]]]:
    """The TLVs of a predicate by the field names of the format."""
    found: list[tuple[Tlv, dict[str, Any]]] = []
    suite: Suite | None = None
    for filter_ in predicate.encoded:
        if filter_.suite != suite:
            suite = filter_.suite
            found.append((Tlv.KEY, _describe_key(suite)))
        found.append((Tlv.BLOOM, {"bloom": filter_.row}))
    return found


def _describe_key(suite: Suite) -> dict[str, Any]:
    return {
        "key_id": suite.key_id,
        "set_bits": suite.bits,
        "hashes": suite.hashes,
        "encoding": suite.encoding,
    }


def describe_private(body: BloomMessage | AddressedMessage) -> list[tuple[Tlv, dict[str, Any]]]:
    """The TLVs of the body of an XMSG by the field names of the format."""
    if isinstance(body, AddressedMessage):
        assert isinstance(body.message, BloomMessage)
        return describe_destinations(body.destinations) + describe_private(body.message)
    client, counter = struct.unpack_from("!IQ", body.sealed)
    return [
        (Tlv.KEY, _describe_key(body.suite)),
        (Tlv.BLOOM, {"bloom": body.row}),
        (Tlv.SEALED, {"client": client, "counter": counter, "ciphertext": body.sealed[12:]}),
    ]


def describe_subscription(body: Subscription) -> list[tuple[Tlv, dict[str, Any]]]:
    """The TLVs of a SUB by the field names of the format."""
    head = {
        "round": body.round,
        "nonce": body.nonce,
        "remaining": body.remaining,
        "lifetime_left_us": body.lifetime_left_us,
        "freshness_us": body.freshness_us,
        "subscription_flags": int(body.flags),
    }
    offered = [
        (Tlv.OFFERED, {"publication_source": source, "publication_seq": seq}) for source, seq in body.offered
    ]
    return [(Tlv.SUBSCRIPTION, head), *offered, *describe_predicate(body.predicate)]


def describe_publication(body: Publication) -> list[tuple[Tlv, dict[str, Any]]]:
    """The TLVs of a PUB or FLUSH by the field names of the format."""
    head = {
        "publication_source": body.source,
        "publication_seq": body.seq,
        "age_us": body.age_us,
        "publication_flags": int(body.flags),
    }
    homes = describe_destinations(body.homes) if body.homes else []
    return [*homes, (Tlv.PUBLICATION, head), *describe_message(body.message)]


def describe_table(table: BroadcastTable) -> list[tuple[Tlv, dict[str, Any]]]:
    """The TLVs of a table by the field names of the format."""
    neighbours = [
        (Tlv.NEIGHBOUR, {"interface": interface, "node": node}) for interface, node in table.neighbours
    ]
    classes = [(Tlv.TREE_CLASS, _describe_class(each)) for each in table.classes]
    sources = [{"class_number": number} for number in table.class_of.tolist()]
    found: list[tuple[Tlv, dict[str, Any]]] = [*neighbours, *classes, (Tlv.CLASS_OF, {"sources": sources})]
    if table.subtrees is not None:
        found.append((Tlv.SUBTREES, {"subtrees": np.packbits(table.subtrees, axis=1).tobytes()}))
    return found


def _describe_class(tree_class: TreeClass) -> dict[str, Any]:
    children = [
        {
            "reusable": int(child in tree_class.reusable),
            "off_tree": int(child in tree_class.off_tree),
            "interface": child,
        }
        for child in tree_class.children
    ]
    return {"parent_interface": tree_class.parent, "children": children}
