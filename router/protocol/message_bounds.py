"""The size of messages that a router takes: one that it could not read within a turn is refused.

Applications cannot send larger ones: a request has at most 1 MiB (docs/application-socket.md).
"""

from __future__ import annotations

from collections.abc import Mapping

from router.content.base import MOST_ATTRIBUTES
from router.wire.frames import EncodedMessage
from router.wire.header import DecodeError
from router.wire.tlv import TLV_HEADER_LENGTH, tlvs

#: Bytes of the body of a message.
MOST_BYTES = 1024 * 1024
#: Bytes of an attribute: TLV header, length of the name, name, type, value. Most for a name and a value.
_LEAST, _LONGEST = TLV_HEADER_LENGTH + 3, TLV_HEADER_LENGTH + 2 + 255 + 65_535
_NUMBER = 8


def is_too_large(body: object) -> bool:
    """Whether a message has too many attributes or bytes; a body that breaks a rule of the format has not."""
    if isinstance(body, EncodedMessage):
        size = len(body.encoded)
        return size > MOST_BYTES or (size > _LEAST * MOST_ATTRIBUTES and _has_many(body.encoded))
    if not isinstance(body, Mapping) or len(body) * _LONGEST <= MOST_BYTES:
        return False
    return len(body) > MOST_ATTRIBUTES or sum(map(_size, body, body.values())) > MOST_BYTES


def _has_many(body: bytes) -> bool:
    """Whether a body has too many TLVs, the most of which are attributes."""
    try:
        return any(number >= MOST_ATTRIBUTES for number, _ in enumerate(tlvs(body)))
    except DecodeError:
        return False


def _size(name: str, value: object) -> int:
    return _LEAST + len(name.encode()) + (len(value.encode()) if isinstance(value, str) else _NUMBER)
