"""The fragments of CBCB frames in a capture, put together as a router does, by the time of their capture."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from captures.pcap.opening import open_bytes
from captures.pcap.walk import NO_TIME
from router.wire.header import ETHERNET_HEADER_LENGTH, DecodeError, Header, decode_header
from router.wire.intake import Key, Reassembler, frame_key

#: A packet that is read again: offset of its first byte in the file, bytes captured, time in ns.
Carried = tuple[int, int, int]


class _AnyClock(Reassembler):
    """For the times of captures, which go back where a clock was set or captures were joined."""

    def _over(self, now: float) -> list[Any]:
        """The partial frames whose time is over, in whatever order."""
        return [key for key, partial in self._partial.items() if partial.deadline <= now]


class CapturedFragments:
    """Collects the fragments of one capture, and where in it the fragments are whose frames are not whole."""

    def __init__(self) -> None:
        self._reassembler = _AnyClock()
        self._places: dict[Key, dict[int, Carried]] = {}

    def add(self, frame: bytes, place: Carried) -> tuple[Header, bytes] | None:
        """Take an Ethernet frame that carries a fragment; header and body if it makes a CBCB frame whole.

        Raises:
            DecodeError: as `Reassembler.add`.
        """
        source, payload = frame[6:12], frame[ETHERNET_HEADER_LENGTH:]
        header = decode_header(payload)
        if place[2] == NO_TIME:
            # Without a time there is no telling whether it belongs to what is held.
            return None
        now = place[2] / 1e9
        # At once and not when it is noticed: what is held then follows from the packets alone.
        self._reassembler.expire(now)
        key = frame_key(source, header)
        before = self._reassembler.held(key)
        if not before:
            self._places.pop(key, None)
        try:
            whole = self._reassembler.add_decoded(source, header, payload, now)
        except DecodeError:
            self._places.pop(key, None)
            raise
        if whole is not None:
            self._places.pop(key, None)
        elif header.fragment_index not in before:
            self._places.setdefault(key, {})[header.fragment_index] = place
        return whole

    def carry(self, path: str, carried: Sequence[Carried]) -> None:
        """Takes what another collector held (`held`), read again from the capture.

        Raises:
            OSError: it cannot be read.
        """
        for place in carried:
            frame = bytearray(place[1])
            with open_bytes(path, place[0]) as file:
                file.read_into(memoryview(frame))
            with suppress(DecodeError):
                self.add(bytes(frame), place)

    def held(self) -> tuple[Carried, ...]:
        """The fragments that are held, in the order of the file."""
        # Others may have been given up to make room, or after the timeout.
        self._places = {key: places for key, places in self._places.items() if self._reassembler.held(key)}
        return tuple(sorted(place for places in self._places.values() for place in places.values()))
