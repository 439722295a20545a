"""The record of a delivery as text, in compiled code; the parts are `layout.TEXT`."""

from __future__ import annotations

import numpy as np

from router.forwarding.compiler import callee
from router.forwarding.layout import RECORD_END, RECORD_TIME, SEQ, TEXT_LENGTHS, TEXT_PLACES
from router.native.compiler import I64, Address
from router.native.memory import put_byte
from router.native.system import memcpy

_TEN, _0 = np.uint64(10), ord("0")


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


@callee
def put_unsigned(value: I64, at: Address) -> Address:
    """Writes the decimal digits of an unsigned number of 64 bits; returns the address behind them."""
    left, digits = np.uint64(value), 1
    while left >= _TEN:
        left //= _TEN
        digits += 1
    left = np.uint64(value)
    for place in range(digits - 1, -1, -1):
        rest = left // _TEN
        put_byte(at, place, _0 + np.int64(left - rest * _TEN))
        left = rest
    return at + digits
