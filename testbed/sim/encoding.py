"""Encoding of frames to the bytes that the emulation would send, once for all links that a frame crosses."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from functools import lru_cache

from router.wire.addresses import port_addresses, ports_of
from router.wire.codec import fragment, payload_lengths
from router.wire.frames import Body, Frame, FrameType

#: Encoded or measured frames that are cached. A flood ends long before this number of other frames
#: has been sent.
_REMEMBERED = 4096


class Encoder:
    """Encodes frames and caches the latest.

    Routers that forward a frame at equal distance from its source share one object, whose id is the key.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[int, tuple[Frame, list[bytes]]] = OrderedDict()

    def payloads(self, frame: Frame) -> list[bytes]:
        """Returns the Ethernet payloads of a frame, one for each fragment.

        Raises:
            ValueError: the frame is outside the format (`router.wire.codec.fragment`).
        """
        # The cache keeps the frame, so that its id is not reused.
        entry = self._known.get(id(frame))
        if entry is None:
            entry = (frame, fragment(frame))
            self._known[id(frame)] = entry
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return entry[1]


class Measurer:
    """Measures frames in place of an `Encoder`, where nobody reads their bytes.

    Frames on their way share their body, whose id is the key.
    """

    def __init__(self) -> None:
        #: With the body, so that its id is not reused: the type of its frames, and bytes of their lengths.
        self._known: OrderedDict[int, tuple[Body, FrameType, list[bytes]]] = OrderedDict()

    def payloads(self, frame: Frame) -> list[bytes]:
        """Returns bytes of the lengths of those that `Encoder.payloads` gives.

        Raises:
            ValueError: the body is outside the format.
        """
        body = frame.body
        entry = self._known.get(id(body))
        # A frame that was received or signed may have another length than the next one with its body.
        own = frame.received is None and not frame.signature
        if own and entry is not None and entry[1] is frame.type:
            return entry[2]
        blank = [bytes(each) for each in payload_lengths(frame)]
        if own:
            self._known[id(body)] = body, frame.type, blank
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return blank


@lru_cache(maxsize=65_536)
def destinations(interfaces: frozenset[int]) -> tuple[tuple[bytes, tuple[int, ...]], ...]:
    """Returns the addresses that together name `interfaces`, each with its switch ports in ascending
    order."""
    return tuple((address, _sorted(ports_of(address))) for address in port_addresses(interfaces))


def _sorted(ports: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(ports))
