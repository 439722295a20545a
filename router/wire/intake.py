"""Frames in: Ethernet frames are counted, checked for their sender, reassembled and decoded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

from router.wire.addresses import ETHERNET_HEADER_LENGTH, sender_of
from router.wire.codec import WholeFrame
from router.wire.format import Flags
from router.wire.fragments import Reassembler
from router.wire.frames import Frame
from router.wire.header import (
    HEADER_LENGTH,
    TYPE_NAMES,
    UNDECODABLE,
    DecodeError,
    Header,
    decode_header,
    signature_of,
)

#: Reason for dropping a frame with the source address of nobody who may have sent it.
BAD_SOURCE = "bad_source"
_TAGGED = int(Flags.TAGGED)


class RefusedError(Exception):
    """A frame that is dropped before it is read; the text is the reason."""


class Opener(Protocol):
    """Verifies frames: `router.security.guard.Guard`."""

    def open(self, data: bytes, header: Header) -> bytes:
        """The payload of an Ethernet frame that is authentic, without its trailer and padding.

        Raises RefusedError: it is not.
        """


class FrameIntake:
    """Takes Ethernet frames and returns protocol frames; drops and counts all others.

    Args:
        read: makes the frame of a header, its whole body and its signature: `codec.read_frame` or
            `codec.forwarded_frame`.
        log: called with the reason and more fields for each dropped Ethernet frame.
        guard: verifies each frame before more of it is read than the header; None: all are taken.

    Attributes:
        frames: Ethernet frames by type, `UNDECODABLE` for a header that breaks a rule. Each fragment is one.
        bytes: their length as on the wire, Ethernet header included, check sequence excluded.
        dropped: dropped Ethernet frames by reason.
        reassembler: the frames that are not whole.
    """

    def __init__(
        self,
        read: Callable[[Header, bytes, bytes], Frame],
        log: Callable[[str, dict[str, Any]], None] = lambda _reason, _fields: None,
        guard: Opener | None = None,
    ) -> None:
        self.frames: Counter[str] = Counter()
        self.bytes = 0
        self.dropped: Counter[str] = Counter()
        self.reassembler = Reassembler()
        self._read = read
        self._log = log
        self._guard = guard

    def take(
        self, data: bytes, now: float, expected: int | None = None
    ) -> tuple[int, Frame, WholeFrame] | None:
        """The protocol frame that an Ethernet frame makes whole, if any.

        Args:
            data: from the destination address on.
            now: seconds on a clock that never goes back.
            expected: the only node that can have sent the frame; None: any node, or the controller.

        Returns:
            The sender (a node, or `addresses.CONTROLLER`), the frame, and its wire form, with the header of
            the Ethernet frame that completed it.
        """
        self.bytes += len(data)
        payload = data[ETHERNET_HEADER_LENGTH:]
        type_ = UNDECODABLE
        try:
            header = decode_header(payload)
            type_ = TYPE_NAMES[header.type]
            sender = sender_of(data)
            if sender is None or (expected is not None and sender != expected):
                self._drop(BAD_SOURCE, data, type=type_)
                return None
            if self._guard is not None:
                payload = self._guard.open(data, header)
                header = header._replace(flags=header.flags & ~_TAGGED)
            whole = self.reassembler.add_decoded(sender, header, payload, now)
            if whole is None:
                return None
            signature = signature_of(header, payload)
            frame = self._read(*whole, signature)
        except RefusedError as refused:
            self._drop(str(refused), data, type=type_)
            return None
        except DecodeError as error:
            self._drop(error.reason.value, data, error=str(error))
            return None
        finally:
            self.frames[type_] += 1
        # A plain tuple: a named one takes as long to make as the header does to decode.
        return sender, frame, (payload[:HEADER_LENGTH], whole[1], signature)

    def _drop(self, reason: str, data: bytes, **fields: str) -> None:
        self.dropped[reason] += 1
        self._log(reason, {"source": data[6:12].hex(":"), **fields})
