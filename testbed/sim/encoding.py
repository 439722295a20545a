"""Encoding of frames to the bytes that the emulation would send, once for all links that a frame crosses."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from router.wire.addresses import port_addresses, ports_of
from router.wire.codec import fragment
from router.wire.frames import Frame

#: Encoded frames that are cached. A flood ends long before this number of other frames has been sent.
_REMEMBERED = 4096


class Encoder:
    """Encodes frames and caches the latest.

    Routers that forward a frame at equal distance from its source share one object, whose id is the key.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[Frame, list[bytes]]] = {}

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
                del self._known[next(iter(self._known))]
        return entry[1]


@lru_cache(maxsize=65_536)
def destinations(interfaces: frozenset[int]) -> tuple[tuple[bytes, tuple[int, ...]], ...]:
    """Returns the addresses that together name `interfaces`, each with its switch ports in ascending
    order."""
    return tuple((address, _sorted(ports_of(address))) for address in port_addresses(interfaces))


def _sorted(ports: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(ports))
