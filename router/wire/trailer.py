"""The trailer of a tagged frame: the tags of one hop, behind body and signature and before padding.

Layout: `router.wire.format.TRAILER`, then `tag_count` tags. A reader without keys takes the trailer for
padding.
"""

from __future__ import annotations

from typing import NamedTuple

from router.wire.format import TAG_BYTES, Flags
from router.wire.format import TRAILER as FIELDS
from router.wire.header import decode_header, length_with_signature
from router.wire.layouts import HEADER_OFFSETS, struct_of

HEAD = struct_of(FIELDS)
_FLAGS = HEADER_OFFSETS["flags"]
_TAGGED = int(Flags.TAGGED)


class Trailer(NamedTuple):
    """The fields of a trailer."""

    hop_key: int
    hop_counter: int
    tags: tuple[bytes, ...]


def trailer_length(tags: int) -> int:
    """The bytes of a trailer with so many tags."""
    return HEAD.size + TAG_BYTES * tags


def is_tagged(payload: bytes) -> bool:
    """Whether an Ethernet payload with a whole header says that a trailer follows its body."""
    return bool(payload[_FLAGS] & _TAGGED)


def marked(payload: bytes) -> bytes:
    """The payload, which says that a trailer follows."""
    return payload[:_FLAGS] + bytes((payload[_FLAGS] | _TAGGED,)) + payload[_FLAGS + 1 :]


def unmarked(payload: bytes) -> bytes:
    """The payload, which says that no trailer follows."""
    return payload[:_FLAGS] + bytes((payload[_FLAGS] & ~_TAGGED,)) + payload[_FLAGS + 1 :]


def read_trailer(payload: bytes) -> Trailer | None:
    """The trailer of a payload; None: there is none, or it is cut short.

    Args:
        payload: header, body, perhaps a signature, trailer, and perhaps padding.

    Raises:
        DecodeError: the header breaks a rule.
    """
    at = length_with_signature(decode_header(payload))
    if not is_tagged(payload) or len(payload) < at + HEAD.size:
        return None
    key, counter, count = HEAD.unpack_from(payload, at)
    at += HEAD.size
    if len(payload) < at + TAG_BYTES * count:
        return None
    return Trailer(
        key, counter, tuple(payload[at + TAG_BYTES * i : at + TAG_BYTES * (i + 1)] for i in range(count))
    )
