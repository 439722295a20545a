"""The record of a delivery as text, in compiled code; the parts are `layout.TEXT`."""

from __future__ import annotations

from router.forwarding.compiler import callee
from router.forwarding.json_text import put_unsigned
from router.forwarding.layout import RECORD_END, RECORD_TIME, SEQ, TEXT_LENGTHS, TEXT_PLACES
from router.native.compiler import I64, Address
from router.native.system import memcpy


@callee
def put_text(texts: Address, number: I64, at: Address) -> Address:
    """Writes a part of `layout.TEXT`; returns the address behind it."""
    memcpy(at, texts + TEXT_PLACES[number], TEXT_LENGTHS[number])
    return at + TEXT_LENGTHS[number]


@callee
def put_delivery(
    texts: Address, at_ns: I64, head: Address, head_length: I64, source: I64, seq: I64, at: Address
) -> Address:
    """Writes a record as `router.records.applications` does; returns the address behind it.

    Args:
        head: `router.records.applications.delivery_head` of the application.
    """
    at = put_unsigned(at_ns, put_text(texts, RECORD_TIME, at))
    memcpy(at, head, head_length)
    at = put_unsigned(source, at + head_length)
    return put_text(texts, RECORD_END, put_unsigned(seq, put_text(texts, SEQ, at)))
