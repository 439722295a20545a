"""Frames as the bytes that the emulation would send, encoded once however many links they cross."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from router.wire.addresses import port_addresses, ports_of
from router.wire.codec import fragment
from router.wire.frames import Frame

#: Encoded frames that are remembered. A flood is over long before so many others have been sent.
_REMEMBERED = 4096


class Encoder:
    """Encodes frames and remembers the latest.

    Routers that send a frame on at the same distance from its source share one object, by which it is known.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[Frame, list[bytes]]] = {}

    def payloads(self, frame: Frame) -> list[bytes]:
        """The frame as Ethernet payloads, one for each fragment.

        Raises:
            ValueError: the frame is outside the format (`router.wire.codec.fragment`).
        """
        # The frame is kept with its encoding, so that its id is not used again meanwhile.
        entry = self._known.get(id(frame))
        if entry is None:
            entry = (frame, fragment(frame))
            self._known[id(frame)] = entry
            if len(self._known) > _REMEMBERED:
                del self._known[next(iter(self._known))]
        return entry[1]


@lru_cache(maxsize=65_536)
def destinations(interfaces: frozenset[int]) -> tuple[tuple[bytes, tuple[int, ...]], ...]:
    """The addresses that together name `interfaces`, each with its switch ports in ascending order."""
    return tuple((address, _sorted(ports_of(address))) for address in port_addresses(interfaces))


def _sorted(ports: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(ports))
