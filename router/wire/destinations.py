"""The destinations of a MSG: a DESTINATIONS or DESTINATION_MAP TLV before the attributes.

A router that sends a message on names other destinations to each neighbour, so they are kept apart from the
attributes: they are the first TLV of the body, which is cut off, and the rest is sent on as received.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from router.wire.format import MAX_DESTINATIONS, DecodeReason, Tlv
from router.wire.header import DecodeError
from router.wire.layouts import TLV_FORMATS, struct_of
from router.wire.tlv import TLV_HEADER, TLV_HEADER_LENGTH, encode_tlv, overrun, wrong_size

_FIRST = struct_of(TLV_FORMATS[Tlv.DESTINATION_MAP].fields)
_NODE = np.dtype(">u4")
_ONE = struct.Struct(">I")
_LIST, _MAP = int(Tlv.DESTINATIONS), int(Tlv.DESTINATION_MAP)
_NODE_MAX = 2**32 - 1


def encode_destinations(destinations: tuple[int, ...]) -> bytes:
    """The shorter of the two TLVs; a list, if both are as long.

    Raises:
        ValueError: no destination, too many, a number that is no node, or an order that does not ascend.
    """
    if len(destinations) == 1 and 0 <= destinations[0] <= _NODE_MAX:
        # Most PUBs have one, and an array costs more than all else.
        return encode_tlv(Tlv.DESTINATIONS, _ONE.pack(destinations[0]))
    first, last = (destinations[0], destinations[-1]) if destinations else (0, -1)
    ascending = all(a < b for a, b in pairwise(destinations))
    if not 0 <= first <= last <= _NODE_MAX or not ascending or len(destinations) > MAX_DESTINATIONS:
        raise ValueError(
            f"destinations {destinations}; expected 1 to {MAX_DESTINATIONS} nodes, each greater than the last"
        )
    bits = last - first + 1
    if _as_list(destinations):
        return encode_tlv(Tlv.DESTINATIONS, np.array(destinations, dtype=_NODE).tobytes())
    marked = np.zeros(bits, dtype=np.bool_)
    marked[np.array(destinations, dtype=np.int64) - first] = True
    return encode_tlv(Tlv.DESTINATION_MAP, _FIRST.pack(first) + np.packbits(marked).tobytes())


def _as_list(destinations: tuple[int, ...]) -> bool:
    bits = destinations[-1] - destinations[0] + 1
    return bits > MAX_DESTINATIONS or _NODE.itemsize * len(destinations) <= _FIRST.size + -(-bits // 8)


def split_destinations(body: bytes) -> tuple[tuple[int, ...] | None, bytes]:
    """The destinations of a message's body in ascending order (None: it has no such TLV), and its other TLVs.

    Raises:
        DecodeError: the TLV breaks a rule of the format.
    """
    if not body or body[0] not in (_LIST, _MAP):
        return None, body
    if len(body) < TLV_HEADER_LENGTH:
        raise overrun(0, len(body))
    number, length = TLV_HEADER.unpack_from(body)
    end = TLV_HEADER_LENGTH + length
    if end > len(body):
        raise overrun(0, len(body))
    value = body[TLV_HEADER_LENGTH:end]
    return (_listed(value) if number == _LIST else _mapped(value)), body[end:]


def _listed(value: bytes) -> tuple[int, ...]:
    size = _NODE.itemsize
    if len(value) % size:
        raise wrong_size(Tlv.DESTINATIONS, len(value), len(value) // size * size)
    _check_count(len(value) // size)
    nodes: npt.NDArray[np.int64] = np.frombuffer(value, dtype=_NODE).astype(np.int64)
    steps = np.diff(nodes)
    # The first wrong pair decides on the reason, as it does for a reader that takes one after the other.
    wrong = np.flatnonzero(steps <= 0)
    if wrong.size and steps[wrong[0]] == 0:
        raise DecodeError(DecodeReason.DUPLICATE_ENTRY, f"destination {nodes[wrong[0]]} twice in a message")
    if wrong.size:
        raise DecodeError(DecodeReason.BAD_VALUE, f"destination {nodes[wrong[0] + 1]} out of order")
    return tuple(nodes.tolist())


def _mapped(value: bytes) -> tuple[int, ...]:
    if len(value) < _FIRST.size:
        raise wrong_size(Tlv.DESTINATION_MAP, len(value), _FIRST.size)
    octets = np.frombuffer(value, dtype=np.uint8, offset=_FIRST.size)
    if octets.size * 8 > MAX_DESTINATIONS:
        raise DecodeError(DecodeReason.BAD_VALUE, f"{octets.size * 8} bits; at most {MAX_DESTINATIONS}")
    nodes = np.flatnonzero(np.unpackbits(octets)) + _FIRST.unpack_from(value)[0]
    _check_count(nodes.size)
    if nodes[-1] > _NODE_MAX:
        raise DecodeError(DecodeReason.BAD_VALUE, f"destination {nodes[-1]} does not fit in 32 bits")
    return tuple(nodes.tolist())


def _check_count(count: int) -> None:
    if not 1 <= count <= MAX_DESTINATIONS:
        raise DecodeError(DecodeReason.BAD_VALUE, f"{count} destinations; expected 1 to {MAX_DESTINATIONS}")


def describe_destinations(destinations: tuple[int, ...]) -> list[tuple[Tlv, dict[str, Any]]]:
    """The TLV that `encode_destinations` makes, by the field names of the format."""
    if _as_list(destinations):
        return [(Tlv.DESTINATIONS, {"destinations": [{"destination": node} for node in destinations]})]
    value = encode_destinations(destinations)[TLV_HEADER_LENGTH:]
    fields = {"first_destination": destinations[0], "destination_bits": value[_FIRST.size :]}
    return [(Tlv.DESTINATION_MAP, fields)]
